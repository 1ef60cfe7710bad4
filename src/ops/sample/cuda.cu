// One block per row. What is kept is a prefix of the order (logit descending, index ascending), so it is everything from some order_key on;
// that key is found digit by digit, by counts for top-k and by weights for top-p. All sums are exact integers.
#include "ops/argmax/contract.h"
#include "ops/launch.cuh"
#include "ops/sample/device.h"

namespace zeroulp::ops::sample {
namespace {

constexpr int kRowThreads = 1024, kBits = 8, kBins = 1 << kBits;

struct Shared {
  uint64_t tops[32], bins[kBins], prefix, carried;
  int64_t sums[32], more[32], warps[32];
};

// The logits of a row with their keys and weights.
struct Row {
  const float* logits;
  int64_t count;
  float top, factor;
  __device__ uint64_t key(int64_t i) const { return argmax::order_key(logits[i], static_cast<uint32_t>(i)); }
  __device__ uint64_t weight(int64_t i) const { return sample::weight(logits[i], top, factor); }
};

// The largest key K such that the keys from K on, counted by amount(i), satisfy enough(sum). Keys below `lowest` do not take part. Such a
// key exists: all together are enough.
template <class Amount, class Enough>
__device__ uint64_t select(const Row& row, uint64_t lowest, Shared& s, Amount amount, Enough enough) {
  if (threadIdx.x == 0) s.prefix = s.carried = 0;
  for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
    for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) s.bins[bin] = 0;
    __syncthreads();
    const uint64_t prefix = s.prefix, mask = shift == 64 - kBits ? 0 : ~uint64_t{0} << (shift + kBits);
    for (int64_t i = threadIdx.x; i < row.count; i += blockDim.x) {
      const uint64_t key = row.key(i);
      if (key >= lowest && (key & mask) == prefix)
        atomicAdd(reinterpret_cast<unsigned long long*>(&s.bins[key >> shift & (kBins - 1)]), static_cast<unsigned long long>(amount(i)));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = kBins - 1;
      uint64_t sum = s.carried;
      for (; bin > 0 && !enough(sum + s.bins[bin]); --bin) sum += s.bins[bin];
      s.carried = sum;
      s.prefix = prefix | static_cast<uint64_t>(bin) << shift;
    }
    __syncthreads();
  }
  return s.prefix;
}

__device__ uint64_t sum_from(const Row& row, uint64_t lowest, int64_t* scratch) {
  int64_t sum = 0;
  for (int64_t i = threadIdx.x; i < row.count; i += blockDim.x)
    if (row.key(i) >= lowest) sum += static_cast<int64_t>(row.weight(i));
  return static_cast<uint64_t>(block_sum(sum, scratch));
}

// The first index, ascending, at which the weights kept add up to more than `mark`. Each thread has a run of consecutive indices.
__device__ void walk(const Row& row, uint64_t lowest, uint64_t mark, int64_t* token, Shared& s) {
  const int64_t run = (row.count + blockDim.x - 1) / blockDim.x, begin = threadIdx.x * run, end = min(row.count, begin + run);
  int64_t mine = 0;
  for (int64_t i = begin; i < end; ++i)
    if (row.key(i) >= lowest) mine += static_cast<int64_t>(row.weight(i));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t before = mine;  // inclusive prefix over the warp, then over the block
  for (int offset = 1; offset < 32; offset *= 2) {
    const int64_t other = __shfl_up_sync(0xFFFFFFFFu, before, offset);
    if (lane >= offset) before += other;
  }
  if (lane == 31) s.warps[warp] = before;
  __syncthreads();
  before -= mine;
  for (int w = 0; w < warp; ++w) before += s.warps[w];
  auto cumulative = static_cast<uint64_t>(before);
  if (cumulative > mark || cumulative + static_cast<uint64_t>(mine) <= mark) return;  // another thread's run
  for (int64_t i = begin; i < end; ++i) {
    if (row.key(i) < lowest) continue;
    cumulative += row.weight(i);
    if (cumulative > mark) {
      *token = i;
      return;
    }
  }
}

__global__ void sample_kernel(Rows a) {
  __shared__ Shared s;
  Row row{a.logits + blockIdx.x * a.stride, a.count, 0, 0};
  const Draw draw = a.draws[blockIdx.x];
  uint64_t best = 0;
  for (int64_t i = threadIdx.x; i < row.count; i += blockDim.x) best = max(best, row.key(i));
  const int64_t index = argmax::index_of(block_max_u64(best, s.tops));
  if (index < 0 || draw.factor == 0.0f) {
    if (threadIdx.x == 0) a.tokens[blockIdx.x] = index;
    return;
  }
  row.top = row.logits[index];
  row.factor = draw.factor;
  uint64_t lowest = 0;
  if (draw.top_k > 0 && draw.top_k < row.count)
    lowest = select(row, 0, s, [](int64_t) { return uint64_t{1}; }, [&](uint64_t n) { return n >= static_cast<uint64_t>(draw.top_k); });
  uint64_t sum = sum_from(row, lowest, s.sums);
  if (draw.p16 < 65536) {
    lowest = select(row, lowest, s, [&](int64_t i) { return row.weight(i); }, [&](uint64_t n) { return reaches_top_p(n, sum, draw.p16); });
    sum = sum_from(row, lowest, s.more);
  }
  walk(row, lowest, draw_mark(draw.random, sum), a.tokens + blockIdx.x, s);
}

}  // namespace

void cuda(const Rows& a, const device::Launch& l) {
  if (a.rows > 0) sample_kernel<<<static_cast<unsigned>(a.rows), kRowThreads, 0, l.stream>>>(a);
}

}  // namespace zeroulp::ops::sample
