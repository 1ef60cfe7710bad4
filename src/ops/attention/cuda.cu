// A thread block takes up to four query heads of one row that share a KV head, and works through key blocks, all 256 threads on one of 128
// keys: two threads to a key for the scores, eight lanes to a row of 128 value codes for the sums. What is summed is an exact integer, so
// that lanes may share it out as they like. The merges have a mandated order: every output element has one thread, which takes key blocks
// ascending inside a group and groups ascending.
//
// With few rows each key block has a thread block of its own. It leaves its sums in the workspace; the last to arrive merges the group, and
// the last group to be merged merges the groups.
#include "ops/attention/fast.h"
#include "ops/launch.cuh"

namespace zeroulp::ops::attention {
namespace {

constexpr int kHeads = 4, kBlockThreads = 256, kWarps = kBlockThreads / 32, kLanes = 8;
constexpr int64_t kGroupPositions = kGroup * kBlock;
constexpr int64_t kMostSplitItems = 264;  // rows times tiles of heads up to which key blocks are spread over thread blocks
constexpr int64_t kMostSplitBlocks = 64;  // of one row; beyond that a thread block takes a whole group

// What is known of a key block beside its sums A.
struct Block {
  float n;
  int f;
  int32_t b;
  int fault;
};
// A group's state beside its O, as it lies in the workspace.
struct Partial {
  float n, l;
  int fault, unused;
};
static_assert(sizeof(Block) == 16 && sizeof(Partial) == 16);

struct Shared {
  float tops[kWarps][kHeads];
  int exponents[kWarps], faults[kWarps];
  int32_t sums[kWarps][kHeads];
  bool last;
};

// Offsets of the arrays behind Shared in dynamic shared memory, all multiples of 16 bytes.
struct Plan {
  int64_t padded_d, q, q_hi, p, group_o, total_o, bytes;
  ZU_HD explicit Plan(int64_t d) {
    padded_d = (d + 15) / 16 * 16;
    q = (sizeof(Shared) + 15) / 16 * 16;
    q_hi = q + kHeads * padded_d * 2;
    p = q_hi + kHeads * padded_d;
    group_o = p + kHeads * kBlock * 2;
    total_o = group_o + kHeads * padded_d * 4;
    bytes = total_o + kHeads * padded_d * 4;
  }
};

// Parts of the workspace, per row and head: the key blocks' sums, then the groups' states. Whole cache lines each, so that no thread block
// caches a line that another one still writes to.
struct Left {
  int64_t record, blocks, groups;  // 4-byte words of a record; records of a head
  ZU_HD Left(int64_t d, int64_t max_positions, bool whole_groups)
      : record((d + 4 + 31) / 32 * 32),
        blocks(whole_groups ? 0 : (max_positions + kBlock - 1) / kBlock),
        groups((max_positions + kGroupPositions - 1) / kGroupPositions) {}
  ZU_HD int64_t words(int64_t heads) const { return heads * (blocks + groups) * record; }
  __device__ int32_t* block(std::byte* workspace, int64_t head, int64_t at) const {
    return reinterpret_cast<int32_t*>(workspace) + (head * (blocks + groups) + at) * record;
  }
  __device__ float* group(std::byte* workspace, int64_t head, int64_t at) const { return reinterpret_cast<float*>(block(workspace, head, blocks + at)); }
};

__device__ int dot16(const int4& k, const int4& q0, const int4& q1, int acc) {
  acc = __dp2a_hi(q0.y, k.x, __dp2a_lo(q0.x, k.x, acc));
  acc = __dp2a_hi(q0.w, k.y, __dp2a_lo(q0.z, k.y, acc));
  acc = __dp2a_hi(q1.y, k.z, __dp2a_lo(q1.x, k.z, acc));
  return __dp2a_hi(q1.w, k.w, __dp2a_lo(q1.z, k.w, acc));
}
__device__ int dot16_planes(const int4& k, const int4& q, int acc) {
  return __dp4a(q.w, k.w, __dp4a(q.z, k.z, __dp4a(q.y, k.y, __dp4a(q.x, k.x, acc))));
}

// The heads of one thread block: [first, first + count) of row `row`, all reading KV head `kv_head`.
struct Work {
  int64_t row, first, kv_head;
  int count;
};

__device__ bool find_work(const Rows& g, int64_t item, int64_t tiles, Work& w) {
  w.row = item / (g.kv_heads() * tiles);
  w.kv_head = item / tiles % g.kv_heads();
  const int64_t shift = g.first_head % g.group;
  const int64_t low = max(int64_t{0}, w.kv_head * g.group - shift), high = min(g.heads, (w.kv_head + 1) * g.group - shift);
  w.first = low + item % tiles * kHeads;
  w.count = static_cast<int>(min(int64_t{kHeads}, high - w.first));
  return w.count > 0;
}

// A thread block's view of its work. Lane `lane` of eight has the merges of head `lane`, elements i = first_element + 32 n.
template <bool kVector>
class Attend {
 public:
  __device__ Attend(const Rows& g, const Work& w, std::byte* smem)
      : g_(g), w_(w), plan_(g.layout.d), d_(g.layout.d), position_(g.positions[w.row]),
        first_key_(g.window > 0 ? max(int64_t{0}, position_ - g.window + 1) : 0), shared_(*reinterpret_cast<Shared*>(smem)),
        q_(reinterpret_cast<int16_t*>(smem + plan_.q)), q_hi_(smem + plan_.q_hi), p_(reinterpret_cast<int16_t*>(smem + plan_.p)),
        group_o_(reinterpret_cast<float*>(smem + plan_.group_o)), total_o_(reinterpret_cast<float*>(smem + plan_.total_o)),
        lane_(static_cast<int>(threadIdx.x) % kLanes), first_element_(threadIdx.x / kLanes) {
    for (int t = 0; t < kHeads; ++t) c_[t] = t < w.count ? g.q_scales[w.row * g.heads + w.first + t] * g.score_constant : 0.0f;
  }

  __device__ int64_t first_block() const { return first_key_ / kBlock; }
  __device__ int64_t last_block() const { return position_ / kBlock; }

  __device__ void load_queries() {
    for (int64_t at = threadIdx.x; at < kHeads * plan_.padded_d; at += kBlockThreads) {
      const int64_t t = at / plan_.padded_d, i = at % plan_.padded_d;
      const int16_t code = t < w_.count && i < d_ ? g_.q[w_.row * g_.q_stride + (w_.first + t) * d_ + i] : int16_t{0};
      q_[at] = code;
      reinterpret_cast<int8_t*>(q_hi_)[at] = static_cast<int8_t>(num::plane_hi(code));
    }
    clear(group_o_);
    clear(total_o_);
    __syncthreads();
  }

  // The exact sums of one key block: leaves the probabilities in shared memory and returns the header of this lane's head.
  __device__ Block weigh(int64_t block) {
    const int64_t base = block * kBlock;
    const int first = static_cast<int>(max(first_key_ - base, int64_t{0})), last = static_cast<int>(min(position_ - base, kBlock - 1));
    const kv_cache::View<const std::byte> kv(g_.pages.block(w_.row, block, w_.kv_head), g_.layout);
    const int j = threadIdx.x / 2, half = threadIdx.x % 2, warp = threadIdx.x / 32;
    const bool visible = j >= first && j <= last;
    float u[kHeads];
    scores(kv, j, half, visible, u);
    const int exponent = warp_max(visible ? kv.value_exponents[j] : kv_cache::kZeroRow);
    int fault = 0;
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      if (visible && !num::is_finite(u[t])) fault |= 1 << t;
      float top = visible ? u[t] : -INFINITY;
      for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
      if (threadIdx.x % 32 == 0) shared_.tops[warp][t] = top;
    }
    fault = __reduce_or_sync(0xFFFFFFFFu, fault);
    if (threadIdx.x % 32 == 0) shared_.exponents[warp] = exponent, shared_.faults[warp] = fault;
    __syncthreads();
    int largest = kv_cache::kZeroRow, faults = 0;
    for (int other = 0; other < kWarps; ++other) largest = max(largest, shared_.exponents[other]), faults |= shared_.faults[other];
    const int f = largest == kv_cache::kZeroRow ? 0 : largest;
    Block mine{0, f, 0, 0};
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      float top = -INFINITY;
      for (int other = 0; other < kWarps; ++other) top = fmaxf(top, shared_.tops[other][t]);
      const bool faulted = (faults >> t & 1) != 0 || !(fabsf(c_[t] * top) < kScoreLimit);
      const float n = faulted ? 0.0f : block_exponent_n(c_[t], top);
      if (t == lane_) mine.n = n, mine.fault = faulted;
      Weights weight{0, 0};
      if (half == t % 2 && visible && !faulted) weight = weights(u[t], c_[t], n, kv.value_exponents[j], f);
      if (half == t % 2) p_[t * kBlock + j] = static_cast<int16_t>(weight.p);
      const int32_t b = __reduce_add_sync(0xFFFFFFFFu, weight.w);
      if (threadIdx.x % 32 == 0) shared_.sums[warp][t] = b;
    }
    __syncthreads();
    if (lane_ < kHeads)
      for (int other = 0; other < kWarps; ++other) mine.b += shared_.sums[other][lane_];
    return mine;
  }

  // Calls take(i, A) on the thread that has element i of head lane_; then shared memory may be written again.
  template <class Take>
  __device__ void sum_values(int64_t block, Take take) {
    const kv_cache::View<const std::byte> kv(g_.pages.block(w_.row, block, w_.kv_head), g_.layout);
    int4 low[kHeads], high[kHeads];  // p of this lane's 16 keys
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      const auto* p = reinterpret_cast<const int4*>(p_ + t * kBlock + 16 * lane_);
      low[t] = p[0];
      high[t] = p[1];
    }
    const int64_t rounds = (d_ + 31) / 32;
#pragma unroll 4
    for (int64_t round = 0; round < rounds; ++round) {
      const int64_t i = first_element_ + 32 * round;
      const int4 v = i < d_ ? *reinterpret_cast<const int4*>(kv.values + i * kBlock + 16 * lane_) : int4{};
      int32_t mine = 0;
#pragma unroll
      for (int t = 0; t < kHeads; ++t) {
        int32_t sum = dot16(v, low[t], high[t], 0);
        for (int offset = 1; offset < kLanes; offset *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
        if (lane_ == t) mine = sum;
      }
      if (lane_ < w_.count && i < d_) take(i, mine);
    }
    __syncthreads();
  }

  // A key block joins the group's state; a(i) is its A.
  template <class A>
  __device__ void join_block(const Block& block, A a) {
    const Alignment al = begin_block(block);
    const float value_gain = al.gain * num::pow2(block.f);
    for_elements([&](int64_t i) { group_o_[at(i)] = add_block(group_o_[at(i)], a(i), al, value_gain); });
  }
  __device__ void compute_block(int64_t block) {
    const Block header = weigh(block);
    const Alignment al = begin_block(header);
    const float value_gain = al.gain * num::pow2(header.f);
    sum_values(block, [&](int64_t i, int32_t a) { group_o_[at(i)] = add_block(group_o_[at(i)], a, al, value_gain); });
  }

  // A group's state joins the total; o(i) is its O.
  template <class O>
  __device__ void join_group(float n, float l, int fault, O o) {
    const Alignment al = align(total_, n);
    total_ = {false, al.n, add_group(total_.l, l, al)};
    fault_ |= fault;
    for_elements([&](int64_t i) { total_o_[at(i)] = add_group(total_o_[at(i)], o(i), al); });
  }
  __device__ void end_group() {
    join_group(group_.n, group_.l, 0, [&](int64_t i) { return group_o_[at(i)]; });
    group_ = {};
    clear_own(group_o_);
  }

  __device__ void write() {
    for_elements([&](int64_t i) {
      g_.out[w_.row * g_.out_stride + (w_.first + lane_) * d_ + i] = fault_ ? num::kBf16Nan : num::float_to_bf16(total_o_[at(i)] / total_.l);
    });
    if (lane_ < w_.count && first_element_ == 0 && fault_) g_.faults[w_.row] = 1;
  }

  // Key block or group `index` of this thread block goes to the workspace.
  __device__ void leave_block(int64_t block, const Left& left, std::byte* workspace) {
    const Block header = weigh(block);
    int32_t* to = lane_ < w_.count ? left.block(workspace, head(), block) : nullptr;
    if (lane_ < w_.count && first_element_ == 0) *reinterpret_cast<Block*>(to) = header;
    sum_values(block, [&](int64_t i, int32_t a) { to[4 + i] = a; });
  }
  __device__ void leave_group(int64_t group, const Left& left, std::byte* workspace) {
    if (lane_ >= w_.count) return;
    float* to = left.group(workspace, head(), group);
    if (first_element_ == 0) *reinterpret_cast<Partial*>(to) = {group_.n, group_.l, fault_, 0};
    for_elements([&](int64_t i) { to[4 + i] = group_o_[at(i)]; });
  }
  __device__ void merge_left_blocks(int64_t first, int64_t last, const Left& left, std::byte* workspace) {
    if (lane_ >= w_.count) return;
    for (int64_t b = first; b <= last; ++b) {
      const int32_t* from = left.block(workspace, head(), b);
      join_block(*reinterpret_cast<const Block*>(from), [&](int64_t i) { return from[4 + i]; });
    }
  }
  __device__ void merge_left_groups(int64_t first, int64_t last, const Left& left, std::byte* workspace) {
    if (lane_ >= w_.count) return;
    fault_ = 0;
    for (int64_t group = first; group <= last; ++group) {
      const float* from = left.group(workspace, head(), group);
      const Partial part = *reinterpret_cast<const Partial*>(from);
      join_group(part.n, part.l, part.fault, [&](int64_t i) { return from[4 + i]; });
    }
  }

  // Whether this thread block is the last of `expected` to arrive; the counter is then 0 again.
  __device__ bool last_to_arrive(int32_t* counter, int64_t expected) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      shared_.last = atomicAdd(counter, 1) == expected - 1;
      if (shared_.last) *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return shared_.last;
  }

 private:
  __device__ int64_t head() const { return w_.row * g_.heads + w_.first + lane_; }
  __device__ int64_t at(int64_t i) const { return lane_ * plan_.padded_d + i; }
  template <class Do>
  __device__ void for_elements(Do what) const {
    if (lane_ < w_.count)
      for (int64_t i = first_element_; i < d_; i += kBlockThreads / kLanes) what(i);
  }
  __device__ void clear(float* o) {
    for (int64_t i = threadIdx.x; i < kHeads * plan_.padded_d; i += kBlockThreads) o[i] = 0.0f;
  }
  __device__ void clear_own(float* o) {
    for_elements([&](int64_t i) { o[at(i)] = 0.0f; });
  }
  __device__ Alignment begin_block(const Block& block) {
    const Alignment al = align(group_, block.n);
    group_ = {false, al.n, add_block(group_.l, block.b, al, al.gain)};
    fault_ |= block.fault;
    return al;
  }

  // u of key j for every head; two threads share the key, each has every second vector of 16.
  __device__ void scores(const kv_cache::View<const std::byte>& kv, int64_t j, int half, bool visible, float (&u)[kHeads]) const {
    int32_t acc[kHeads] = {};
    if (visible) {
      if constexpr (kVector) {
        const auto* hi = reinterpret_cast<const int4*>(kv.key_hi + j * d_);
        const auto* lo = reinterpret_cast<const int4*>(kv.key_lo ? kv.key_lo + j * d_ : nullptr);
#pragma unroll 4
        for (int64_t v = half; v < d_ / 16; v += 2) {
          const int4 k_hi = hi[v];
          const int4 k_lo = lo ? lo[v] : int4{};
#pragma unroll
          for (int t = 0; t < kHeads; ++t) {
            // q * k_hi plus the high plane of q times k_lo: raw_score's sum re-ordered.
            const auto* codes = reinterpret_cast<const int4*>(q_ + t * plan_.padded_d + 16 * v);
            acc[t] = dot16(k_hi, codes[0], codes[1], acc[t]);
            if (lo) acc[t] = dot16_planes(k_lo, *reinterpret_cast<const int4*>(q_hi_ + t * plan_.padded_d + 16 * v), acc[t]);
          }
        }
      } else if (half == 0) {
        for (int t = 0; t < w_.count; ++t) acc[t] = raw_score(q_ + t * plan_.padded_d, kv.key_hi + j * d_, kv.key_lo ? kv.key_lo + j * d_ : nullptr, d_);
      }
    }
    const float scale = visible ? kv.key_scales[j] : 0.0f;
    for (int t = 0; t < kHeads; ++t) u[t] = num::i2f(acc[t] + __shfl_xor_sync(0xFFFFFFFFu, acc[t], 1)) * scale;
  }

  const Rows& g_;
  const Work& w_;
  const Plan plan_;
  const int64_t d_, position_, first_key_;
  Shared& shared_;
  int16_t* q_;
  std::byte* q_hi_;
  int16_t* p_;
  float *group_o_, *total_o_;
  const int lane_;
  const int64_t first_element_;
  float c_[kHeads];
  State group_, total_;
  int fault_ = 0;
};

// One thread block for all key blocks of its heads.
template <bool kVector>
__global__ void __launch_bounds__(kBlockThreads) attention_whole(Rows g, int64_t tiles) {
  extern __shared__ int4 dynamic[];
  Work w;
  if (!find_work(g, blockIdx.x, tiles, w)) return;
  Attend<kVector> attend(g, w, reinterpret_cast<std::byte*>(dynamic));
  attend.load_queries();
  for (int64_t block = attend.first_block(); block <= attend.last_block(); ++block) {
    attend.compute_block(block);
    if (block % kGroup == kGroup - 1 || block == attend.last_block()) attend.end_group();
  }
  attend.write();
}

// One thread block for a key block, or for a group of them (kWholeGroups). arrivals: per item, one for the groups and one for each group.
template <bool kVector, bool kWholeGroups>
__global__ void __launch_bounds__(kBlockThreads) attention_split(Rows g, int64_t tiles, int64_t parts, std::byte* workspace) {
  extern __shared__ int4 dynamic[];
  const int64_t item = blockIdx.x / parts, part = blockIdx.x % parts;
  Work w;
  if (!find_work(g, item, tiles, w)) return;
  Attend<kVector> attend(g, w, reinterpret_cast<std::byte*>(dynamic));
  const int64_t first = attend.first_block(), last = attend.last_block(), first_group = first / kGroup, last_group = last / kGroup;
  const int64_t group = kWholeGroups ? part : part / kGroup;
  if (kWholeGroups ? group < first_group || group > last_group : part < first || part > last) return;
  const Left left(g.layout.d, g.max_positions, kWholeGroups);
  int32_t* arrivals = g.arrivals + item * (left.groups + 1);
  attend.load_queries();
  const int64_t from = max(first, group * kGroup), to = min(last, group * kGroup + kGroup - 1);
  if (kWholeGroups) {
    for (int64_t block = from; block <= to; ++block) attend.compute_block(block);
  } else {
    attend.leave_block(part, left, workspace);
    if (!attend.last_to_arrive(arrivals + 1 + group, to - from + 1)) return;
    attend.merge_left_blocks(from, to, left, workspace);
  }
  if (first_group == last_group) {
    attend.end_group();
  } else {
    attend.leave_group(group, left, workspace);
    if (!attend.last_to_arrive(arrivals, last_group - first_group + 1)) return;
    attend.merge_left_groups(first_group, last_group, left, workspace);
  }
  attend.write();
}

int64_t tiles_of(const Rows& g) { return (g.group + kHeads - 1) / kHeads; }
int64_t items_of(const Rows& g) { return g.rows * g.kv_heads() * tiles_of(g); }
int64_t blocks_of(const Rows& g) { return (g.max_positions + kBlock - 1) / kBlock; }
bool splits(const Rows& g) { return blocks_of(g) > 1 && items_of(g) <= kMostSplitItems; }
bool whole_groups(const Rows& g) { return blocks_of(g) > kMostSplitBlocks; }

}  // namespace

int64_t cuda_workspace(const Rows& g) { return splits(g) ? 4 * Left(g.layout.d, g.max_positions, whole_groups(g)).words(g.rows * g.heads) : 0; }
int64_t cuda_arrivals(int64_t max_positions) { return kMostSplitItems * ((max_positions + kGroupPositions - 1) / kGroupPositions + 1); }

void cuda(const Rows& g, const device::Launch& l) {
  if (g.rows * g.heads == 0) return;
  const bool vector = g.layout.d % 16 == 0;
  const auto bytes = static_cast<int>(Plan(g.layout.d).bytes);
  const int64_t items = items_of(g), tiles = tiles_of(g);
  if (!splits(g)) {
    auto* kernel = vector ? attention_whole<true> : attention_whole<false>;
    if (bytes > 48 << 10) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<static_cast<unsigned>(items), kBlockThreads, bytes, l.stream>>>(g, tiles);
    return;
  }
  const bool whole = whole_groups(g);
  const int64_t parts = whole ? (blocks_of(g) + kGroup - 1) / kGroup : blocks_of(g);
  auto* kernel = vector ? (whole ? attention_split<true, true> : attention_split<true, false>) : (whole ? attention_split<false, true> : attention_split<false, false>);
  if (bytes > 48 << 10) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(items * parts), kBlockThreads, bytes, l.stream>>>(g, tiles, parts, l.workspace);
}

}  // namespace zeroulp::ops::attention
