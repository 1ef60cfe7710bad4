#include "num/digest.h"

#include <gtest/gtest.h>

#include "num/philox.h"

namespace zeroulp::num {
namespace {

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(xxh3_128({}).hex(), "99aa06d3014798d86001c324468d497f") << "XXH3-128 of nothing, as the reference gives it";
  Sha256 empty;
  EXPECT_EQ(empty.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.update("a");
  abc.update("bc");
  EXPECT_EQ(abc.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, OneBitChangesIt) {
  std::vector<float> v(1000, 1.5f);
  const Digest before = digest_of(std::span<const float>(v));
  v[777] = std::bit_cast<float>(std::bit_cast<uint32_t>(v[777]) ^ 1u);
  EXPECT_NE(before, digest_of(std::span<const float>(v)));
}

TEST(Philox, StreamsAreReproducibleAndDiffer) {
  PhiloxStream a(1, 2), b(1, 2), c(1, 3);
  for (int i = 0; i < 9; ++i) {
    const uint32_t x = a.next();
    EXPECT_EQ(x, b.next());
    EXPECT_NE(x, c.next());
  }
}

}  // namespace
}  // namespace zeroulp::num
