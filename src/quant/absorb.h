// Power-of-two scales without their loss for up and v: each of their rows is stretched until its largest weight is 127 times a power of two,
// and the next matrix's column shrinks by as much. The factors are no powers of two, so BF16 activations round elsewhere: a change of the
// size of rounding noise, unlike smoothing.
#pragma once

#include "model/config.h"
#include "quant/layer_weights.h"

namespace zeroulp::quant {

// Rows and bias of v against columns of o, rows of up against columns of down.
void absorb_mantissas(FloatLayer& layer, const model::ModelConfig& config);

// The largest f with f * a <= 127 * 2^e in binary32, e the least that holds a itself: at least 1, below 2.02.
float stretch(float a);

}  // namespace zeroulp::quant
