// The entropy-coded mode: range asymmetric numeral systems (J. Duda, "Asymmetric numeral systems", 2013) with 32 interleaved states of
// 32 bits, words of 16 bits and frequencies that sum to 4096. Bytes are coded whole; of wider types the exponent symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec/format.h"

namespace zeroulp::codec::rans {

inline constexpr uint32_t kLanes = 32, kPrecisionBits = 12, kTotal = 1u << kPrecisionBits;
inline constexpr uint32_t kStart = 1u << 16;  // every state before the first symbol is coded, and after the last is decoded

constexpr bool has_rest(const TypeInfo& t) { return t.bytes > 1; }
constexpr uint32_t symbols(const TypeInfo& t) { return has_rest(t) ? 1u << t.exponent_bits : 256; }

// Writes table, states and words of n symbols to `to`; returns their bytes, or 0 if these would be more than `limit`.
uint32_t encode(const uint8_t* values, uint32_t n, std::byte* to, uint32_t limit, std::vector<uint16_t>& words);
// `bytes` includes the padding. Symbols are below `alphabet`.
Fault decode(const std::byte* from, uint32_t bytes, uint32_t n, uint32_t alphabet, uint8_t* values);

}  // namespace zeroulp::codec::rans
