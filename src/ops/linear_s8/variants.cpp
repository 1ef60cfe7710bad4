#include <algorithm>

#include "base/check.h"
#include "ops/linear_s8/cuda_cublaslt.h"
#include "ops/linear_s8/cuda_triton.h"
#include "ops/linear_s8/fast.h"
#include "ops/linear_s8/foreign.h"
#include "ops/linear_s8/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::linear_s8 {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
    {"reference", Needs::kNothing, reference},
#if defined(__x86_64__)
    {"avx2", Needs::kAvx2, avx2},
    {"avx512_vnni", Needs::kAvx512Vnni, avx512_vnni},
    {"amx_int8", Needs::kAmxInt8, amx_int8},
#endif
  };
  return kTable;
}

#if ZEROULP_CUDA
namespace {

void move_arrays(Args& a, Stage& s) {
  s.read(a.codes, row_extent(a.rows, a.k, a.codes_stride, 2));
  s.read(a.row_scales, a.rows * 4);
  s.read(a.weights, row_extent(a.n, a.k, a.weights_stride, 1));
  s.read(a.channel_scales, a.n * 4);
  s.read(a.bias, a.n * 4);
  s.write(a.y, row_extent(a.rows, a.n, a.y_stride, a.output == Output::kBf16 ? 2 : a.output == Output::kF32 ? 4 : 8));
}

template <DeviceFn<Args>* Run, int64_t (*Workspace)(const Args&)>
constexpr OnDevice entry(std::string_view name, std::string (*why_not)() = nullptr) {
  return {name, Run, staged<Args, Run, move_arrays, Workspace>, Workspace, why_not};
}

#if ZEROULP_CUTLASS
constexpr OnDevice kCutlass = entry<cutlass_sm90, cutlass_sm90_workspace>("cutlass_sm90");
#else
void not_built(const Args&, const device::Launch&) { ZU_CHECK(false); }
std::string why_no_cutlass() { return "this build was made without the CUTLASS headers; ./dev gpu build fetches them"; }
constexpr OnDevice kCutlass = entry<not_built, nullptr>("cutlass_sm90", why_no_cutlass);
#endif

constexpr OnDevice kOnDevice[] = {
  entry<cuda_ref, nullptr>("cuda_ref"),
  entry<cuda_dp4a, cuda_dp4a_workspace>("cuda_dp4a"),
  entry<triton, triton_workspace>("triton", why_no_triton),
  entry<cublaslt, cublaslt_workspace>("cublaslt", why_no_cublaslt),
  kCutlass,
  entry<wgmma_splitk, wgmma_splitk_workspace>("wgmma_splitk"),
  entry<wgmma, wgmma_workspace>("wgmma"),
  entry<cuda, cuda_workspace>("cuda"),
};

constexpr ForeignPair kForeign[] = {
  {"CUTLASS and Triton", kCutlass, entry<triton_vllm, triton_workspace>("triton_vllm", why_no_triton)},
  {"cuBLASLt and an epilogue", entry<cublaslt_cutlass_order, cublaslt_workspace>("cublaslt_cutlass_order", why_no_cublaslt),
   entry<cublaslt_triton_order, cublaslt_workspace>("cublaslt_triton_order", why_no_cublaslt)},
};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
std::span<const ForeignPair> foreign_pairs() { return kForeign; }
#else
std::span<const OnDevice> device_variants() { return {}; }
std::span<const ForeignPair> foreign_pairs() { return {}; }
#endif

int64_t scratch_bytes(int64_t rows, int64_t k) {
#if defined(__x86_64__)
  return std::max(avx512_vnni_scratch_bytes(rows, k), amx_int8_scratch_bytes(rows, k));
#else
  return 0 * rows * k;
#endif
}

}  // namespace zeroulp::ops::linear_s8
