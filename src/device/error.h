// CUDA errors as Results. The files of this folder and .cu files are the only ones that include CUDA headers.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <string_view>

#include "base/result.h"

namespace zeroulp::device {

// `what` names the call or the phase: "copying weights".
inline Status check(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return unavailable(fmt::format("GPU: {}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

}  // namespace zeroulp::device
