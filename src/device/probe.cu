#include "device/probe.h"

namespace zeroulp::device {
namespace {

__global__ void read_all(const uint4* data, int64_t count, uint32_t* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  uint32_t mixed = 0;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * step < count; i += 4 * step) {
    const uint4 a = __ldcs(data + i), b = __ldcs(data + i + step), c = __ldcs(data + i + 2 * step), d = __ldcs(data + i + 3 * step);
    mixed ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += step) mixed ^= data[i].x ^ data[i].y ^ data[i].z ^ data[i].w;
  if (mixed == 0x9E3779B9u) *out = mixed;  // keeps the reads
}

}  // namespace

void launch_read_all(std::byte* data, int64_t count, int multiprocessors, StreamHandle stream) {
  const auto* words = reinterpret_cast<const uint4*>(data);
  read_all<<<multiprocessors * 8, 256, 0, stream>>>(words, count, reinterpret_cast<uint32_t*>(data + 16 * count));
}

}  // namespace zeroulp::device
