#include "codec/xxh3.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include "codec/samples.h"

namespace zeroulp::codec {
namespace {

TEST(Xxh3, EqualsTheLibraryAtEveryLength) {
  const ByteVector bytes = random_bytes(70000, 1);
  for (uint32_t length = 0; length < 5000; ++length) ASSERT_EQ(xxh3::of(bytes.data(), length), XXH3_64bits(bytes.data(), length)) << length;
  for (const uint32_t length : {16383u, 16384u, 16385u, 18432u, 65536u, 70000u}) EXPECT_EQ(xxh3::of(bytes.data() + 1, length - 1), XXH3_64bits(bytes.data() + 1, length - 1));
}

}  // namespace
}  // namespace zeroulp::codec
