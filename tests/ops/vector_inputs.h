// The inputs of the golden vectors, and the spelling of arrays: numbers of a format are hexadecimal bit patterns between blanks.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/vectors.h"

namespace zeroulp::ops::vectors {

template <class T>
std::string hex(const std::vector<T>& values);
extern template std::string hex(const std::vector<uint16_t>&);
extern template std::string hex(const std::vector<float>&);
template <class T>
std::vector<T> from_hex(const Json& text);
extern template std::vector<uint16_t> from_hex(const Json&);
extern template std::vector<float> from_hex(const Json&);

std::vector<Json> argmax_inputs();
std::vector<Json> attention_inputs();
std::vector<Json> embedding_inputs();
std::vector<Json> kv_cache_inputs();
std::vector<Json> linear_s8_inputs();
std::vector<Json> nll_inputs();
std::vector<Json> quant_rows_inputs();
std::vector<Json> residual_inputs();
std::vector<Json> rmsnorm_inputs();
std::vector<Json> rope_inputs();
std::vector<Json> sample_inputs();
std::vector<Json> silu_mul_inputs();

}  // namespace zeroulp::ops::vectors
