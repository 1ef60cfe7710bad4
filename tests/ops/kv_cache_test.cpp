#include "ops/kv_cache/contract.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fp_env.h"
#include "ops/case_inputs.h"
#include "ops/quant_rows/reference.h"

namespace zeroulp::ops::kv_cache {
namespace {

using num::bf16_to_float;

struct Cache {
  explicit Cache(const Layout& l) : layout(l), bytes(static_cast<size_t>(l.bytes()), std::byte{0x5A}) {}
  View<const std::byte> view() const { return View<const std::byte>(bytes.data(), layout); }
  bool store(int64_t slot, const std::vector<uint16_t>& k, const std::vector<uint16_t>& v) {
    return kv_cache::store(bytes.data(), layout, slot, k.data(), v.data());
  }
  Layout layout;
  std::vector<std::byte> bytes;
};

int32_t stored_key(const Cache& c, int64_t slot, int64_t i) {
  const auto view = c.view();
  const int64_t at = slot * c.layout.d + i;
  return c.layout.key_width == 15 ? 128 * view.key_hi[at] + view.key_lo[at] : view.key_hi[at];
}

class KvCache : public testing::Test {
 private:
  FpEnvScope fp_env_;
};

TEST_F(KvCache, PartsDoNotOverlapAndBlocksStayAligned) {
  for (const int width : {8, 15}) {
    for (const int64_t d : {2, 6, 64, 80, 128}) {
      const Layout l{d, width};
      EXPECT_EQ(l.bytes() % 128, 0);
      EXPECT_EQ(l.key_scales() % 4, 0);
      EXPECT_EQ(l.values(), (width == 15 ? 2 : 1) * 128 * d);
      EXPECT_EQ(l.bytes(), l.values() + 128 * d + 128 * 4 + 128);
    }
  }
}

// Keys are the quantiser's codes at the attention range; values are the least power-of-two scale that holds the row, rounded to even.
TEST_F(KvCache, StoresTheQuantisersCodes) {
  num::PhiloxStream random(3);
  for (const int width : {8, 15}) {
    for (const int64_t d : {6, 64, 80}) {
      Cache c({d, width});
      for (int64_t slot = 0; slot < kBlock; ++slot) {
        const auto k = conformance::random_bf16s(random, d, 110, 130), v = conformance::random_bf16s(random, d, 115, 128);
        ASSERT_TRUE(c.store(slot, k, v));
        std::vector<int16_t> codes(static_cast<size_t>(d));
        float scale = 0;
        uint8_t fault = 0;
        quant_rows::reference({k.data(), d, 1, d, width, num::kAttentionRange, nullptr, codes.data(), d, &scale, &fault});
        EXPECT_EQ(c.view().key_scales[slot], scale);
        float top = 0;
        for (const uint16_t x : v) top = std::max(top, std::fabs(bf16_to_float(x)));
        const int e = c.view().value_exponents[slot];
        EXPECT_LE(top, 127.0f * num::pow2(e));
        EXPECT_GT(top, 127.0f * num::pow2(e - 1));
        for (int64_t i = 0; i < d; ++i) {
          ASSERT_EQ(stored_key(c, slot, i), codes[static_cast<size_t>(i)]);
          ASSERT_EQ(c.view().values[i * kBlock + slot],
                    std::nearbyint(bf16_to_float(v[static_cast<size_t>(i)]) / num::pow2(e)));
        }
      }
    }
  }
}

TEST_F(KvCache, OneSlotTouchesNoOther) {
  num::PhiloxStream random(4);
  Cache c({16, 15});
  const std::vector<std::byte> before = c.bytes;
  const auto row = conformance::random_bf16s(random, 16, 120, 128);
  ASSERT_TRUE(c.store(77, row, row));
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) changed += c.bytes[i] != before[i];
  EXPECT_LE(changed, 16 * 3 + 4 + 1);
}

TEST_F(KvCache, EndsOfTheRange) {
  const std::vector<uint16_t> fine(8, 0x3F80), zero(8, 0), least(8, num::kAttentionRange.min_bits),
      tiny(8, num::kAttentionRange.min_bits - 1), most(8, num::kAttentionRange.max_bits),
      over(8, num::kAttentionRange.max_bits + 1);
  Cache c({8, 15});
  EXPECT_TRUE(c.store(0, least, least));
  EXPECT_EQ(c.view().value_exponents[0], -46);
  EXPECT_EQ(stored_key(c, 0, 0), 16256);
  EXPECT_TRUE(c.store(1, most, most));
  EXPECT_EQ(c.view().value_exponents[1], 42);
  for (const auto& row : {zero, tiny}) {
    EXPECT_TRUE(c.store(2, row, row));
    EXPECT_EQ(c.view().value_exponents[2], kZeroRow);
    EXPECT_EQ(c.view().key_scales[2], 1.0f);
    EXPECT_EQ(stored_key(c, 2, 3), 0);
  }
  for (const uint16_t bad : {over[0], uint16_t{0x7F80}, uint16_t{0xFF80}, uint16_t{0x7FC0}, uint16_t{0x7F81}}) {
    std::vector<uint16_t> row = fine;
    row[7] = bad;
    EXPECT_FALSE(c.store(3, row, fine));
    EXPECT_TRUE(std::isnan(c.view().key_scales[3]));
    EXPECT_FALSE(c.store(4, fine, row)) << "a faulted value row";
    EXPECT_TRUE(std::isnan(c.view().key_scales[4])) << "must spoil its position, not pass for zero";
    EXPECT_EQ(c.view().values[7 * kBlock + 4], 0);
  }
  EXPECT_TRUE(c.store(3, fine, fine)) << "a slot written again is good again";
  EXPECT_EQ(c.view().key_scales[3], 1.0f / 16256);
}

}  // namespace
}  // namespace zeroulp::ops::kv_cache
