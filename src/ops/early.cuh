// Kernels that start while the one ahead of them in the stream still runs (programmatic dependent launch). A step of decoding is a chain of
// short kernels: what each does before it needs the answer of the one ahead then costs nothing, and neither does its launch.
//
// The rules that keep this right:
//  - A kernel launched by launch_early calls wait_for_previous() in every thread that goes on to read what kernels write, or to write. When it
//    returns, all kernels ahead in the stream have ended and what they wrote is visible: each of them waited too.
//  - Before that it reads only what no kernel of the pass writes: weights, tables, inputs that the host copied, cache entries of earlier passes.
//  - let_next_start() allows the next kernel to begin as soon as all thread blocks of this one have called it or ended. A kernel that does
//    not call it holds the next one up; that moves no bit.
#pragma once

#include <cuda_runtime.h>

#include "device/device.h"

namespace zeroulp::ops {

__device__ inline void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void let_next_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int64_t threads, int64_t shared_bytes, device::StreamHandle stream,
                  Arguments&&... arguments) {
  // One split of the multiprocessors' memory for all of them: a thread block that wants another has to wait until its multiprocessor is empty.
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

}  // namespace zeroulp::ops
