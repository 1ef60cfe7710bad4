// The float power that PyTorch's vectorised CPU kernels compute, bit for bit: the algorithm of SLEEF's powf of 1.0 ulp with fused
// multiply-adds (AVX2, AVX-512), written here as scalar double-float arithmetic. RoPE frequencies of Hugging Face models are made
// with it, and in about one case of 500 it is not the nearest float. The polynomial coefficients are SLEEF's published ones.
#pragma once

#include <cmath>

namespace zeroulp::num {

namespace powf_sleef_detail {

// An unevaluated sum hi + lo of two floats.
struct Pair {
  float hi, lo;
};

// Exact sums of two floats; a pair's low part joins the rounding error.
inline Pair sum(float a, float b) {
  const float s = a + b, v = s - a;
  return {s, (a - (s - v)) + (b - v)};
}
inline Pair sum(Pair a, float b) {
  const Pair s = sum(a.hi, b);
  return {s.hi, s.lo + a.lo};
}
inline Pair sum(Pair a, Pair b) {
  const Pair s = sum(a.hi, b.hi);
  return {s.hi, s.lo + (a.lo + b.lo)};
}

// Sums for |a| >= |b|.
inline Pair sum_ordered(Pair a, Pair b) {
  const float s = a.hi + b.hi;
  return {s, (((a.hi - s) + b.hi) + a.lo) + b.lo};
}
inline Pair sum_ordered(float a, Pair b) {
  const float s = a + b.hi;
  return {s, ((a - s) + b.hi) + b.lo};
}

inline Pair product(Pair a, float b) {
  const float p = a.hi * b;
  return {p, std::fma(a.lo, b, std::fma(a.hi, b, -p))};
}
inline Pair product(Pair a, Pair b) {
  const float p = a.hi * b.hi;
  return {p, std::fma(a.hi, b.lo, std::fma(a.lo, b.hi, std::fma(a.hi, b.hi, -p)))};
}
inline Pair square(Pair a) {
  const float p = a.hi * a.hi;
  return {p, std::fma(a.hi + a.hi, a.lo, std::fma(a.hi, a.hi, -p))};
}
inline Pair quotient(Pair n, Pair d) {
  const float reciprocal = 1.0f / d.hi;
  const float q = n.hi * reciprocal;
  const float q_error = std::fma(reciprocal, n.hi, -q);
  const float d_error = std::fma(-d.lo, reciprocal, std::fma(-d.hi, reciprocal, 1.0f));
  return {q, std::fma(q, d_error, std::fma(n.lo, reciprocal, q_error))};
}

// log(x) for normal x > 0, by 2 atanh((m - 1) / (m + 1)) with x = m 2^e, m in [0.75, 1.5).
inline Pair log_pair(float x) {
  const int e = std::ilogb(x * (1.0f / 0.75f));
  const float m = std::ldexp(x, -e);
  const Pair r = quotient(sum(-1.0f, m), sum(1.0f, m));
  const Pair r2 = square(r);
  float t = 0.240320354700088500976562f;
  t = std::fma(t, r2.hi, 0.285112679004669189453125f);
  t = std::fma(t, r2.hi, 0.400007992982864379882812f);
  const Pair third = {0.66666662693023681640625f, 3.69183861259614332084311e-09f};
  Pair s = product(Pair{0.69314718246459960938f, -1.904654323148236017e-09f}, static_cast<float>(e));
  s = sum_ordered(s, Pair{r.hi * 2.0f, r.lo * 2.0f});
  return sum_ordered(s, product(product(r2, r), sum(product(r2, t), third)));
}

// exp(a) for results in the normal range.
inline float exp_pair(Pair a) {
  const float q = std::rint((a.hi + a.lo) * 1.44269504088896340736f);
  Pair s = sum(a, q * -0.693145751953125f);
  s = sum(s, q * -1.428606765330187045e-06f);
  const float head = s.hi + s.lo;
  s = {head, (s.hi - head) + s.lo};
  float u = 0.00136324646882712841033936f;
  u = std::fma(u, s.hi, 0.00836596917361021041870117f);
  u = std::fma(u, s.hi, 0.0416710823774337768554688f);
  u = std::fma(u, s.hi, 0.166665524244308471679688f);
  u = std::fma(u, s.hi, 0.499999850988388061523438f);
  const Pair t = sum_ordered(1.0f, sum_ordered(s, product(square(s), u)));
  return std::ldexp(t.hi + t.lo, static_cast<int>(q));
}

}  // namespace powf_sleef_detail

// base^exponent for a normal base > 0 and a result in the normal range.
inline float powf_sleef(float base, float exponent) {
  using namespace powf_sleef_detail;
  return exp_pair(product(log_pair(base), exponent));
}

}  // namespace zeroulp::num
