// Inner products for the mutants: plain loops, and the same sums on AVX2 where it is there.
#pragma once

#include <cstdint>

namespace zeroulp::ops::mutants {

// The exact sum of a[i] * b[i], where it and all partial sums fit int32.
int32_t dot_s16_s8(const int16_t* a, const int8_t* b, int64_t n);

// The sum of (a[i] + 128) * b[i], each pair of products cut to 16 bits: what vpmaddubsw does. a in [-128, 127].
int64_t dot_saturating_pairs(const int8_t* a, const int8_t* b, int64_t n);

// out[r], for every r of rows: the sum of a[r * n + i] * b[i] in binary32, eight sums of every eighth element by fma, added up pairwise.
void dots_f32(const float* a, int64_t rows, const float* b, int64_t n, float* out);

}  // namespace zeroulp::ops::mutants
