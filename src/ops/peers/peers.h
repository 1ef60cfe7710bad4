// Linears and activation quantisers as other stacks compute them: material for measuring which of them have the contract's bits, when, and how far off
// the others are. None of this computes anything for zeroulp's own use. The facts come from the peers' sources, named in the tables below; the code is
// written for these tables. Vectors that the peers' own code produced: tests/golden/foreign.
#pragma once

#include <span>
#include <string_view>

#include "ops/linear_s8/contract.h"
#include "ops/quant_rows/contract.h"

namespace zeroulp::ops::peers {

struct Origin {
  std::string_view name;        // "vllm-triton"
  std::string_view repository;  // "vllm-project/vllm"
  std::string_view commit;      // or release
  std::string_view place;       // file and lines
  std::string_view arithmetic;  // what it computes
};

// From 8-bit codes and their row scales. b: the bias, which all of them hold in bf16; f = i2f of the exact sum unless said otherwise.
enum class Linear {
  kVllmCutlass,          // also SGLang on sm90
  kVllmTriton,
  kSglangPremultiplied,  // SGLang on sm75 to sm89, TensorRT-LLM
  kSglangBlock,
  kTorchao,
  kDequantiseFirst,
  kLlamaQ80
};
inline constexpr Origin kLinears[] = {
    {"vllm-cutlass", "vllm-project/vllm", "09a7060140a6 (2.x), 00c11f4df1e6 (3.x)",
     "csrc/cutlass_extensions/epilogue/scaled_mm_epilogues_c2x.hpp:92-174, scaled_mm_epilogues_c3x.hpp:ScaledEpilogue, ScaledEpilogueBias; "
     "sgl-project/sglang 1f2840c9c9f6 sgl-kernel/csrc/gemm/int8_gemm_kernel.cu:cutlass_int8_scaled_mm_sm90",
     "bf16(sA * (sB * f)); with bias bf16(fma(sA, sB * f, b)), contracted by nvcc's default"},
    {"vllm-triton", "vllm-project/vllm", "03f95201341d",
     "vllm/model_executor/layers/quantization/compressed_tensors/triton_scaled_mm.py:scaled_mm_kernel; copied in sglang 0.5.5, "
     "sglang/srt/layers/quantization/fp8_kernel.py:1627-1746",
     "bf16(sB * (sA * f)); the bias is added after that rounding, in bf16"},
    {"sglang-premultiplied", "sgl-project/sglang", "1f2840c9c9f6",
     "sgl-kernel/csrc/gemm/int8_gemm_kernel.cu:cutlass_int8_scaled_mm with EpilogueVisitorPerRowPerCol",
     "bf16(f * (sB * sA)); with bias bf16(f * (sB * sA) + b): the addition stands behind a branch, and nvcc does not contract it"},
    {"sglang-block-int8", "sgl-project/sglang", "0.5.5",
     "sglang/srt/layers/quantization/int8_kernel.py:229-310",
     "per 128 inputs acc = fma(f * sA, sB, acc) in fp32, fused by Triton's default; bf16 once at the end; no bias of its own, it is added in bf16"},
    {"torchao", "pytorch/ao", "36027d82d1ad",
     "torchao/quantization/quantize_/workflows/int8/int8_tensor.py:268-360, kernels.py:safe_int_mm",
     "bf16(bf16(f * sA) * sB + b) with sB and the addition in fp32: a rounding to bf16 between the scales"},
    {"dequantise-first", "pytorch/pytorch", "2.15.0",
     "torch.matmul of dequantised fp32 operands on the CPU (MKL); other libraries and shapes may sum in another order",
     "q * sA and w * sB in fp32, then acc = fma(q sA, w sB, acc), ascending; bf16 once, bias in bf16"},
    {"llama.cpp-q8_0", "ggml-org/ggml", "d99724f2b141",
     "src/ggml-cpu/quants.c:451-480 (ggml_vec_dot_q8_0_q8_0_generic)",
     "per 32 inputs sum = fma(f, fp16(sA) * fp16(sB), sum) in fp32; scales are kept in fp16; bias added in fp32"},
};
linear_s8::Fn* linear_of(Linear which);  // 15-bit codes and exact sums: as the contract has them

enum class Quantiser { kVllm, kVllmStatic, kSglangToken, kSglangGroup, kLlamaQ80 };
inline constexpr Origin kQuantisers[] = {
    {"vllm-dynamic", "vllm-project/vllm", "180df48e2fdd", "csrc/quantization/w8a8/int8/scaled_quant.cu:dynamic_scaled_int8_quant_kernel",
     "s = a / 127, q = sat(rne(x * (127 / a))); a = 0: s = 0, q = 0"},
    {"vllm-static", "vllm-project/vllm", "180df48e2fdd", "csrc/quantization/w8a8/int8/scaled_quant.cu:static_scaled_int8_quant_kernel",
     "q = sat(rne(x / s)) with a given s; here s = a / 127 of the row"},
    {"sglang-per-token", "sgl-project/sglang", "0.5.5", "sglang/srt/layers/quantization/int8_kernel.py:29-56",
     "a at least 1e-10; s = a / 127, q = round(x * (127 / a)), halves away from zero; / is Triton's approximate division"},
    {"sglang-group", "sgl-project/sglang", "0.5.5", "sglang/srt/layers/quantization/int8_kernel.py:93-131",
     "groups of 128: a at least 1e-10; s = a / 127, q = x / s clamped to -128 and 127, truncated; / is approximate. Here the group is the row"},
    {"llama.cpp-q8_0", "ggml-org/ggml", "d99724f2b141", "src/ggml-quants.c:quantize_row_q8_0_ref",
     "blocks of 32: d = a / 127, q = round(x * (1 / d)), halves away from zero; d is then kept in fp16. Here the block is the row"},
};
quant_rows::Fn* quantiser_of(Quantiser which);  // width 15: as the contract has it

}  // namespace zeroulp::ops::peers
