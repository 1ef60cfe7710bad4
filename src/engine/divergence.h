// How far one row of logits is from another.
#pragma once

#include <cstdint>

namespace zeroulp::engine {

// Kullback-Leibler divergence KL(reference || other) in nats of the two distributions that the logits stand for. All logits finite. Terms in
// fp32 (num/exp.h), sums in binary64 over 16 interleaved lanes added in a fixed order: the same bits at every vector width. Exactly 0 for
// equal rows; for others the error is about 1e-7, so that a result may be negative by as much.
double kl_divergence(const float* reference, const float* other, int64_t count);

}  // namespace zeroulp::engine
