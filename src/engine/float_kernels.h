// The element-wise and row-wise steps of the float reference path, with Hugging Face's rounding points: with `Rounding::kBf16` every
// tensor that transformers would hold in BF16 is rounded to it (and kept here as fp32), with kNone nothing is.
//
// One thread per call; the caller spreads rows. Sums run in binary64 over 16 interleaved lanes, added in a fixed order.
#pragma once

#include <cstdint>

namespace zeroulp::engine {

enum class Rounding { kNone, kBf16 };

// x[i] rounded in place.
void round_row(float* x, int64_t count, Rounding rounding);
// y[i] = round(y[i] + bias[i]): a linear's one rounding.
void add_bias_row(float* y, const float* bias, int64_t count, Rounding rounding);
// x[i] = round(x[i] + y[i]).
void add_row(float* x, const float* y, int64_t count, Rounding rounding);
// RMSNorm: h = round(x / sqrt(mean of squares + eps)), out = round(weight * h). out may be x.
void rmsnorm_row(const float* x, const float* weight, int64_t count, float eps, float* out, Rounding rounding);
// RoPE on one head in place, pair (i, i + d/2): round(round(x1 c) - round(x2 s)), round(round(x2 c) + round(x1 s)).
void rope_row(float* x, const float* cosine, const float* sine, int64_t head_dim, Rounding rounding);
// out[i] = round(round(silu(gate[i])) * up[i]).
void silu_mul_row(const float* gate, const float* up, int64_t count, float* out, Rounding rounding);

// Attention's softmax over the visible scores [begin, end) of one query's row; all of [0, count) is written, invisible ones as zero.
// kFused is what transformers' default (sdpa) does: scores stay fp32, the exponentials are rounded before they meet V, and the
// quotient by the returned sum follows V. kEager: scores rounded before and after the scale, normalised probabilities rounded; returns 1.
enum class Softmax { kFused, kEager };
float softmax_row(float* scores, int64_t begin, int64_t end, int64_t count, float scale, Softmax kind, Rounding rounding);
// x[i] = round(x[i] / divisor).
void divide_row(float* x, float divisor, int64_t count, Rounding rounding);

}  // namespace zeroulp::engine
