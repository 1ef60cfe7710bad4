#include "codec/splitzip.h"

#include <gtest/gtest.h>

#include "codec/samples.h"

namespace zeroulp::codec {
namespace {

std::vector<uint16_t> values_of(const ByteVector& bytes) {
  std::vector<uint16_t> values(bytes.size() / 2);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), 2 * values.size());
  return values;
}

TEST(SplitZip, TheLayoutIsItsAuthors) {
  splitzip::Codebook book{};
  for (uint8_t i = 0; i < 16; ++i) book[i] = static_cast<uint8_t>(120 + i);
  // 1.0, -1.5, infinity: exponents 127 (code 7), 127, 255 (escape).
  const std::vector<uint16_t> values = {0x3F80, 0xBFC0, 0x7F80};
  auto t = splitzip::encode(values, book, 2);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->sign_mantissa, (std::vector<uint8_t>{0x00, 0xC0, 0x00}));
  EXPECT_EQ(t->codes, (std::vector<uint8_t>{0x77, 0x00}));
  EXPECT_EQ(t->escape_chunk, (std::vector<int32_t>{1}));
  EXPECT_EQ(t->escape_position, (std::vector<uint16_t>{0}));
  EXPECT_EQ(t->escape_exponent, (std::vector<uint8_t>{255}));
  EXPECT_EQ(t->payload_bytes(), 3u + 2 + 7);
}

TEST(SplitZip, ValuesComeBackAndDamageIsRefused) {
  for (const uint32_t n : {0u, 1u, 7u, 1024u, 5001u}) {
    const std::vector<uint16_t> values = values_of(exponent_data(Type::kBF16, n, 127, 9, 200, n));
    auto t = splitzip::encode(values, splitzip::calibrate(values));
    ASSERT_TRUE(t);
    std::vector<uint16_t> back(n);
    ASSERT_TRUE(splitzip::decode(*t, back));
    EXPECT_EQ(back, values);
    if (t->escape_chunk.empty()) continue;
    splitzip::Tensor bad = *t;
    bad.escape_chunk.back() = static_cast<int32_t>(n / 1024 + 1);
    EXPECT_FALSE(splitzip::decode(bad, back)) << "an escape behind the end";
    bad = *t, bad.escape_chunk.front() = -1;
    EXPECT_FALSE(splitzip::decode(bad, back));
    bad = *t, bad.escape_position.front() = 1024;
    EXPECT_FALSE(splitzip::decode(bad, back)) << "a position outside its chunk";
    bad = *t, bad.codes.pop_back();
    EXPECT_FALSE(splitzip::decode(bad, back));
    bad = *t, bad.escape_position.pop_back();
    EXPECT_FALSE(splitzip::decode(bad, back));
  }
}

}  // namespace
}  // namespace zeroulp::codec
