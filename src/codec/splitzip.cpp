#include "codec/splitzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace zeroulp::codec::splitzip {
namespace {

constexpr uint8_t kNoCode = 255;

Status check_shape(const Tensor& t) {
  if (t.chunk == 0 || t.chunk > 65536) return bad_input(fmt::format("SplitZip tensor: chunks of {} values; 1 to 65,536 are possible", t.chunk));
  if (t.sign_mantissa.size() != t.values || t.codes.size() != t.values / 2 + t.values % 2)
    return bad_input(fmt::format("SplitZip tensor: {} bytes of signs and {} of codes do not hold {} values", t.sign_mantissa.size(), t.codes.size(), t.values));
  if (t.escape_chunk.size() != t.escape_exponent.size() || t.escape_position.size() != t.escape_exponent.size())
    return bad_input("SplitZip tensor: the three arrays of escapes differ in length");
  return {};
}

}  // namespace

Codebook calibrate(std::span<const uint16_t> values) {
  std::array<uint64_t, 256> counts{};
  for (const uint16_t v : values) ++counts[(v >> 7) & 255];
  std::array<uint8_t, 256> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return counts[a] > counts[b]; });
  Codebook book;
  std::copy_n(order.begin(), book.size(), book.begin());
  return book;
}

Result<Tensor> encode(std::span<const uint16_t> values, const Codebook& codebook, uint32_t chunk) {
  std::array<uint8_t, 256> code_of;
  code_of.fill(kNoCode);
  for (size_t i = codebook.size(); i-- > 0;) code_of[codebook[i]] = static_cast<uint8_t>(i);
  Tensor t;
  t.values = values.size();
  t.chunk = chunk;
  t.codebook = codebook;
  t.sign_mantissa.resize(values.size());
  t.codes.resize(values.size() / 2 + values.size() % 2);
  ZU_TRY(check_shape(t));
  if (values.size() / chunk > INT32_MAX) return bad_input("SplitZip tensor: more chunks than its numbers can name");
  for (size_t i = 0; i < values.size(); ++i) {
    const uint8_t exponent = static_cast<uint8_t>(values[i] >> 7), code = code_of[exponent];
    t.sign_mantissa[i] = static_cast<uint8_t>(((values[i] >> 8) & 0x80) | (values[i] & 0x7F));
    if (code != kNoCode) {
      t.codes[i / 2] = static_cast<uint8_t>(t.codes[i / 2] | code << (i % 2 == 0 ? 4 : 0));
      continue;
    }
    t.escape_chunk.push_back(static_cast<int32_t>(i / chunk));
    t.escape_position.push_back(static_cast<uint16_t>(i % chunk));
    t.escape_exponent.push_back(exponent);
  }
  return t;
}

Status decode(const Tensor& t, std::span<uint16_t> values) {
  ZU_TRY(check_shape(t));
  if (values.size() != t.values) return bad_input(fmt::format("SplitZip tensor: holds {} values, not {}", t.values, values.size()));
  for (size_t i = 0; i < t.escape_exponent.size(); ++i) {
    const uint64_t at = t.escape_chunk[i] < 0 ? t.values : static_cast<uint64_t>(t.escape_chunk[i]) * t.chunk + t.escape_position[i];
    if (at >= t.values || t.escape_position[i] >= t.chunk)
      return bad_input(fmt::format("SplitZip tensor: escape {} lies at value {} of chunk {}, outside the {} values", i, t.escape_position[i], t.escape_chunk[i], t.values));
  }
  const auto value = [&](size_t i, uint32_t exponent) {
    return static_cast<uint16_t>((t.sign_mantissa[i] & 0x80) << 8 | exponent << 7 | (t.sign_mantissa[i] & 0x7F));
  };
  for (size_t i = 0; i < values.size(); ++i) values[i] = value(i, t.codebook[(t.codes[i / 2] >> (i % 2 == 0 ? 4 : 0)) & 15]);
  for (size_t i = 0; i < t.escape_exponent.size(); ++i) {
    const size_t at = static_cast<size_t>(t.escape_chunk[i]) * t.chunk + t.escape_position[i];
    values[at] = value(at, t.escape_exponent[i]);
  }
  return {};
}

}  // namespace zeroulp::codec::splitzip
