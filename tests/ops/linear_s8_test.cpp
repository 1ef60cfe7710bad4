// Every variant of linear_s8 against the reference, bit for bit. A test is named for the fault that its inputs catch, and shows that
// they do: a variant with just that fault must differ from the reference on them.
#include "ops/linear_s8/contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "num/philox.h"
#include "ops/guarded.h"
#include "ops/linear_s8/reference.h"

namespace zeroulp::ops::linear_s8 {
namespace {

using Kernel = std::function<void(const Args&)>;

constexpr int16_t top_code(int width) { return width == 15 ? 16256 : 127; }

// One set of inputs; strides are larger than the rows by `gap`, and the gaps hold codes and weights that must not count.
struct Case {
  int64_t rows, k, n, gap = 0;
  int width = 15;
  bool with_bias = false;
  Guarded<int16_t> codes;
  Guarded<int8_t> weights;
  Guarded<float> row_scales, channel_scales, bias;

  Case(int64_t rows_, int64_t k_, int64_t n_, int width_, int64_t gap_ = 0)
      : rows(rows_),
        k(k_),
        n(n_),
        gap(gap_),
        width(width_),
        codes((rows_ - 1) * (k_ + gap_) + k_, top_code(width_)),
        weights((n_ - 1) * (k_ + gap_) + k_, 127),
        row_scales(rows_),
        channel_scales(n_),
        bias(n_) {
    // Distinct fractions and distinct exponents, so that a scale taken from a neighbour shows.
    for (int64_t r = 0; r < rows; ++r)
      row_scales[r] = (1.0f + 0x1.9p-7f * static_cast<float>(1 + r % 61)) * num::pow2(static_cast<int>(r % 7) - 9);
    for (int64_t c = 0; c < n; ++c)
      channel_scales[c] = (1.0f + 0x1.3p-7f * static_cast<float>(1 + c % 97)) * num::pow2(static_cast<int>(c % 5) - 12);
  }
  int64_t stride() const { return k + gap; }
  int16_t& code(int64_t r, int64_t i) { return codes[r * stride() + i]; }
  int8_t& weight(int64_t c, int64_t i) { return weights[c * stride() + i]; }
  template <class Code, class Weight>
  void fill(Code code_of, Weight weight_of) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) code(r, i) = static_cast<int16_t>(code_of(r, i));
    for (int64_t c = 0; c < n; ++c)
      for (int64_t i = 0; i < k; ++i) weight(c, i) = static_cast<int8_t>(weight_of(c, i));
  }
};

void fill_random(Case& x, uint64_t seed) {
  num::PhiloxStream random(seed);
  const int top = top_code(x.width);
  x.fill([&](int64_t, int64_t) { return static_cast<int>(random.below(2 * static_cast<unsigned>(top) + 1)) - top; },
         [&](int64_t, int64_t) { return static_cast<int>(random.below(255)) - 127; });
  for (float& b : x.bias) b = random.symmetric() * 8.0f;
}

size_t element_bytes(Output o) { return o == Output::kBf16 ? 2 : o == Output::kF32 ? 4 : 8; }

// The output as raw bytes of [rows][n + 3]; the last three of a row belong to someone else.
constexpr int64_t kOutputGap = 3;
Guarded<uint8_t> run(const Case& x, const Kernel& kernel, Output output, int64_t rows, int64_t n) {
  const int64_t y_stride = n + kOutputGap;
  Guarded<uint8_t> y(rows * y_stride * static_cast<int64_t>(element_bytes(output)), 0xA5);
  kernel({x.codes.data(), x.stride(), x.row_scales.data(), rows, x.k, x.width, x.weights.data(), x.stride(), n,
          x.channel_scales.data(), x.with_bias ? x.bias.data() : nullptr, output, y.data(), y_stride});
  return y;
}

bool agrees(const Case& x, const Kernel& kernel, Output output, int64_t rows, int64_t n) {
  const Guarded<uint8_t> want = run(x, reference, output, rows, n), got = run(x, kernel, output, rows, n);
  return std::equal(want.begin(), want.end(), got.begin());
}
bool agrees(const Case& x, const Kernel& kernel) {
  for (Output output : {Output::kPartial, Output::kF32, Output::kBf16})
    if (!agrees(x, kernel, output, x.rows, x.n)) return false;
  return true;
}

// ---- deliberately wrong variants

struct Faulty {
  // The exact sum, and the float it becomes.
  std::function<int64_t(const Args&, const int16_t* codes, const int8_t* weights)> sum = [](const Args& a, const int16_t* x,
                                                                                            const int8_t* w) {
    int64_t acc = 0;
    for (int64_t i = 0; i < a.k; ++i) acc += int64_t{x[i]} * w[i];
    return acc;
  };
  std::function<float(const Args&, const int16_t*, const int8_t*, int64_t)> to_float =
      [](const Args&, const int16_t*, const int8_t*, int64_t acc) { return num::i2f(acc); };
  std::function<float(float f, float sa, float sb, const float* bias)> finish = epilogue;
  int64_t scale_of(int64_t channel) const { return channel - (shifted_scales ? channel % 2 : 0); }
  bool shifted_scales = false;
  std::function<uint16_t(float)> to_bf16 = num::float_to_bf16;

  void operator()(const Args& a) const {
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t c = 0; c < a.n; ++c) {
        const int16_t* x = a.codes + r * a.codes_stride;
        const int8_t* w = a.weights + c * a.weights_stride;
        const int64_t acc = sum(a, x, w), at = r * a.y_stride + c;
        const float y =
            finish(to_float(a, x, w, acc), a.row_scales[r], a.channel_scales[scale_of(c)], a.bias ? a.bias + c : nullptr);
        switch (a.output) {
          case Output::kPartial:
            static_cast<int64_t*>(a.y)[at] = acc;
            break;
          case Output::kF32:
            static_cast<float*>(a.y)[at] = y;
            break;
          case Output::kBf16:
            static_cast<uint16_t*>(a.y)[at] = to_bf16(y);
            break;
        }
      }
  }
};

std::vector<Variant<Fn>> variants_here() {
  std::vector<Variant<Fn>> here;
  for (const Variant<Fn>& v : variants())
    if (v.needs != Needs::kNothing && why_unavailable(v.needs, cpu_features()).empty()) here.push_back(v);
  return here;
}

// The inputs are right for every variant, and wrong for the mutant.
#define EXPECT_CAUGHT(x, mutant) \
  do { \
    EXPECT_TRUE(agrees(x, Faulty{})) << "the mutants' frame itself differs from the reference"; \
    EXPECT_FALSE(agrees(x, mutant)) << "these inputs do not catch the fault"; \
    for (const Variant<Fn>& v : variants_here()) \
      EXPECT_TRUE(agrees(x, v.run)) << v.name << ": K " << (x).k << " width " << (x).width; \
  } while (false)

// ---- shapes

TEST(LinearS8, EveryShapeStrideAndOutput) {
  if (variants_here().empty()) GTEST_SKIP() << "no fast variant runs here";
  for (int64_t k : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 576, 1040, 1041, 1536, 4864, 131072}) {
    for (int width : {8, 15}) {
      const bool huge = k > 5000;
      Case x(huge ? 13 : 30, k, huge ? 33 : 65, width, k % 3 == 0 ? 0 : k % 7);
      fill_random(x, static_cast<uint64_t>(k) * 2 + static_cast<uint64_t>(width));
      for (bool with_bias : {false, true}) {
        x.with_bias = with_bias;
        for (Output output : {Output::kPartial, Output::kF32, Output::kBf16}) {
          if (output == Output::kPartial && with_bias) continue;
          const Guarded<uint8_t> want = run(x, reference, output, x.rows, x.n);
          for (const Variant<Fn>& v : variants_here())
            for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 19, 30})
              for (int64_t n : {1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65}) {
                if (rows > x.rows || n > x.n || (huge && rows * n > 150 && n != 33)) continue;
                const Guarded<uint8_t> got = run(x, v.run, output, rows, n);
                const size_t size = element_bytes(output);
                for (int64_t r = 0; r < rows; ++r) {
                  const uint8_t* row = got.data() + r * (n + kOutputGap) * static_cast<int64_t>(size);
                  ASSERT_EQ(0, std::memcmp(row, want.data() + r * (x.n + kOutputGap) * static_cast<int64_t>(size),
                                           static_cast<size_t>(n) * size))
                      << v.name << ": K " << k << ", width " << width << ", " << rows << " rows, " << n << " channels, row "
                      << r;
                  for (size_t i = static_cast<size_t>(n) * size; i < static_cast<size_t>(n + kOutputGap) * size; ++i)
                    ASSERT_EQ(row[i], 0xA5) << v.name << " writes beyond its channels";
                }
              }
        }
      }
    }
  }
}

// A row's chunk of packed activations is not the whole: many rows, so that several chunks follow each other.
TEST(LinearS8, ManyRowsInChunks) {
  Case x(403, 4864, 5, 15);
  fill_random(x, 99);
  for (const Variant<Fn>& v : variants_here()) EXPECT_TRUE(agrees(x, v.run)) << v.name;
}

// Row r has one code that is not zero, at place r: the output is a table of weights, and a wrong place or a lost tail shows at once.
TEST(LinearS8, SingleHotMapsEveryPlaceOfK) {
  for (int64_t k : {1, 15, 17, 33, 127, 129, 577}) {
    for (int width : {8, 15}) {
      Case x(k, k, 9, width, 3);
      x.fill([&](int64_t r, int64_t i) { return r == i ? top_code(width) - r % 50 : 0; },
             [](int64_t c, int64_t i) { return (c * 31 + i * 7) % 255 - 127; });
      Faulty drops_tail, permutes;
      drops_tail.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
        int64_t acc = 0;
        for (int64_t i = 0; i < a.k - a.k % 2; ++i) acc += int64_t{codes[i]} * w[i];
        return acc;
      };
      permutes.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
        int64_t acc = 0;
        for (int64_t i = 0; i < a.k; ++i) acc += int64_t{codes[i]} * w[a.k - 1 - i];
        return acc;
      };
      EXPECT_CAUGHT(x, drops_tail);
      if (k > 1) EXPECT_CAUGHT(x, permutes);
    }
  }
}

TEST(LinearS8, RowBehindKMustNotCount) {
  Case x(13, 33, 33, 15, 30);
  fill_random(x, 5);
  Faulty reads_on;
  reads_on.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
    int64_t acc = 0;
    const bool last = w == a.weights + (a.n - 1) * a.weights_stride || codes == a.codes + (a.rows - 1) * a.codes_stride;
    for (int64_t i = 0; i < (last ? a.k : 48); ++i) acc += int64_t{codes[i]} * w[i];
    return acc;
  };
  EXPECT_CAUGHT(x, reads_on);
}

// ---- exact sums

// vpmaddubsw adds two products of unsigned and signed bytes with saturation at int16.
int64_t saturating_plane(const Args& a, const int16_t* codes, const int8_t* w, bool high) {
  int64_t acc = 0;
  const auto product = [&](int64_t i) {
    if (i >= a.k) return 0;
    const int32_t plane = a.width == 8 ? codes[i] : high ? num::plane_hi(codes[i]) : num::plane_lo(codes[i]);
    return (w[i] + 128) * plane;
  };
  for (int64_t i = 0; i < a.k; i += 2) acc += std::clamp(product(i) + product(i + 1), -32768, 32767);
  for (int64_t i = 0; i < a.k; ++i)
    acc -= 128 * (a.width == 8 ? codes[i] : high ? num::plane_hi(codes[i]) : num::plane_lo(codes[i]));
  return acc;
}
TEST(LinearS8, SaturatingPairProducts) {
  Faulty saturates;
  saturates.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
    return a.width == 8 ? saturating_plane(a, codes, w, true)
                        : 128 * saturating_plane(a, codes, w, true) + saturating_plane(a, codes, w, false);
  };
  for (int width : {8, 15})
    for (int64_t rows : {1, 4, 14})
      for (int pattern = 0; pattern < 3; ++pattern) {
        Case x(rows, 130, 37, width);
        const int top = top_code(width);
        x.fill([&](int64_t r, int64_t i) { return (pattern == 1 && i % 2) || (pattern == 2 && (r + i / 2) % 2) ? -top : top; },
               [&](int64_t, int64_t i) { return pattern == 1 && i % 2 == 0 ? 127
                                                : pattern == 1             ? 126
                                                                           : 127; });
        if (pattern == 1)
          for (const Variant<Fn>& v : variants_here())
            EXPECT_TRUE(agrees(x, v.run)) << v.name;  // these pairs cancel: no saturation
        else
          EXPECT_CAUGHT(x, saturates);
      }
}

// Every code and weight at its extreme: sums up to 131072 * 16256 * 127 > 2^37.
Case extremes(int64_t rows, int64_t k, int width, int sign) {
  Case x(rows, k, 5, width);
  const int top = top_code(width);
  x.fill([&](int64_t r, int64_t) { return r % 2 == 0 ? top : sign * top; },
         [&](int64_t c, int64_t) { return c % 2 == 0 ? 127 : -127; });
  return x;
}
TEST(LinearS8, CombinedSumWrapsAt32Bits) {
  Faulty wraps;
  wraps.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
    return int64_t{static_cast<int32_t>(static_cast<uint32_t>(Faulty{}.sum(a, codes, w)))};
  };
  for (int64_t k : {1041, 4864, 131072})
    for (int64_t rows : {1, 2, 3, 4, 12}) EXPECT_CAUGHT(extremes(rows, k, 15, -1), wraps);
  for (const Variant<Fn>& v : variants_here()) {
    EXPECT_TRUE(agrees(extremes(3, 1040, 15, -1), v.run)) << v.name;
    EXPECT_TRUE(agrees(extremes(12, 1040, 15, -1), v.run)) << v.name;
    for (int64_t rows : {1, 12}) EXPECT_TRUE(agrees(extremes(rows, 131072, 8, 1), v.run)) << v.name;
  }
}
// vpmaddwd leaves 8 lanes of int32; 521 steps of two extreme products pass 2^31.
TEST(LinearS8, LaneOfPairProductsOverflows) {
  Faulty lanes_wrap;
  lanes_wrap.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
    uint32_t lanes[8] = {};
    for (int64_t i = 0; i < a.k; ++i) lanes[i % 16 / 2] += static_cast<uint32_t>(int32_t{codes[i]} * w[i]);
    int64_t acc = 0;
    for (uint32_t lane : lanes) acc += static_cast<int32_t>(lane);
    return acc;
  };
  for (int64_t rows : {1, 2, 3, 4}) {
    for (int64_t k : {521 * 16, 520 * 16 + 2, 131072}) EXPECT_CAUGHT(extremes(rows, k, 15, 1), lanes_wrap);
    for (const Variant<Fn>& v : variants_here()) EXPECT_TRUE(agrees(extremes(rows, 520 * 16, 15, 1), v.run)) << v.name;
  }
}

// The sum of a whole channel is an int32 up to k = 1040 with 15 bits, and always with 8.
TEST(LinearS8, ChannelSumsAreInt32UpTo1040Codes) {
  Faulty wraps;
  wraps.sum = [](const Args& a, const int16_t* codes, const int8_t* w) {
    uint32_t acc = 0;
    for (int64_t i = 0; i < a.k; ++i) acc += static_cast<uint32_t>(int32_t{codes[i]} * w[i]);
    return int64_t{static_cast<int32_t>(acc)};
  };
  for (int64_t rows : {4, 12, 13, 19}) {
    EXPECT_CAUGHT(extremes(rows, 1041, 15, 1), wraps);
    for (const Variant<Fn>& v : variants_here()) {
      EXPECT_TRUE(agrees(extremes(rows, 1040, 15, 1), v.run)) << v.name;
      EXPECT_TRUE(agrees(extremes(rows, kMaxK, 8, 1), v.run)) << v.name;
    }
  }
}

// ---- one rounding

// Codes whose sum with weights of 127 (the last one is 1) is `target`, and whose low planes are not zero. False if K is too short.
bool codes_for(Case& x, int64_t row, int64_t target, uint64_t seed) {
  num::PhiloxStream random(seed);
  const int64_t each = target / 127 / (x.k - 1);
  int64_t left = target;
  for (int64_t i = 0; i + 1 < x.k; ++i) {
    const int64_t jitter = static_cast<int64_t>(random.below(201)) - 100;
    x.code(row, i) = static_cast<int16_t>(std::clamp<int64_t>(each + jitter, -16256, 16256));
    left -= 127 * x.code(row, i);
  }
  for (int64_t i = 0; i + 1 < x.k && std::abs(left) > 16256; ++i) {
    const auto moved = static_cast<int16_t>(std::clamp<int64_t>(x.code(row, i) + left / 127, -16256, 16256));
    left -= 127 * (moved - x.code(row, i));
    x.code(row, i) = moved;
  }
  if (std::abs(left) > 16256) return false;
  x.code(row, x.k - 1) = static_cast<int16_t>(left);
  return true;
}

// Sums beside the ties of the 24-bit fraction, in every binade that sums can reach, both parities and both signs.
Case ties(int exponent) {
  const int64_t k = std::min<int64_t>(kMaxK, (int64_t{1} << exponent) / (127 * 12000) + 4);
  Case x(32, k, 1, 15);
  x.fill([](int64_t, int64_t) { return 0; }, [&](int64_t, int64_t i) { return i + 1 == k ? 1 : 127; });
  int64_t row = 0;
  const int64_t half = int64_t{1} << (exponent - 24);  // of the last fraction bit
  for (int64_t odd : {1, 3, 5, 7})
    for (int64_t beside : {-1, 0, 1, 63})
      for (int64_t sign : {-1, 1}) {
        const int64_t target = sign * ((int64_t{1} << exponent) + odd * half + beside);
        EXPECT_TRUE(codes_for(x, row, target, static_cast<uint64_t>(row))) << exponent;
        ++row;
      }
  return x;
}
TEST(LinearS8, SumsBesideTiesRoundTwice) {
  Faulty fma_of_planes;
  fma_of_planes.to_float = [](const Args& a, const int16_t* codes, const int8_t* w, int64_t) {
    int64_t hi = 0, lo = 0;
    for (int64_t i = 0; i < a.k; ++i) {
      hi += num::plane_hi(codes[i]) * w[i];
      lo += num::plane_lo(codes[i]) * w[i];
    }
    return std::fma(128.0f, num::i2f(hi), num::i2f(lo));
  };
  for (int e = 24; e <= 37; ++e) {
    const Case x = ties(e);
    Faulty mutant;
    mutant.to_float = [](const Args&, const int16_t*, const int8_t*, int64_t acc) {  // rounds to 25 bits first
      const int spare = std::max(0, 63 - std::countl_zero(static_cast<uint64_t>(std::abs(acc))) - 24);
      const int64_t kept = static_cast<int64_t>(std::nearbyint(std::ldexp(static_cast<double>(acc), -spare)));
      return std::ldexp(num::i2f(kept), spare);
    };
    if (e >= 26)
      EXPECT_CAUGHT(x, mutant);
    else
      for (const Variant<Fn>& v : variants_here()) EXPECT_TRUE(agrees(x, v.run)) << v.name << ' ' << e;
    if (e >= 33) EXPECT_CAUGHT(x, fma_of_planes);
  }
}

// ---- epilogue

TEST(LinearS8, OrderOfTheScales) {
  Case x(12, 64, 65, 15);
  fill_random(x, 17);
  Faulty scales_first, row_first;
  scales_first.finish = [](float f, float sa, float sb, const float*) { return (sa * sb) * f; };
  row_first.finish = [](float f, float sa, float sb, const float*) { return sb * (sa * f); };
  EXPECT_CAUGHT(x, scales_first);
  EXPECT_CAUGHT(x, row_first);
}
TEST(LinearS8, ScaleOfTheNeighbour) {
  Case x(1, 16, 32, 8);
  fill_random(x, 18);
  for (int64_t c = 0; c < x.n; ++c)
    x.channel_scales[c] = num::pow2(static_cast<int>(c % 24) - 20);  // powers of two, all different
  Faulty shifted;
  shifted.shifted_scales = true;
  EXPECT_CAUGHT(x, shifted);
}
// The bias is nearly minus the product, so that what an unfused addition loses is the whole answer.
TEST(LinearS8, BiasThatCancels) {
  Faulty unfused, other_order;
  unfused.finish = [](float f, float sa, float sb, const float* b) {
    const float product = sa * (sb * f);
    return b ? product + *b : product;
  };
  other_order.finish = [](float f, float sa, float sb, const float* b) { return b ? std::fma(sb, sa * f, *b) : sa * (sb * f); };
  for (int64_t rows : {1, 3, 13}) {
    Case x(rows, 97, 65, 15);
    fill_random(x, 19);
    x.with_bias = true;
    for (int64_t c = 0; c < x.n; ++c) {
      const int64_t r = c % rows;
      int64_t acc = 0;
      for (int64_t i = 0; i < x.k; ++i) acc += int64_t{x.code(r, i)} * x.weight(c, i);
      x.bias[c] = -epilogue(num::i2f(acc), x.row_scales[r], x.channel_scales[c], nullptr);
    }
    EXPECT_CAUGHT(x, unfused);
    EXPECT_CAUGHT(x, other_order);
  }
}
TEST(LinearS8, NanRowBecomesTheOneNan) {
  Case x(13, 48, 37, 15);
  fill_random(x, 20);
  for (int64_t r : {0, 7}) x.row_scales[r] = num::float_of(0xFF800001u);  // signalling, negative
  x.row_scales[3] = num::bf16_to_float(num::kBf16Nan);
  Faulty truncates;
  truncates.to_bf16 = [](float y) { return static_cast<uint16_t>(num::bits_of(y) >> 16); };
  EXPECT_FALSE(agrees(x, truncates, Output::kBf16, x.rows, x.n));
  for (const Variant<Fn>& v : variants_here()) EXPECT_TRUE(agrees(x, v.run, Output::kBf16, x.rows, x.n)) << v.name;
}
TEST(LinearS8, RangesEndInSubnormalsAndInfinity) {
  for (bool with_bias : {false, true}) {
    Case x(4, 1536, 40, 15);
    fill_random(x, 21);
    x.with_bias = with_bias;
    for (int64_t c = 0; c < x.n; ++c) x.channel_scales[c] = num::pow2(c % 2 == 0 ? -40 : 8);
    for (float& b : x.bias) b *= 0x1p-136f;
    x.row_scales[0] = 0x1.8p-100f;
    x.row_scales[1] = 0x1.cp-126f;
    x.row_scales[2] = 0x1p110f;
    for (int64_t i = 0; i < x.k; ++i) x.code(3, i) = 0;  // sums of zero give +0
    Faulty flushes;
    flushes.finish = [](float f, float sa, float sb, const float* b) {
      const float y = epilogue(f, sa, sb, b);
      return std::fabs(y) < 0x1p-126f ? 0.0f : y;
    };
    EXPECT_CAUGHT(x, flushes);
  }
}

}  // namespace
}  // namespace zeroulp::ops::linear_s8
