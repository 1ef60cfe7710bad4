#include "codec/cuda/encode.cuh"

namespace zeroulp::codec::cuda {

template const char* launch_encode<Type::kF8E4M3>(const EncodeArgs&, device::StreamHandle);
template const char* launch_encode<Type::kF8E5M2>(const EncodeArgs&, device::StreamHandle);
template const char* launch_encode<Type::kBytes>(const EncodeArgs&, device::StreamHandle);

}  // namespace zeroulp::codec::cuda
