#include "codec/cuda/decode.cuh"

namespace zeroulp::codec::cuda {

template const char* launch_decode<Type::kF8E4M3>(const DecodeArgs&, device::StreamHandle);
template const char* launch_decode<Type::kF8E5M2>(const DecodeArgs&, device::StreamHandle);
template const char* launch_decode<Type::kBytes>(const DecodeArgs&, device::StreamHandle);

}  // namespace zeroulp::codec::cuda
