// A plain CUDA kernel under test, in a pipe; needs a GPU:
//
//   nvcc -O2 -std=c++17 -fmad=false -prec-div=true -ftz=false examples/cuda/quant_rows.cu -o quant_rows
//   zeroulp cases emit quant_rows --kind all | ./quant_rows | zeroulp cases check
//
// The quantiser of activation rows: one block per row, the largest magnitude by an integer maximum, so that no order of threads can matter.
#include <cuda_runtime.h>

#include "../c/cases_stream.h"

namespace {

constexpr int kThreads = 128;

struct Range {
  int least, largest;  // bits of bf16 magnitudes
  bool power_of_two;   // scales
};

__device__ float widened(unsigned bits) { return __uint_as_float(bits << 16); }

__global__ void quant_rows(const uint16_t* x, const uint16_t* absmax, int64_t k, float top, Range range, int16_t* codes, float* scales, uint8_t* faults) {
  const int64_t row = blockIdx.x;
  __shared__ int largest;
  if (threadIdx.x == 0) largest = absmax != nullptr ? absmax[row] : 0;
  __syncthreads();
  if (absmax == nullptr) {
    int mine = 0;
    for (int64_t i = threadIdx.x; i < k; i += kThreads) mine = max(mine, static_cast<int>(x[row * k + i] & 0x7FFF));
    atomicMax(&largest, mine);
    __syncthreads();
  }
  const bool fault = largest > range.largest, tiny = largest < range.least;
  const float a = widened(static_cast<unsigned>(largest));
  float scale = __fdiv_rn(a, top), multiplier = __fdiv_rn(top, a);
  if (range.power_of_two) {  // the least that clips nothing
    int e = ilogbf(scale);
    if (ldexpf(top, e) < a) ++e;
    scale = ldexpf(1.0f, e);
    multiplier = ldexpf(1.0f, -e);
  }
  if (threadIdx.x == 0) {
    scales[row] = fault ? __uint_as_float(0x7FC00000u) : tiny ? 1.0f : scale;
    faults[row] = fault ? 1 : 0;
  }
  for (int64_t i = threadIdx.x; i < k; i += kThreads)
    codes[row * k + i] = fault || tiny ? int16_t{0} : static_cast<int16_t>(__float2int_rn(__fmul_rn(widened(x[row * k + i]), multiplier)));
}

void must(cudaError_t error) {
  if (error != cudaSuccess) zc_stop(cudaGetErrorString(error));
}

void* on_device(const void* host, size_t bytes) {
  void* device = nullptr;
  must(cudaMalloc(&device, bytes));
  must(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  return device;
}

void answer(const zc_case& c) {
  const zc_tensor *x = zc_input(&c, "x"), *absmax = zc_input(&c, "absmax");
  const bool eight = zc_attribute_of(&c, "width")->integer == 8, attention = strcmp(zc_attribute_of(&c, "range")->text, "attention") == 0;
  const bool power_of_two = strcmp(zc_attribute_of(&c, "range")->text, "linear-po2") == 0;
  const Range range = attention ? Range{(127 - 40) << 7, (127 + 48) << 7, false} : Range{(127 - 72) << 7, (127 + 96) << 7, power_of_two};
  void* buffers[5] = {on_device(x->data, x->bytes), absmax != nullptr ? on_device(absmax->data, absmax->bytes) : nullptr};
  void* results[3];
  for (int i = 0; i < 3; ++i) {
    must(cudaMalloc(&buffers[2 + i], c.output[i].bytes));
    results[i] = malloc(c.output[i].bytes);
  }
  quant_rows<<<static_cast<unsigned>(x->shape[0]), kThreads>>>(static_cast<uint16_t*>(buffers[0]), static_cast<uint16_t*>(buffers[1]), x->shape[1],
                                                                eight ? 127.0f : 16256.0f, range, static_cast<int16_t*>(buffers[2]),
                                                                static_cast<float*>(buffers[3]), static_cast<uint8_t*>(buffers[4]));
  must(cudaGetLastError());
  for (int i = 0; i < 3; ++i) must(cudaMemcpy(results[i], buffers[2 + i], c.output[i].bytes, cudaMemcpyDeviceToHost));
  const void* const outputs[3] = {results[0], results[1], results[2]};
  zc_answer(&c, outputs);
  for (void* b : buffers) cudaFree(b);
  for (void* r : results) free(r);
}

}  // namespace

int main() {
  zc_case c;
  zc_begin();
  while (zc_next(&c)) answer(c);
  return 0;
}
