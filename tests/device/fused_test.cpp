// The GPU's fused kernels, KV store and sampling against the references, element by element.
#include "ops/fused/fused.h"

#include <gtest/gtest.h>

#include <numeric>

#include "device/gpu.h"
#include "num/philox.h"
#include "num/sincos.h"
#include "ops/case_inputs.h"
#include "ops/kv_cache/fast.h"
#include "ops/linear_s8/reference.h"
#include "ops/quant_rows/reference.h"
#include "ops/residual/reference.h"
#include "ops/rmsnorm/reference.h"
#include "ops/rope/reference.h"
#include "ops/sample/device.h"
#include "ops/silu_mul/reference.h"

namespace zeroulp::ops {
namespace {

using conformance::bell_bf16s;
using device::Bench;
using device::must;

constexpr float kEps = 1e-5f;

TEST(Fused, NormQuantIsResidualThenRmsnormThenQuantRows) {
  ZU_NEEDS_GPU();
  num::PhiloxStream random(501);
  for (const int64_t d : {1, 33, 64, 576, 896, 4096, 5001, 12288, 32768}) {
    for (const int width : {8, 15}) {
      for (const bool with_add : {false, true}) {
        const num::RowRange range = with_add == (width == 8) ? num::kLinearPow2Range : num::kLinearRange;
        const int64_t rows = 5, stride = (d + 15) / 16 * 16;
        std::vector<uint16_t> x = bell_bf16s(random, rows * d, 2.0f), add = bell_bf16s(random, rows * d, 2.0f), weight = bell_bf16s(random, d, 1.0f);
        std::fill(x.begin() + 2 * d, x.begin() + 3 * d, uint16_t{0});
        std::fill(add.begin() + 2 * d, add.begin() + 3 * d, uint16_t{0});
        x[static_cast<size_t>(3 * d)] = 0x7FC0;  // a fault
        Bench b;
        auto *gx = b.put(x), *gadd = b.put(add), *gweight = b.put(weight), *gh = b.put(std::vector<uint16_t>(x.size()));
        auto* codes = b.put(std::vector<int16_t>(static_cast<size_t>(rows * stride), 77));
        auto* scales = b.put(std::vector<float>(5));
        auto* faults = b.put(std::vector<uint8_t>(5));
        fused::norm_quant({gx, with_add ? gadd : nullptr, rows, d, gweight, kEps, gh, width, range, codes, stride, scales, faults}, b.launch);

        std::vector<uint16_t> h(x.size());
        std::vector<int16_t> want_codes(static_cast<size_t>(rows * stride), 77);
        std::vector<float> want_scales(5);
        std::vector<uint8_t> want_faults(5);
        if (with_add) residual::reference({x.data(), add.data(), rows * d});
        rmsnorm::reference({x.data(), d, rows, d, weight.data(), kEps, h.data(), d});
        quant_rows::reference({h.data(), d, rows, d, width, range, nullptr, want_codes.data(), stride, want_scales.data(), want_faults.data()});
        EXPECT_EQ(b.get(gx, x.size()), x) << d;
        EXPECT_EQ(b.get(gh, h.size()), h) << d;
        EXPECT_EQ(b.get(codes, want_codes.size()), want_codes) << d;
        const std::vector<float> got_scales = b.get(scales, 5);
        for (size_t i = 0; i < 5; ++i) EXPECT_EQ(num::bits_of(got_scales[i]), num::bits_of(want_scales[i])) << d;
        EXPECT_EQ(b.get(faults, 5), want_faults) << d;
      }
    }
  }
}

TEST(Fused, SiluQuantIsSiluMulThenQuantRows) {
  ZU_NEEDS_GPU();
  num::PhiloxStream random(502);
  for (const int64_t k : {1, 31, 160, 1536, 4864, 14336, 18944, 32768}) {
    for (const int width : {8, 15}) {
      const num::RowRange range = (k % 2 == 0) == (width == 8) ? num::kLinearPow2Range : num::kLinearRange;
      const int64_t rows = 3;  // few rows: one is spread over a cluster where it is long enough
      std::vector<uint16_t> both = bell_bf16s(random, rows * 2 * k, 3.0f);
      both[static_cast<size_t>(2 * k)] = 0x7F80;
      Bench b;
      auto* g = b.put(both);
      auto* y = b.put(std::vector<uint16_t>(static_cast<size_t>(rows * k)));
      auto* codes = b.put(std::vector<int16_t>(static_cast<size_t>(rows * k)));
      auto* scales = b.put(std::vector<float>(3));
      auto* faults = b.put(std::vector<uint8_t>(3));
      auto* tops = b.put(std::vector<uint16_t>(3));
      fused::silu_quant({g, g + k, 2 * k, rows, k, y, width, range, codes, k, scales, faults, nullptr}, b.launch);
      std::vector<uint16_t> want(static_cast<size_t>(rows * k));
      for (int64_t r = 0; r < rows; ++r) silu_mul::reference({both.data() + r * 2 * k, both.data() + r * 2 * k + k, k, want.data() + r * k});
      std::vector<int16_t> want_codes(want.size());
      std::vector<float> want_scales(3);
      std::vector<uint8_t> want_faults(3);
      quant_rows::reference({want.data(), k, rows, k, width, range, nullptr, want_codes.data(), k, want_scales.data(), want_faults.data()});
      EXPECT_EQ(b.get(y, want.size()), want) << k;
      EXPECT_EQ(b.get(codes, want.size()), want_codes) << k;
      EXPECT_EQ(b.get(faults, 3), want_faults) << k;
      fused::silu_quant({g, g + k, 2 * k, rows, k, y, width, range, nullptr, k, nullptr, nullptr, tops}, b.launch);
      const std::vector<uint16_t> got_tops = b.get(tops, 3);
      for (int64_t r = 0; r < rows; ++r) EXPECT_EQ(got_tops[static_cast<size_t>(r)], quant_rows::row_absmax(want.data() + r * k, k));
    }
  }
}

// Fewer and more channels than warps, K of less than a warp takes at a time, of many times that, and of parts of it.
TEST(Fused, LinearsWithTheirNeighboursAreTheOpsOneAfterAnother) {
  ZU_NEEDS_GPU();
  num::PhiloxStream random(505);
  struct Size {
    int64_t n, k;
  };
  for (const auto& [n, k] : {Size{2, 16}, {8, 128}, {30, 48}, {136, 64}, {1100, 576}, {2306, 896}, {20002, 256}, {20002, 80}, {514, 4096}, {264, 12288}, {90, 18944}, {34, 81920}}) {
    for (const int width : {8, 15}) {
      for (const std::string row : {"ordinary", "zero", "with a NaN"}) {
        const int64_t rows = 1;
        ASSERT_TRUE(fused::linear_fits(k));
        const num::RowRange range = (n / 2 + width) % 2 == 0 ? num::kLinearPow2Range : num::kLinearRange;
        std::vector<uint16_t> x = bell_bf16s(random, rows * k, 2.0f), weight = bell_bf16s(random, k, 1.0f), y = bell_bf16s(random, rows * n, 2.0f);
        if (row == "zero") std::fill(x.begin(), x.end(), uint16_t{0});
        if (row == "with a NaN") x.back() = 0x7FC0;
        std::vector<int8_t> w(static_cast<size_t>(n * k));
        for (int8_t& c : w) c = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
        std::vector<float> scales, bias;
        for (int64_t i = 0; i < n; ++i) scales.push_back(0.001f * (1.5f + random.symmetric())), bias.push_back(random.symmetric());
        const bool with_bias = row == "ordinary" || n / 2 % 2 == 0;
        Bench b;
        auto *gx = b.put(x), *gweight = b.put(weight);
        const auto* gw = b.put(w);
        const auto *gscales = b.put(scales), *gbias = with_bias ? b.put(bias) : nullptr;
        auto* out = b.put(std::vector<float>(y.size()));
        auto *products = b.put(std::vector<uint16_t>(y.size() / 2)), *sums = b.put(y);
        auto* faults = b.put(std::vector<uint8_t>(static_cast<size_t>(4 * rows)));
        const auto linear = [&](linear_s8::Output output, void* to) {
          return linear_s8::Args{nullptr, 0, nullptr, rows, k, width, gw, k, n, gscales, gbias, output, to, n};
        };
        auto* bf16 = b.put(std::vector<uint16_t>(y.size()));
        fused::norm_linear({{gx, k, range, faults}, gweight, kEps}, linear(linear_s8::Output::kF32, out), b.launch);
        fused::norm_linear({{gx, k, range, faults + rows}, gweight, kEps}, linear(linear_s8::Output::kBf16, bf16), b.launch);
        fused::norm_linear_silu({{gx, k, range, faults + 2 * rows}, gweight, kEps}, linear(linear_s8::Output::kBf16, nullptr), products, b.launch);
        fused::linear_residual({gx, k, range, faults + 3 * rows}, linear(linear_s8::Output::kBf16, nullptr), sums, b.launch);

        std::vector<uint8_t> want_faults(static_cast<size_t>(4 * rows));
        std::vector<int16_t> codes(x.size());
        std::vector<float> row_scales(static_cast<size_t>(rows)), want(y.size());
        std::vector<uint16_t> h(x.size()), want_bf16(y.size()), want_products(y.size() / 2), want_sums = y;
        const auto quantize = [&](const std::vector<uint16_t>& from, int64_t flags) {
          quant_rows::reference({from.data(), k, rows, k, width, range, nullptr, codes.data(), k, row_scales.data(), want_faults.data() + flags});
        };
        const auto multiply = [&](linear_s8::Output output, void* to) {
          linear_s8::reference({codes.data(), k, row_scales.data(), rows, k, width, w.data(), k, n, scales.data(), with_bias ? bias.data() : nullptr, output, to, n});
        };
        rmsnorm::reference({x.data(), k, rows, k, weight.data(), kEps, h.data(), k});
        for (int64_t i = 0; i < 3; ++i) quantize(h, i * rows);
        multiply(linear_s8::Output::kF32, want.data());
        multiply(linear_s8::Output::kBf16, want_bf16.data());
        for (int64_t r = 0; r < rows; ++r)
          silu_mul::reference({want_bf16.data() + r * n, want_bf16.data() + r * n + n / 2, n / 2, want_products.data() + r * (n / 2)});
        quantize(x, 3 * rows);
        std::vector<uint16_t> added(y.size());
        multiply(linear_s8::Output::kBf16, added.data());
        residual::reference({want_sums.data(), added.data(), rows * n});

        const std::string where = std::to_string(n) + " x " + std::to_string(k) + ", " + std::to_string(width) + " bits, " + row;
        const std::vector<float> got = b.get(out, want.size());
        int64_t differing = 0;
        for (size_t i = 0; i < got.size(); ++i) differing += num::bits_of(got[i]) != num::bits_of(want[i]);
        EXPECT_EQ(differing, 0) << where;
        EXPECT_EQ(b.get(bf16, want_bf16.size()) == want_bf16, true) << where;
        EXPECT_EQ(b.get(products, want_products.size()) == want_products, true) << where;
        EXPECT_EQ(b.get(sums, want_sums.size()) == want_sums, true) << where;
        EXPECT_EQ(b.get(faults, want_faults.size()), want_faults) << where;
        EXPECT_EQ(want_faults == std::vector<uint8_t>(4, 1), row == "with a NaN") << where;
      }
    }
  }
}

TEST(Fused, HeadsIsNormRopeQuantiserAndCache) {
  ZU_NEEDS_GPU();
  num::PhiloxStream random(503);
  for (const int64_t d : {16, 64, 128, 256}) {
    for (const int key_width : {8, 15}) {
      for (const bool norm : {false, true}) {
        const int64_t rows = 4, heads = 6, kv_heads = 2, stride = (heads + 2 * kv_heads) * d, half = d / 2, first = 126;
        const kv_cache::Layout layout{d, key_width};
        std::vector<uint16_t> qkv = bell_bf16s(random, rows * stride, 2.0f), q_norm = bell_bf16s(random, heads * d, 1.0f), k_norm = bell_bf16s(random, kv_heads * d, 1.0f);
        for (int64_t i = 0; i < d; ++i) qkv[static_cast<size_t>(stride + i)] = 0;                                       // a zero query
        qkv[static_cast<size_t>(2 * stride + 3 * d + 1)] = 0x7F80;                                                      // a faulted query
        qkv[static_cast<size_t>(3 * stride + (heads + kv_heads) * d + 2)] = 0x7FC0;                                     // a faulted value
        for (int64_t i = 0; i < d; ++i) qkv[static_cast<size_t>((heads + kv_heads + 1) * d + i)] = 0;                   // a zero value
        std::vector<int32_t> positions, begin(4, 0);
        for (int32_t r = 0; r < 4; ++r) positions.push_back(static_cast<int32_t>(first) + r);
        std::vector<uint16_t> cos, sin;
        for (uint32_t p = 0; p < 200; ++p)
          for (int64_t i = 0; i < half; ++i) {
            const num::SinCosBf16 v = num::sincos_bf16(p, 1.0f / static_cast<float>(1 + 3 * i));
            cos.push_back(v.cos), sin.push_back(v.sin);
          }
        const int64_t head_bytes = (layout.bytes() + 63) / 64 * 64, page = head_bytes * kv_heads + 64;
        const std::vector<std::byte> rubbish(static_cast<size_t>(2 * page), std::byte{0x5A});
        Bench b;
        std::byte* arena = b.put(rubbish);
        const std::vector<std::byte*> blocks = {arena + page, arena};
        auto* q_codes = b.put(std::vector<int16_t>(static_cast<size_t>(rows * heads * d)));
        auto* q_scales = b.put(std::vector<float>(static_cast<size_t>(rows * heads)));
        auto *q_faults = b.put(std::vector<uint8_t>(4)), *kv_faults = b.put(std::vector<uint8_t>(4));
        const kv_cache::Pages pages{b.put(blocks), b.put(begin), 64, head_bytes};
        fused::heads({b.put(qkv), stride, rows, heads, kv_heads, d, norm ? b.put(q_norm) : nullptr, norm ? b.put(k_norm) : nullptr, kEps, b.put(positions), b.put(cos),
                      b.put(sin), q_codes, q_scales, layout, pages, q_faults, kv_faults},
                     b.launch);

        std::vector<std::byte> want = rubbish;
        std::vector<int16_t> want_codes(static_cast<size_t>(rows * heads * d));
        std::vector<float> want_scales(static_cast<size_t>(rows * heads));
        std::vector<uint8_t> want_q_faults(4), want_kv_faults(4);
        for (int64_t r = 0; r < rows; ++r) {
          uint16_t* q = qkv.data() + r * stride;
          uint16_t *k = q + heads * d, *v = k + kv_heads * d;
          for (int64_t h = 0; norm && h < heads; ++h) rmsnorm::reference({q + h * d, d, 1, d, q_norm.data() + h * d, kEps, q + h * d, d});
          for (int64_t h = 0; norm && h < kv_heads; ++h) rmsnorm::reference({k + h * d, d, 1, d, k_norm.data() + h * d, kEps, k + h * d, d});
          rope::reference({q, heads * d, 1, heads, d, positions.data() + r, cos.data(), sin.data()});
          rope::reference({k, kv_heads * d, 1, kv_heads, d, positions.data() + r, cos.data(), sin.data()});
          std::vector<uint8_t> faults(static_cast<size_t>(heads));
          quant_rows::reference({q, d, heads, d, 15, num::kAttentionRange, nullptr, want_codes.data() + r * heads * d, d, want_scales.data() + r * heads, faults.data()});
          want_q_faults[static_cast<size_t>(r)] = std::accumulate(faults.begin(), faults.end(), 0) > 0;
          for (int64_t h = 0; h < kv_heads; ++h) {
            const int64_t position = first + r;
            std::byte* block = want.data() + (position < 128 ? page : 0) + 64 + h * head_bytes;
            if (!kv_cache::store(block, layout, position % 128, k + h * d, v + h * d)) want_kv_faults[static_cast<size_t>(r)] = 1;
          }
        }
        EXPECT_EQ(b.get(q_codes, want_codes.size()), want_codes) << d;
        const std::vector<float> got = b.get(q_scales, want_scales.size());
        for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(num::bits_of(got[i]), num::bits_of(want_scales[i]));
        EXPECT_EQ(b.get(arena, want.size()), want) << d;
        EXPECT_EQ(b.get(q_faults, 4), want_q_faults);
        EXPECT_EQ(b.get(kv_faults, 4), want_kv_faults);
        EXPECT_EQ(std::accumulate(want_q_faults.begin(), want_q_faults.end(), 0), 1);
        EXPECT_EQ(std::accumulate(want_kv_faults.begin(), want_kv_faults.end(), 0), 1);
        // The cache alone, from rotated keys.
        std::byte* again = b.put(rubbish);
        const std::vector<std::byte*> same = {again + page, again};
        auto* faults = b.put(std::vector<uint8_t>(4));
        const uint16_t* rotated = b.put(qkv);
        kv_cache::cuda({layout, rows, kv_heads, rotated + heads * d, stride, rotated + (heads + kv_heads) * d, stride, b.put(positions), {b.put(same), b.put(begin), 64, head_bytes}, faults},
                       b.launch);
        EXPECT_EQ(b.get(again, want.size()), want) << d;
        EXPECT_EQ(b.get(faults, 4), want_kv_faults);
      }
    }
  }
}

TEST(Fused, FirstFlagIsTheLowest) {
  ZU_NEEDS_GPU();
  for (const size_t at : {0, 1, 999, 1024, 5000}) {
    std::vector<uint8_t> flags(5001, 0);
    Bench b;
    auto* first = b.put(std::vector<int64_t>{7});
    fused::first_flag(b.put(flags), 5001, first, b.launch);
    EXPECT_EQ(b.get(first, 1)[0], -1);
    flags[at] = flags[5000] = 1;
    fused::first_flag(b.put(flags), 5001, first, b.launch);
    EXPECT_EQ(b.get(first, 1)[0], static_cast<int64_t>(at));
  }
}

TEST(GpuSample, TokensAreTheSamplers) {
  ZU_NEEDS_GPU();
  num::PhiloxStream random(504);
  for (const int64_t count : {1, 2, 31, 1000, 1025, 49152}) {
    sample::Sampler sampler(count);
    std::vector<sample::Settings> settings;
    for (const float temperature : {0.0f, 0.3f, 1.0f, 50.0f, 0x1p-20f})
      for (const int64_t top_k : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{40}, count, 2 * count})
        for (const double top_p : {1.0, 0.9, 0.5, 0.0001, 0.99999})
          settings.push_back({temperature, top_k, top_p, random.next64()});
    const auto rows = static_cast<int64_t>(settings.size());
    std::vector<float> logits;
    for (int64_t i = 0; i < rows * count; ++i)  // many ties, both zeros among them
      logits.push_back(i / count % 3 == 0 ? num::float_of(0x80000000u * (random.next() & 1)) + std::floor(random.symmetric() * 5.0f) : conformance::bell(random, 3.0f));
    if (count > 30) logits[static_cast<size_t>(5 * count + 7)] = num::float_of(0x7F800000u);
    std::vector<sample::Draw> draws;
    for (int64_t r = 0; r < rows; ++r) draws.push_back(sample::make_draw(settings[static_cast<size_t>(r)], static_cast<uint32_t>(r), 9));
    Bench b;
    auto* tokens = b.put(std::vector<int64_t>(static_cast<size_t>(rows), -7));
    sample::cuda({b.put(logits), count, rows, count, b.put(draws), tokens}, b.launch);
    const std::vector<int64_t> got = b.get(tokens, static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r)
      EXPECT_EQ(got[static_cast<size_t>(r)], sampler.draw(logits.data() + r * count, count, settings[static_cast<size_t>(r)], static_cast<uint32_t>(r), 9))
          << count << " row " << r << " temperature " << settings[static_cast<size_t>(r)].temperature << " top-k " << settings[static_cast<size_t>(r)].top_k << " top-p "
          << settings[static_cast<size_t>(r)].top_p;
  }
}

}  // namespace
}  // namespace zeroulp::ops
