// linear_s8 by CUTLASS: its main loop, its scheduler, its epilogue tree. Nothing of the product is ours except the conversion to bf16.
//
// 8-bit codes, bf16 output and a multiple of eight channels go through one fused kernel whose epilogue multiplies as the scaled products of
// serving stacks do: the weight's scale first, then the activation's, the bias in the second product. That order is the contract's
// (contract.h), so the bits must be equal; tests hold them to it. Everything else takes CUTLASS's int32 sums, one product per plane, and
// finish_sums.
//
// The conversion is num::float_to_bf16 because CUTLASS's own gives another NaN (0x7FFF) than the contract (0x7FC0). The fma of the bias is
// asked for by name: CUTLASS's multiply_add is a product and a sum that the compiler may or may not contract.
#include "cutlass/cutlass.h"
// (The order of these includes is CUTLASS's.)
#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "ops/linear_s8/cuda_operands.cuh"

#ifndef NDEBUG
#error "CUTLASS's device assertions make the assembler serialise wgmma: build this file with NDEBUG"
#endif

// bf16 as its bits. The general template would convert to an unsigned integer.
template <>
struct cutlass::NumericConverter<uint16_t, float, cutlass::FloatRoundStyle::round_to_nearest> {
  using result_type = uint16_t;
  using source_type = float;
  static constexpr FloatRoundStyle round_style = FloatRoundStyle::round_to_nearest;
  CUTLASS_HOST_DEVICE static result_type convert(const source_type& x) { return zeroulp::num::float_to_bf16(x); }
  CUTLASS_HOST_DEVICE result_type operator()(const source_type& x) const { return convert(x); }
};

namespace zeroulp::ops::linear_s8 {
namespace {

using cute::_0;
using cute::_1;
using cute::_128;
using cute::_2;
using cute::_256;
using Tile = cute::Shape<_128, _256, _128>;
using Cluster = cute::Shape<_2, _1, _1>;

template <class T>
struct MultiplyAdd {
  CUTLASS_HOST_DEVICE T operator()(const T& a, const T& b, const T& c) const { return std::fma(a, b, c); }
};
template <int N>
struct MultiplyAdd<cutlass::Array<float, N>> {
  using Floats = cutlass::Array<float, N>;
  CUTLASS_HOST_DEVICE Floats operator()(const Floats& a, const Floats& b, const Floats& c) const {
    Floats y;
    for (int i = 0; i < N; ++i) y[i] = std::fma(a[i], b[i], c[i]);
    return y;
  }
};

namespace fusion = cutlass::epilogue::fusion;
constexpr auto kNearest = cutlass::FloatRoundStyle::round_to_nearest;
using PerChannel = fusion::Sm90RowBroadcast<0, Tile, float, float, cute::Stride<_0, _1, _0>>;
using PerRow = fusion::Sm90ColBroadcast<0, Tile, float, float, cute::Stride<_1, _0, _0>>;
using Scaled = fusion::Sm90EVT<fusion::Sm90Compute<cutlass::multiplies, float, float, kNearest>, PerChannel, fusion::Sm90AccFetch>;
using Fused = fusion::Sm90EVT<fusion::Sm90Compute<cutlass::multiplies, uint16_t, float, kNearest>, PerRow, Scaled>;
using FusedBias = fusion::Sm90EVT<fusion::Sm90Compute<MultiplyAdd, uint16_t, float, kNearest>, PerRow, Scaled, PerChannel>;
using Sums = fusion::LinearCombination<int32_t, int32_t, void, int32_t>;  // 1 * sum

template <class Out, class Epilogue>
struct Build {
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  static constexpr int kAlignment = 16 / sizeof(Out);
  using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, int32_t,
    std::conditional_t<std::is_same_v<Out, int32_t>, int32_t, float>, void, RowMajor, kAlignment, Out, RowMajor, kAlignment,
    cutlass::epilogue::TmaWarpSpecializedCooperative, Epilogue>::CollectiveOp;
  using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, int8_t, RowMajor, 16, int8_t, ColumnMajor, 16, int32_t, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename CollectiveEpilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

constexpr int64_t kGemmWorkspace = 1 << 20;  // the default scheduler needs none today; asked for below

// The copy engine writes rows whose length and start are multiples of 16 bytes.
int64_t padded_n(const Args& a) { return round_up(a.n, 8); }
bool y_aligned(const Args& a) { return reinterpret_cast<uintptr_t>(a.y) % 16 == 0 && a.y_stride % 8 == 0; }
bool is_fused(const Args& a) { return a.width == 8 && a.output == Output::kBf16 && a.n % 8 == 0; }

// y[rows, padded n] (row stride y_stride) from one plane of codes.
template <class Build, class Thread, class Out>
void multiply(const Args& a, const device::Launch& launch, const int8_t* codes, const Weights& b, const Thread& thread, Out* y, int64_t y_stride,
              std::byte* scratch) {
  using Gemm = typename Build::Gemm;
  using Kernel = typename Gemm::GemmKernel;
  const auto rows = static_cast<int>(a.rows), n = static_cast<int>(padded_n(a)), k = static_cast<int>(b.k);
  typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                     {rows, n, k, 1},
                                     {codes, {b.k, _1{}, 0}, b.data, {b.stride, _1{}, 0}},
                                     {{}, nullptr, {y_stride, _1{}, 0}, y, {y_stride, _1{}, 0}}};
  arguments.epilogue.thread = thread;
  arguments.hw_info.sm_count = launch.multiprocessors;
  static_assert(std::is_same_v<typename Kernel::ElementD, Out>);
  Gemm gemm;
  ZU_CHECK(Gemm::can_implement(arguments) == cutlass::Status::kSuccess);
  ZU_CHECK(static_cast<int64_t>(Gemm::get_workspace_size(arguments)) <= kGemmWorkspace);
  ZU_CHECK(gemm.initialize(arguments, scratch, launch.stream) == cutlass::Status::kSuccess);
  ZU_CHECK(gemm.run(launch.stream) == cutlass::Status::kSuccess);
}

__global__ void copy_rows(const uint16_t* from, int64_t from_stride, uint16_t* to, int64_t to_stride, int64_t rows, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < rows * n) to[i / n * to_stride + i % n] = from[i / n * from_stride + i % n];
}

void fused(const Args& a, const device::Launch& launch, const int8_t* codes, const Weights& b, Workspace& workspace, std::byte* scratch) {
  const bool direct = y_aligned(a);
  uint16_t* const y = direct ? static_cast<uint16_t*>(a.y) : workspace.take<uint16_t>(a.rows * a.n);
  const int64_t stride = direct ? a.y_stride : a.n;
  const typename PerChannel::Arguments channel_scales{a.channel_scales, 0.0f, {}};
  const typename PerRow::Arguments row_scales{a.row_scales, 0.0f, {}};
  const typename Scaled::Arguments scaled{channel_scales, {}, {}};
  if (a.bias == nullptr)
    multiply<Build<uint16_t, Fused>>(a, launch, codes, b, typename Fused::Arguments{row_scales, scaled, {}}, y, stride, scratch);
  else
    multiply<Build<uint16_t, FusedBias>>(a, launch, codes, b, typename FusedBias::Arguments{row_scales, scaled, {a.bias, 0.0f, {}}, {}}, y, stride,
                                         scratch);
  if (!direct)
    copy_rows<<<static_cast<unsigned>(ceil_div(a.rows * a.n, 256)), 256, 0, launch.stream>>>(y, stride, static_cast<uint16_t*>(a.y), a.y_stride,
                                                                                             a.rows, a.n);
}

void by_sums(const Args& a, const device::Launch& launch, const int8_t* codes, const Weights& b, Workspace& workspace, std::byte* scratch) {
  using Sum = Build<int32_t, Sums>;
  const int planes = planes_of(a);
  int32_t* const sums = workspace.take<int32_t>(planes * a.rows * padded_n(a));
  typename Sum::CollectiveEpilogue::FusionCallbacks::Arguments one{};
  one.alpha = 1;
  for (int p = 0; p < planes; ++p)
    multiply<Sum>(a, launch, codes + p * a.rows * b.k, b, one, sums + p * a.rows * padded_n(a), padded_n(a), scratch);
  finish_sums(a, launch, sums, a.rows * padded_n(a), padded_n(a), 1);
}

}  // namespace

void cutlass_sm90(const Args& a, const device::Launch& launch) {
  if (a.rows * a.n == 0) return;
  Workspace workspace(launch);
  const Weights b = make_weights(a, launch, workspace, padded_n(a));
  const int8_t* const codes = make_codes(a, launch, workspace, a.rows);
  std::byte* const scratch = workspace.take<std::byte>(kGemmWorkspace);
  is_fused(a) ? fused(a, launch, codes, b, workspace, scratch) : by_sums(a, launch, codes, b, workspace, scratch);
}

int64_t cutlass_sm90_workspace(const Args& a) {
  const int64_t out = is_fused(a) ? a.rows * a.n * 2 : planes_of(a) * a.rows * padded_n(a) * 4;
  return weight_bytes(a, padded_n(a)) + code_bytes(a, a.rows) + kGemmWorkspace + round_up(out, 256);
}

}  // namespace zeroulp::ops::linear_s8
