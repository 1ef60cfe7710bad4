#include "codec/cuda/decode.cuh"

namespace zeroulp::codec::cuda {

template const char* launch_decode<Type::kF16>(const DecodeArgs&, device::StreamHandle);

}  // namespace zeroulp::codec::cuda
