#include <gtest/gtest.h>

#include "codec/samples.h"
#include "zeroulp.h"

namespace zeroulp::codec {
namespace {

TEST(CApi, RoundTripAndErrors) {
  const ByteVector raw = exponent_data(Type::kBF16, 50'001, 120, 8, 9, 1, Shape::kBell);
  zu_codec_options o = {ZU_BF16, ZU_LEVEL_BALANCED, 0, 0, nullptr};
  uint64_t bound = 0, used = 0, raw_bytes = 0;
  ASSERT_EQ(zu_codec_bound(&o, raw.size(), &bound), ZU_CODEC_OK);
  ByteVector frame(bound);
  EXPECT_EQ(zu_codec_encode(&o, raw.data(), raw.size(), frame.data(), bound - 1, &used), ZU_CODEC_ROOM);
  ASSERT_EQ(zu_codec_encode(&o, raw.data(), raw.size(), frame.data(), bound, &used), ZU_CODEC_OK);
  FrameOptions same;
  same.type = Type::kBF16;
  EXPECT_EQ(ByteVector(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(used)), frame_of(kReference, same, raw));
  int type = 0;
  uint32_t blocks = 0;
  ASSERT_EQ(zu_codec_inspect(frame.data(), used, &type, &raw_bytes, &blocks), ZU_CODEC_OK);
  EXPECT_EQ(type, ZU_BF16);
  EXPECT_EQ(raw_bytes, raw.size());
  EXPECT_EQ(blocks, 7u);
  ByteVector back(raw.size());
  ASSERT_EQ(zu_codec_decode(frame.data(), used, back.data(), back.size()), ZU_CODEC_OK);
  EXPECT_EQ(back, raw);
  EXPECT_EQ(zu_codec_decode(frame.data(), used, back.data(), back.size() - 2), ZU_CODEC_ROOM);
  frame[used - 40] ^= std::byte{1};
  EXPECT_NE(zu_codec_decode(frame.data(), used, back.data(), back.size()), ZU_CODEC_OK);
  o.block_bytes = 3;
  EXPECT_EQ(zu_codec_bound(&o, raw.size(), &bound), ZU_CODEC_OPTIONS);
  for (int number = -3; number < 40; ++number) EXPECT_NE(zu_codec_error(number), nullptr);
}

}  // namespace
}  // namespace zeroulp::codec
