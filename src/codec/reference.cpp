// The inner loops as the format page states them.
#include <xxhash.h>

#include <cstring>

#include "codec/kernels.h"

namespace zeroulp::codec {
namespace {

void split_bf16(const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t value = static_cast<uint32_t>(raw[2 * i]) | static_cast<uint32_t>(raw[2 * i + 1]) << 8;
    rest[i] = static_cast<std::byte>(value << 1 | value >> 15);
    symbols[i] = static_cast<uint8_t>(value >> 7);
  }
}

void merge_bf16(const std::byte* rest, const uint8_t* symbols, uint32_t n, std::byte* raw) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t rotated = static_cast<uint32_t>(symbols[i]) << 8 | static_cast<uint32_t>(rest[i]);
    const uint32_t value = rotated >> 1 | rotated << 15;
    raw[2 * i] = static_cast<std::byte>(value);
    raw[2 * i + 1] = static_cast<std::byte>(value >> 8);
  }
}

uint32_t encode_w4(const std::byte* raw, uint32_t n, uint8_t begin, std::byte* rest, std::byte* codes, uint8_t* left, Soon&) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; ++i) {
    uint8_t symbol = 0;
    split_bf16(raw + 2 * i, 1, rest + i, &symbol);
    const bool known = symbol >= begin && symbol < begin + 15;
    const std::byte code{static_cast<uint8_t>(known ? symbol - begin : 15)};
    if (!known) left[count++] = symbol;
    codes[i / 2] = i % 2 == 0 ? code : codes[i / 2] | code << 4;
  }
  return count;
}

uint32_t decode_w4(const std::byte* rest, const std::byte* codes, uint32_t n, uint8_t begin, const uint8_t* left, std::byte* raw, Soon&) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int code = static_cast<int>(codes[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15;
    const uint8_t symbol = code < 15 ? static_cast<uint8_t>(begin + code) : left[count++];
    merge_bf16(rest + i, &symbol, 1, raw + 2 * i);
  }
  return count;
}

uint32_t code(const uint8_t* symbols, uint32_t n, Window w, uint8_t* codes, uint8_t* left) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int symbol = symbols[i], end = w.begin + w.width + w.hole_width;
    const bool in_hole = symbol >= w.hole && symbol < w.hole + w.hole_width;
    if (symbol >= w.begin && symbol < end && !in_hole) {
      codes[i] = static_cast<uint8_t>(symbol - w.begin - (symbol >= w.hole ? w.hole_width : 0));
    } else {
      codes[i] = w.width;
      left[count++] = symbols[i];
    }
  }
  return count;
}

void decode(const uint8_t* codes, uint32_t n, Window w, const uint8_t* left, uint8_t* symbols) {
  for (uint32_t i = 0; i < n; ++i) {
    const int symbol = w.begin + codes[i];
    symbols[i] = codes[i] == w.width ? *left++ : static_cast<uint8_t>(symbol + (symbol >= w.hole ? w.hole_width : 0));
  }
}

uint32_t count(const uint8_t* codes, uint32_t n, uint8_t value) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < n; ++i) found += codes[i] == value;
  return found;
}

// Four tables take turns: neighbours are often equal, and the next count of a symbol need not wait for the one before.
void histogram(const uint8_t* symbols, uint32_t n, uint32_t* counts, Soon&) {
  uint32_t of[4][256] = {};
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, symbols + i, 8);
    for (int k = 0; k < 8; ++k) ++of[k % 4][eight >> (8 * k) & 255];
  }
  for (; i < n; ++i) ++of[0][symbols[i]];
  for (int s = 0; s < 256; ++s) counts[s] = of[0][s] + of[1][s] + of[2][s] + of[3][s];
}

void pack(const uint8_t* codes, uint32_t n, int bits, std::byte* to) {
  uint32_t held = 0;
  int filled = 0;
  for (uint32_t i = 0; i < n; ++i) {
    held |= static_cast<uint32_t>(codes[i]) << filled;
    for (filled += bits; filled >= 8; filled -= 8, held >>= 8) *to++ = static_cast<std::byte>(held);
  }
  if (filled > 0) *to = static_cast<std::byte>(held);
}

void unpack(const std::byte* from, uint32_t n, int bits, uint8_t* codes) {
  uint32_t held = 0;
  int filled = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (filled < bits) held |= static_cast<uint32_t>(*from++) << filled, filled += 8;
    codes[i] = static_cast<uint8_t>(held & ((1u << bits) - 1));
    held >>= bits;
    filled -= bits;
  }
}

uint64_t hash(const std::byte* bytes, size_t count_, Soon&) { return XXH3_64bits(bytes, count_); }

}  // namespace

const Kernels kReference = {"reference", Needs::kNothing, split_bf16, merge_bf16, encode_w4, decode_w4, code, decode, count, histogram, pack, unpack, hash, nullptr, nullptr};

}  // namespace zeroulp::codec
