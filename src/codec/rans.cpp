#include "codec/rans.h"

#include <algorithm>
#include <array>

namespace zeroulp::codec::rans {
namespace {

struct Table {
  uint32_t first = 0, last = 0;
  std::array<uint16_t, 256> frequency{};
  std::array<uint16_t, 257> begin{};

  uint32_t string_bits() const { return first == last ? 0 : (last - first + 1) * kPrecisionBits; }
  void accumulate() {
    for (size_t s = 0; s < 256; ++s) begin[s + 1] = static_cast<uint16_t>(begin[s] + frequency[s]);
  }
};

// Every symbol that occurs has at least 1; what rounding leaves over goes to the most frequent one, what it lacks comes from the largest.
Table make_table(const uint8_t* values, uint32_t n) {
  std::array<uint32_t, 256> counts{};
  for (uint32_t i = 0; i < n; ++i) ++counts[values[i]];
  Table t;
  t.first = 255;
  int sum = 0;
  for (uint32_t s = 0; s < 256; ++s) {
    if (counts[s] == 0) continue;
    t.first = std::min(t.first, s);
    t.last = s;
    t.frequency[s] = static_cast<uint16_t>(std::max<uint64_t>(1, uint64_t{counts[s]} * kTotal / n));
    sum += t.frequency[s];
  }
  for (; sum > static_cast<int>(kTotal); --sum) --*std::max_element(t.frequency.begin(), t.frequency.end());
  *std::max_element(t.frequency.begin(), t.frequency.end()) += static_cast<uint16_t>(static_cast<int>(kTotal) - sum);
  t.accumulate();
  return t;
}

void put16(std::byte*& to, uint32_t value) {
  *to++ = static_cast<std::byte>(value);
  *to++ = static_cast<std::byte>(value >> 8);
}
uint32_t get16(const std::byte* from) { return static_cast<uint32_t>(from[0]) | static_cast<uint32_t>(from[1]) << 8; }

void put_table(const Table& t, std::byte*& to) {
  *to++ = static_cast<std::byte>(t.first);
  *to++ = static_cast<std::byte>(t.last);
  if (t.first == t.last) return;
  uint32_t held = 0, filled = 0;
  for (uint32_t s = t.first; s <= t.last; ++s) {
    held |= uint32_t{t.frequency[s]} << filled;
    for (filled += kPrecisionBits; filled >= 8; filled -= 8, held >>= 8) *to++ = static_cast<std::byte>(held);
  }
  if (filled != 0) *to++ = static_cast<std::byte>(held);
}

// False unless the frequencies are sound: the first and last symbol occur, and the sum is 4096.
bool get_table(const std::byte*& from, const std::byte* end, uint32_t alphabet, Table& t) {
  if (end - from < 2) return false;
  t.first = static_cast<uint32_t>(*from++);
  t.last = static_cast<uint32_t>(*from++);
  if (t.first > t.last || t.last >= alphabet) return false;
  if (t.first == t.last) {
    t.frequency[t.first] = kTotal;
    t.accumulate();
    return true;
  }
  const uint32_t bytes = (t.string_bits() + 7) / 8;
  if (end - from < static_cast<std::ptrdiff_t>(bytes)) return false;
  uint32_t held = 0, filled = 0, sum = 0;
  for (uint32_t s = t.first; s <= t.last; ++s) {
    for (; filled < kPrecisionBits; filled += 8) held |= static_cast<uint32_t>(*from++) << filled;
    t.frequency[s] = static_cast<uint16_t>(held & (kTotal - 1));
    sum += t.frequency[s];
    held >>= kPrecisionBits;
    filled -= kPrecisionBits;
  }
  t.accumulate();
  return held == 0 && sum == kTotal && t.frequency[t.first] != 0 && t.frequency[t.last] != 0;
}

}  // namespace

uint32_t encode(const uint8_t* values, uint32_t n, std::byte* to, uint32_t limit, std::vector<uint16_t>& words) {
  const Table t = make_table(values, n);
  std::array<uint32_t, kLanes> states;
  states.fill(kStart);
  words.clear();
  for (uint32_t i = n; i-- > 0;) {  // backwards, so that the decoder goes forwards
    const uint32_t f = t.frequency[values[i]], begin = t.begin[values[i]];
    uint32_t& x = states[i % kLanes];
    if (x >= uint64_t{f} << (32 - kPrecisionBits)) {
      words.push_back(static_cast<uint16_t>(x));
      x >>= 16;
    }
    x = (x / f << kPrecisionBits) + x % f + begin;
  }
  const uint64_t bytes = 2 + (t.string_bits() + 7) / 8 + kLanes * 4 + uint64_t{2} * words.size();
  if (bytes > limit) return 0;
  put_table(t, to);
  for (const uint32_t x : states) {
    put16(to, x & 0xFFFF);
    put16(to, x >> 16);
  }
  for (size_t i = words.size(); i-- > 0;) put16(to, words[i]);
  return static_cast<uint32_t>(bytes);
}

Fault decode(const std::byte* from, uint32_t bytes, uint32_t n, uint32_t alphabet, uint8_t* values) {
  const std::byte* const end = from + bytes;
  Table t;
  if (!get_table(from, end, alphabet, t)) return Fault::kEntropy;
  if (end - from < static_cast<std::ptrdiff_t>(kLanes * 4)) return Fault::kSize;
  std::array<uint32_t, kLanes> states;
  for (uint32_t& x : states) {
    x = get16(from) | get16(from + 2) << 16;
    from += 4;
    if (x < kStart) return Fault::kEntropy;
  }
  std::array<uint8_t, kTotal> symbol_at;
  for (uint32_t s = t.first; s <= t.last; ++s)
    for (uint32_t i = 0; i < t.frequency[s]; ++i) symbol_at[t.begin[s] + i] = static_cast<uint8_t>(s);

  for (uint32_t i = 0; i < n; ++i) {
    uint32_t& x = states[i % kLanes];
    const uint32_t slot = x % kTotal, s = symbol_at[slot];
    values[i] = static_cast<uint8_t>(s);
    x = t.frequency[s] * (x / kTotal) + slot - t.begin[s];
    if (x < kStart) {
      if (end - from < 2) return Fault::kSize;
      x = x << 16 | get16(from);
      from += 2;
    }
  }
  for (const uint32_t x : states)
    if (x != kStart) return Fault::kEntropy;
  if (end - from >= static_cast<std::ptrdiff_t>(kAlign)) return Fault::kSize;
  for (; from < end; ++from)
    if (*from != std::byte{0}) return Fault::kPadding;
  return Fault::kNone;
}

}  // namespace zeroulp::codec::rans
