#include "codec/cuda/encode.cuh"

namespace zeroulp::codec::cuda {

template const char* launch_encode<Type::kF16>(const EncodeArgs&, device::StreamHandle);

}  // namespace zeroulp::codec::cuda
