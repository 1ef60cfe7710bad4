// A PyTorch extension under test: the integer linear for 8-bit activations, bf16 output, as a C++ operator.
#include <torch/extension.h>

#include <cmath>

torch::Tensor linear_s8(const torch::Tensor& codes, const torch::Tensor& row_scales, const torch::Tensor& weights, const torch::Tensor& channel_scales,
                        const c10::optional<torch::Tensor>& bias) {
  TORCH_CHECK(codes.dtype() == torch::kInt8 && weights.dtype() == torch::kInt8, "codes and weights must be int8");
  const auto rows = codes.size(0), k = codes.size(1), n = weights.size(0);
  torch::Tensor y = torch::empty({rows, n}, codes.options().dtype(torch::kBFloat16));
  const int8_t *q = codes.data_ptr<int8_t>(), *w = weights.data_ptr<int8_t>();
  const float *sa = row_scales.data_ptr<float>(), *sb = channel_scales.data_ptr<float>(), *b = bias ? bias->data_ptr<float>() : nullptr;
  auto* out = y.data_ptr<at::BFloat16>();
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t c = 0; c < n; ++c) {
        int32_t acc = 0;
        for (int64_t i = 0; i < k; ++i) acc += int32_t{q[row * k + i]} * w[c * k + i];
        const float scaled = sb[c] * static_cast<float>(acc);
        out[row * n + c] = b != nullptr ? std::fma(sa[row], scaled, b[c]) : sa[row] * scaled;
      }
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_s8", &linear_s8); }
