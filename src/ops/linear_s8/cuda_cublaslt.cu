// int8 x int8 -> int32 by cublasLtMatmul, then finish_sums. cuBLASLt counts in columns: its D is our sums transposed, its A the weights.
#include "ops/linear_s8/cuda_cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include "ops/linear_s8/cuda_operands.cuh"
#include "ops/linear_s8/foreign.h"

namespace zeroulp::ops::linear_s8 {
namespace {

constexpr int64_t kMultiple = 16;             // of rows and channels: what its int8 kernels want
constexpr int64_t kLibraryWorkspace = 32 << 20;

struct Library {
  std::string why_not;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescInit_internal) desc_init = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init = nullptr;
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
};

template <class Fn>
bool find(void* library, const char* name, Fn*& out) {
  out = reinterpret_cast<Fn*>(dlsym(library, name));
  return out != nullptr;
}

Library load() {
  const OutsideCapture outside;
  Library l;
  void* const found = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) {
    l.why_not = "libcublasLt.so.13 is not found; LD_LIBRARY_PATH may name its folder";
  } else if (!find(found, "cublasLtCreate", l.create) || !find(found, "cublasLtMatmul", l.matmul) ||
             !find(found, "cublasLtMatmulDescInit_internal", l.desc_init) || !find(found, "cublasLtMatmulDescSetAttribute", l.desc_set) ||
             !find(found, "cublasLtMatrixLayoutInit_internal", l.layout_init) ||
             !find(found, "cublasLtMatmulPreferenceInit_internal", l.preference_init) ||
             !find(found, "cublasLtMatmulPreferenceSetAttribute", l.preference_set) ||
             !find(found, "cublasLtMatmulAlgoGetHeuristic", l.heuristic)) {
    l.why_not = "libcublasLt.so.13 lacks a function that is needed";
  } else if (l.create(&l.handle) != CUBLAS_STATUS_SUCCESS) {
    l.why_not = "cuBLASLt does not start on this GPU";
  }
  return l;
}

const Library& library() {
  static const Library l = load();
  return l;
}

int64_t padded_rows(const Args& a) { return round_up(a.rows, kMultiple); }
int64_t padded_n(const Args& a) { return round_up(a.n, kMultiple); }

// sums[rows][n] = codes[rows][k] * weights[n][k]^T, all of it padded.
void multiply(const device::Launch& launch, const int8_t* codes, const Weights& b, int64_t rows, int64_t n, int32_t* sums, std::byte* scratch) {
  const Library& l = library();
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t chosen{};
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const size_t most = kLibraryWorkspace;
  const auto ok = [](cublasStatus_t status) { ZU_CHECK(status == CUBLAS_STATUS_SUCCESS); };
  ok(l.desc_init(&product, sizeof product, CUBLAS_COMPUTE_32I, CUDA_R_32I));
  ok(l.desc_set(&product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
  ok(l.layout_init(&a_layout, sizeof a_layout, CUDA_R_8I, static_cast<uint64_t>(b.k), static_cast<uint64_t>(n), b.stride));
  ok(l.layout_init(&b_layout, sizeof b_layout, CUDA_R_8I, static_cast<uint64_t>(b.k), static_cast<uint64_t>(rows), b.k));
  ok(l.layout_init(&d_layout, sizeof d_layout, CUDA_R_32I, static_cast<uint64_t>(n), static_cast<uint64_t>(rows), n));
  ok(l.preference_init(&preference, sizeof preference));
  ok(l.preference_set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
  int count = 0;
  ok(l.heuristic(l.handle, &product, &a_layout, &b_layout, &d_layout, &d_layout, &preference, 1, &chosen, &count));
  ZU_CHECK(count == 1);
  const int32_t one = 1, none = 0;
  ok(l.matmul(l.handle, &product, &one, b.data, &a_layout, codes, &b_layout, &none, sums, &d_layout, sums, &d_layout, &chosen.algo, scratch, most,
              launch.stream));
}

// The sums of every plane: [planes] of rows * n.
const int32_t* all_sums(const Args& a, const device::Launch& launch, int64_t rows, int64_t n) {
  ZU_CHECK(library().why_not.empty());
  Workspace workspace(launch);
  const int planes = planes_of(a);
  const Weights b = make_weights(a, launch, workspace, n);
  const int8_t* const codes = make_codes(a, launch, workspace, rows);
  int32_t* const sums = workspace.take<int32_t>(planes * rows * n);
  std::byte* const scratch = workspace.take<std::byte>(kLibraryWorkspace);
  for (int p = 0; p < planes; ++p) multiply(launch, codes + p * rows * b.k, b, rows, n, sums + p * rows * n, scratch);
  return sums;
}

template <EpilogueOrder order>
__global__ void finish_foreign(Args a, const int32_t* sums, int64_t sums_n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < a.rows * a.n) foreign_store(order, a, i / a.n, i % a.n, sums[i / a.n * sums_n + i % a.n]);
}

template <EpilogueOrder order>
void in_order(const Args& a, const device::Launch& launch) {
  ZU_CHECK(a.width == 8 && a.output != Output::kPartial);
  if (a.rows * a.n == 0) return;
  const int32_t* const sums = all_sums(a, launch, padded_rows(a), padded_n(a));
  finish_foreign<order><<<static_cast<unsigned>(ceil_div(a.rows * a.n, 256)), 256, 0, launch.stream>>>(a, sums, padded_n(a));
}

}  // namespace

std::string why_no_cublaslt() { return library().why_not; }

void cublaslt(const Args& a, const device::Launch& launch) {
  if (a.rows * a.n == 0) return;
  const int64_t rows = padded_rows(a), n = padded_n(a);
  finish_sums(a, launch, all_sums(a, launch, rows, n), rows * n, n, 1);
}
void cublaslt_cutlass_order(const Args& a, const device::Launch& launch) { in_order<EpilogueOrder::kCutlass>(a, launch); }
void cublaslt_triton_order(const Args& a, const device::Launch& launch) { in_order<EpilogueOrder::kTriton>(a, launch); }

void cublaslt_product(const device::Launch& launch, const int8_t* codes, const int8_t* weights, int64_t rows, int64_t n, int64_t k, int32_t* sums) {
  ZU_CHECK(library().why_not.empty());
  Workspace workspace(launch);
  multiply(launch, codes, {weights, k, k}, rows, n, sums, workspace.take<std::byte>(kLibraryWorkspace));
}

int64_t cublaslt_workspace(const Args& a) {
  return weight_bytes(a, padded_n(a)) + code_bytes(a, padded_rows(a)) + round_up(planes_of(a) * padded_rows(a) * padded_n(a) * 4, 256) +
         kLibraryWorkspace;
}

}  // namespace zeroulp::ops::linear_s8
