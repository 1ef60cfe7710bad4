// Hopper's own instructions, as thin as they come: barriers in shared memory, the bulk copy engine, warpgroup matrix multiplication of
// int8 into int32. (PTX ISA 8: mbarrier, cp.async.bulk.tensor, wgmma.mma_async and its matrix descriptors.)
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace zeroulp::ops::hopper {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// ---- mbarrier: a phase ends when `arrivals` threads have arrived and all expected bytes have come.

__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Waits for the end of the phase of that parity; returns at once when it has ended before.
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
    "{\n.reg .pred done;\n"
    "again:\n"
    "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
    "@done bra over;\n"
    "bra again;\n"
    "over:\n}\n" ::"r"(shared_address(barrier)),
    "r"(parity)
    : "memory");
}
// Makes initialised barriers visible to the copy engine.
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// ---- the copy engine: a box of a tensor to shared memory; elements outside the tensor become zero.

__device__ inline void load_box(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(to)),
               "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
               : "memory");
}
__device__ inline void load_box(void* to, const CUtensorMap* map, uint64_t* barrier, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
                 shared_address(to)),
               "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// ---- wgmma

// Rows of 128 bytes along K in 128-byte swizzle: groups of 8 rows are 1024 bytes apart, and the tile starts at a multiple of 1024.
__device__ inline uint64_t matrix_descriptor(const void* tile) {
  return (shared_address(tile) & 0x3FFFF) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
constexpr uint64_t kNext32Bytes = 32 >> 4;  // to the next 32 of K inside the 128

__device__ inline void mma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler must not keep a copy of an accumulator across a wait.
template <int n>
__device__ inline void fence_registers(int32_t (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

// d = A * B^T (+ d when `keep`) for 64 rows of A, N rows of B and 32 of K. Thread t of the warpgroup holds in d[i] the element of row
// 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2) and column 8 * (i / 4) + 2 * (t % 4) + i % 2.
template <int N>
struct Mma;

#define ZU_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define ZU_16(i) ZU_4(i), ZU_4(i + 4), ZU_4(i + 8), ZU_4(i + 12)
template <>
struct Mma<128> {
  static constexpr int kRegisters = 64;
  __device__ static void add(int32_t (&d)[64], uint64_t a, uint64_t b, bool keep) {
    asm volatile(
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, keep;\n}\n"
      : ZU_16(0), ZU_16(16), ZU_16(32), ZU_16(48)
      : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
  }
};

template <>
struct Mma<256> {
  static constexpr int kRegisters = 128;
  __device__ static void add(int32_t (&d)[128], uint64_t a, uint64_t b, bool keep) {
    asm volatile(
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, keep;\n}\n"
      : ZU_16(0), ZU_16(16), ZU_16(32), ZU_16(48), ZU_16(64), ZU_16(80), ZU_16(96), ZU_16(112)
      : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
  }
};
#undef ZU_16
#undef ZU_4

template <int kRegisters>
__device__ inline void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace zeroulp::ops::hopper
