#include "codec/symbols.h"

#include <algorithm>
#include <cstring>

#include "codec/choose.h"

namespace zeroulp::codec {
namespace {

uint32_t load(const std::byte* raw, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(raw[i]) << (8 * i);
  return value;
}

uint32_t mask(int bits) { return bits == 32 ? ~0u : (1u << bits) - 1; }

// Left by one within the element: exponent on top, then mantissa, then sign.
uint32_t rotate(uint32_t value, int width) { return ((value << 1) | (value >> (width - 1))) & mask(width); }
uint32_t rotate_back(uint32_t value, int width) { return (value >> 1) | ((value & 1) << (width - 1)); }

uint8_t symbol_of(const TypeInfo& t, const std::byte* raw) {
  return static_cast<uint8_t>(rotate(load(raw, t.bytes), 8 * t.bytes) >> rest_bits(t));
}

void subtract_table(const Coding& coding, uint32_t n, uint8_t* symbols) {
  const uint8_t mod = static_cast<uint8_t>(mask(type_info(coding.type).exponent_bits));
  const uint32_t period = static_cast<uint32_t>(coding.table.size());
  for (uint32_t row = 0; row < n; row += period)
    for (uint32_t i = 0, end = std::min(period, n - row); i < end; ++i)
      symbols[row + i] = static_cast<uint8_t>((symbols[row + i] - coding.table[i]) & mod);
}

void add_table(const Coding& coding, uint32_t n, uint8_t* symbols) {
  const uint8_t mod = static_cast<uint8_t>(mask(type_info(coding.type).exponent_bits));
  const uint32_t period = static_cast<uint32_t>(coding.table.size());
  for (uint32_t row = 0; row < n; row += period)
    for (uint32_t i = 0, end = std::min(period, n - row); i < end; ++i)
      symbols[row + i] = static_cast<uint8_t>((symbols[row + i] + coding.table[i]) & mod);
}

}  // namespace

void split(const Kernels& kernels, const Coding& coding, const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols, uint8_t* bits) {
  const TypeInfo& t = type_info(coding.type);
  if (t.type == Type::kBF16) {
    kernels.split_bf16(raw, n, rest, symbols);
  } else {
    const int planes = rest_bits(t) / 8, tail = rest_bits(t) % 8;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t rotated = rotate(load(raw + i * static_cast<uint32_t>(t.bytes), t.bytes), 8 * t.bytes);
      symbols[i] = static_cast<uint8_t>(rotated >> rest_bits(t));
      for (int p = 0; p < planes; ++p) rest[static_cast<uint32_t>(p) * n + i] = static_cast<std::byte>(rotated >> (8 * p));
      bits[i] = static_cast<uint8_t>((rotated >> (8 * planes)) & mask(tail));
    }
    if (tail != 0) kernels.pack(bits, n, tail, rest + static_cast<uint32_t>(planes) * n);
  }
  if (!coding.table.empty()) subtract_table(coding, n, symbols);
}

bool merge(const Kernels& kernels, const Coding& coding, const std::byte* rest, uint8_t* symbols, uint32_t n, std::byte* raw, uint8_t* bits) {
  const TypeInfo& t = type_info(coding.type);
  if (!coding.table.empty()) add_table(coding, n, symbols);
  if (t.type == Type::kBF16) {
    kernels.merge_bf16(rest, symbols, n, raw);
    return true;
  }
  const int planes = rest_bits(t) / 8, tail = rest_bits(t) % 8;
  if (tail != 0) {
    const std::byte* string = rest + static_cast<uint32_t>(planes) * n;
    if (!string_ends_clean(string, n, tail)) return false;
    kernels.unpack(string, n, tail, bits);
  }
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t rotated = static_cast<uint32_t>(symbols[i]) << rest_bits(t);
    for (int p = 0; p < planes; ++p) rotated |= static_cast<uint32_t>(rest[static_cast<uint32_t>(p) * n + i]) << (8 * p);
    if (tail != 0) rotated |= static_cast<uint32_t>(bits[i]) << (8 * planes);
    const uint32_t value = rotate_back(rotated, 8 * t.bytes);
    for (int b = 0; b < t.bytes; ++b) raw[i * static_cast<uint32_t>(t.bytes) + static_cast<uint32_t>(b)] = static_cast<std::byte>(value >> (8 * b));
  }
  return true;
}

uint32_t sample(const Kernels& kernels, const Coding& coding, const std::byte* raw, uint32_t n, uint32_t* histogram, Soon& soon) {
  const TypeInfo& t = type_info(coding.type);
  const uint32_t period = static_cast<uint32_t>(coding.table.size());
  const uint8_t mod = static_cast<uint8_t>(mask(t.exponent_bits));
  constexpr uint32_t kRows = kBlockValuesLimit / kRowValues;
  uint8_t all[(kRows / 8 + 1) * kRowValues + kSlack];
  uint32_t samples = 0;
  for (uint32_t row = 0; row * kRowValues < n; ++row) {
    if (!row_is_sampled(row)) continue;
    const uint32_t first = row * kRowValues, count = std::min(kRowValues, n - first);
    uint8_t* const symbols = all + samples;
    if (t.type == Type::kBF16) {
      std::byte rest[kRowValues + kSlack];
      kernels.split_bf16(raw + 2 * first, count, rest, symbols);
    } else {
      for (uint32_t i = 0; i < count; ++i) symbols[i] = symbol_of(t, raw + (first + i) * static_cast<uint32_t>(t.bytes));
    }
    if (period != 0)
      for (uint32_t i = 0; i < count; ++i) symbols[i] = static_cast<uint8_t>((symbols[i] - coding.table[(first + i) % period]) & mod);
    samples += count;
  }
  kernels.histogram(all, samples, histogram, soon);
  return samples;
}

bool string_ends_clean(const std::byte* string, uint32_t n, int bits) {
  const uint32_t used = static_cast<uint32_t>(uint64_t{n} * static_cast<uint32_t>(bits) % 8);
  return used == 0 || static_cast<uint32_t>(string[string_bytes(n, bits) - 1]) >> used == 0;
}

}  // namespace zeroulp::codec
