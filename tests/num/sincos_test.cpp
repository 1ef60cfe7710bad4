#include "num/sincos.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include "num/bf16.h"
#include "num/philox.h"

namespace zeroulp::num {
namespace {

// RNE to bf16 of factor * f(position * frequency), by MPFR with 400 bits: bf16 is binary with 8 significant bits here (no result is
// subnormal in the tested range).
class Oracle {
 public:
  Oracle() { mpfr_inits2(400, x_, y_, static_cast<mpfr_ptr>(nullptr)), mpfr_init2(out_, 8); }
  ~Oracle() { mpfr_clears(x_, y_, out_, static_cast<mpfr_ptr>(nullptr)); }
  uint16_t eval(bool cosine, uint32_t position, float frequency, float factor) {
    mpfr_set_flt(x_, frequency, MPFR_RNDN);
    mpfr_mul_ui(x_, x_, position, MPFR_RNDN);
    cosine ? mpfr_cos(y_, x_, MPFR_RNDN) : mpfr_sin(y_, x_, MPFR_RNDN);
    mpfr_set_flt(x_, factor, MPFR_RNDN);
    mpfr_mul(y_, y_, x_, MPFR_RNDN);
    mpfr_set(out_, y_, MPFR_RNDN);
    return float_to_bf16(mpfr_get_flt(out_, MPFR_RNDN));
  }

 private:
  mpfr_t x_, y_, out_;
};

void compare(Oracle& oracle, uint32_t position, float frequency, float factor) {
  const SinCosBf16 got = sincos_bf16(position, frequency, factor);
  ASSERT_EQ(got.cos, oracle.eval(true, position, frequency, factor)) << position << ' ' << frequency << ' ' << factor;
  ASSERT_EQ(got.sin, oracle.eval(false, position, frequency, factor)) << position << ' ' << frequency << ' ' << factor;
}

TEST(SinCos, EqualsMpfrAtEveryPositionOfARealTable) {
  Oracle oracle;
  for (uint32_t position = 0; position < 2048; ++position)
    for (float w : {1.0f, 0.6493816f, 0.1f, 0.01f, 1.1547819e-5f, 1e-6f}) compare(oracle, position, w, 1.0f);
}

TEST(SinCos, EqualsMpfrOnRandomArgumentsOfEverySizeAndFactor) {
  Oracle oracle;
  PhiloxStream random(7);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t position = random.next() >> (3 + random.below(28));
    const float frequency = float_of(((67 + random.below(80)) << 23) | (random.next() >> 9));
    const float factor = i % 2 ? 1.0f : float_of(((107 + random.below(40)) << 23) | (random.next() >> 9));
    compare(oracle, position, frequency, factor);
  }
}

// Arguments close to multiples of pi/2, where the reduction cancels: 355/113 and further convergents of pi.
TEST(SinCos, EqualsMpfrWhereTheReductionCancels) {
  Oracle oracle;
  for (uint32_t position : {11u, 22u, 44u, 355u, 710u, 1420u, 103993u, 104348u, 208341u, 312689u, 833719u, 5419351u, 80143857u, 245850922u,
                            411557987u})
    for (float w : {1.0f, 0.5f, 2.0f, 0.25f}) compare(oracle, position, w, 1.0f);
}

}  // namespace
}  // namespace zeroulp::num
