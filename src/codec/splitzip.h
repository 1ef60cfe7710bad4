// SplitZip's layout of BF16 tensors (repository Intelligent-Microsystems-Lab/SplitZip, as released), for exchange with it. It is five arrays
// and no container: sign and mantissa, a byte each (sign in bit 7); codes of four bits, the even value in the high half of its byte; and, for
// exponents outside the codebook, whose code is 0, chunk, position within the chunk and exponent.
//
// Unlike its own decoder, this one checks every length and place before it writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace zeroulp::codec::splitzip {

using Codebook = std::array<uint8_t, 16>;

struct Tensor {
  uint64_t values = 0;
  uint32_t chunk = 1024;  // values per chunk, 1 to 65,536
  Codebook codebook{};    // distinct exponents
  std::vector<uint8_t> sign_mantissa;      // values
  std::vector<uint8_t> codes;              // (values + 1) / 2
  std::vector<int32_t> escape_chunk;       // one per escape, by place
  std::vector<uint16_t> escape_position;
  std::vector<uint8_t> escape_exponent;

  // As its authors count: without codebook and lengths.
  uint64_t payload_bytes() const { return sign_mantissa.size() + codes.size() + 7 * escape_exponent.size(); }
};

// The 16 most frequent exponents of BF16 values, the lowest of equals first.
Codebook calibrate(std::span<const uint16_t> values);
// Any values; escapes that the layout cannot number (chunks beyond 2^31) are refused.
Result<Tensor> encode(std::span<const uint16_t> values, const Codebook& codebook, uint32_t chunk = 1024);
// `values` has tensor.values elements.
Status decode(const Tensor& tensor, std::span<uint16_t> values);

}  // namespace zeroulp::codec::splitzip
