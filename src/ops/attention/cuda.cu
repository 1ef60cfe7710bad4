// A block of threads takes up to four query heads of one row that share a KV head; each of its eight warps takes one of the eight key blocks
// of a group, so that K and V are read once for the four heads. Sums inside a key block are exact integers: lanes may share them out as they
// like. The merges, whose order is mandated, are done by one thread per element, blocks and groups ascending.
//
// With few rows, groups go to thread blocks of their own, which leave their states in the workspace; the last to arrive merges them.
#include "ops/attention/fast.h"
#include "ops/launch.cuh"

namespace zeroulp::ops::attention {
namespace {

constexpr int kHeads = 4, kWarps = kGroup, kBlockThreads = 32 * kWarps;
constexpr int64_t kGroupPositions = kGroup * kBlock;

// A head's running state in shared memory; `fault` joins the faults of its key blocks.
struct Head {
  State total, group;
  bool fault;
};
// What a warp found out about one key block, per head.
struct Block {
  float n;
  int f;
  int32_t b;
  bool visible, fault;
};

// The state of one group of one head in the workspace; O follows.
struct Partial {
  float n, l;
  int32_t fault, pad;
};

struct Shared {
  Head heads[kHeads];
  Block blocks[kWarps][kHeads];
  Alignment alignments[kWarps][kHeads], joins[kHeads];
  bool last;
};

// Offsets of the arrays behind Shared in dynamic shared memory, all multiples of 16 bytes.
struct Plan {
  int64_t padded_d, q, q_hi, p, a, group_o, total_o, bytes;
  ZU_HD explicit Plan(int64_t d) {
    padded_d = (d + 15) / 16 * 16;
    q = (sizeof(Shared) + 15) / 16 * 16;
    q_hi = q + kHeads * padded_d * 2;
    p = q_hi + kHeads * padded_d;
    a = p + kWarps * kHeads * kBlock * 2;
    group_o = a + kWarps * kHeads * padded_d * 4;
    total_o = group_o + kHeads * padded_d * 4;
    bytes = total_o + kHeads * padded_d * 4;
  }
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

// raw_score of key j for every head: q * k_hi plus the high plane of q times k_lo, which is the rule's sum re-ordered.
template <bool kVector>
__device__ void scores(const kv_cache::View<const std::byte>& kv, int64_t d, int64_t j, int heads, const std::byte* smem, const Plan& plan,
                       int32_t (&acc)[kHeads]) {
  const auto* q = reinterpret_cast<const int16_t*>(smem + plan.q);
  for (int t = 0; t < kHeads; ++t) acc[t] = 0;
  if constexpr (kVector) {
    const auto* hi = reinterpret_cast<const int4*>(kv.key_hi + j * d);
    const auto* lo = reinterpret_cast<const int4*>(kv.key_lo ? kv.key_lo + j * d : nullptr);
    for (int64_t c = 0; c < d / 16; ++c) {
      const int4 k_hi = hi[c];
      const int4 k_lo = lo ? lo[c] : int4{};
      for (int t = 0; t < kHeads; ++t) {
        const auto* codes = reinterpret_cast<const int4*>(q + t * plan.padded_d + 16 * c);
        acc[t] = dot16(k_hi, codes[0], codes[1], acc[t]);
        if (lo) acc[t] = dot16_planes(k_lo, *reinterpret_cast<const int4*>(smem + plan.q_hi + t * plan.padded_d + 16 * c), acc[t]);
      }
    }
  } else {
    for (int t = 0; t < heads; ++t) acc[t] = raw_score(q + t * plan.padded_d, kv.key_hi + j * d, kv.key_lo ? kv.key_lo + j * d : nullptr, d);
  }
}

// Warp `warp` computes the sums of one key block, keys [first, last] of which are visible, for all heads.
template <bool kVector>
__device__ void block_sums(const Rows& g, const float (&c)[kHeads], const kv_cache::View<const std::byte>& kv, int first, int last, int heads,
                           std::byte* smem, const Plan& plan) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto& shared = *reinterpret_cast<Shared*>(smem);
  auto* p = reinterpret_cast<int16_t*>(smem + plan.p) + warp * kHeads * kBlock;
  float u[4][kHeads], max_u[kHeads];
  bool fault[kHeads] = {};
  int exponent = kv_cache::kZeroRow;
  for (int t = 0; t < kHeads; ++t) max_u[t] = -INFINITY;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const int j = lane + 32 * m;
    if (j < first || j > last) continue;
    int32_t acc[kHeads];
    scores<kVector>(kv, g.layout.d, j, heads, smem, plan, acc);
    const float scale = kv.key_scales[j];
    exponent = max(exponent, kv.value_exponents[j]);
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      u[m][t] = num::i2f(acc[t]) * scale;
      fault[t] |= !num::is_finite(u[m][t]);
      max_u[t] = fmaxf(max_u[t], u[m][t]);
    }
  }
  exponent = warp_max(exponent);
  const int f = exponent == kv_cache::kZeroRow ? 0 : exponent;
#pragma unroll
  for (int t = 0; t < kHeads; ++t) {
    float top = max_u[t];
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, offset));
    const float limited = c[t] * top;
    const bool faulted = __any_sync(0xFFFFFFFFu, fault[t]) || !(fabsf(limited) < kScoreLimit);
    const float n = faulted ? 0.0f : block_exponent_n(c[t], top);
    int32_t b = 0;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int j = lane + 32 * m;
      Weights w{0, 0};
      if (j >= first && j <= last && !faulted) w = weights(u[m][t], c[t], n, kv.value_exponents[j], f);
      b += w.w;
      p[t * kBlock + j] = static_cast<int16_t>(w.p);
    }
    b = __reduce_add_sync(0xFFFFFFFFu, b);
    if (lane == 0) shared.blocks[warp][t] = {n, f, b, true, faulted};
  }
  __syncwarp();
  // Eight lanes share a row of 128 value codes: each has 16 keys, whose p stay in its registers.
  const int segment = lane % 8;
  int4 weights0[kHeads], weights1[kHeads];
#pragma unroll
  for (int t = 0; t < kHeads; ++t) {
    const auto* mine = reinterpret_cast<const int4*>(p + t * kBlock + 16 * segment);
    weights0[t] = mine[0];
    weights1[t] = mine[1];
  }
  auto* a = reinterpret_cast<int32_t*>(smem + plan.a) + warp * kHeads * plan.padded_d;
  const int64_t rounds = (g.layout.d + 3) / 4;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t i = 4 * round + lane / 8;
    const int4 v = i < g.layout.d ? *reinterpret_cast<const int4*>(kv.values + i * kBlock + 16 * segment) : int4{};
    int32_t mine = 0;
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      int32_t sum = dot16(v, weights0[t], weights1[t], 0);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 4);
      if (segment == t) mine = sum;
    }
    if (segment < kHeads && i < g.layout.d) a[segment * plan.padded_d + i] = mine;
  }
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

// Merges the key blocks of one group into the heads' group state and group_o.
__device__ void merge_blocks(const Rows& g, int heads, std::byte* smem, const Plan& plan) {
  auto& shared = *reinterpret_cast<Shared*>(smem);
  auto* group_o = reinterpret_cast<float*>(smem + plan.group_o);
  const auto* a = reinterpret_cast<const int32_t*>(smem + plan.a);
  if (threadIdx.x < heads) {
    const int t = static_cast<int>(threadIdx.x);
    Head& head = shared.heads[t];
    head.group = {};
    for (int b = 0; b < kWarps; ++b) {
      const Block& block = shared.blocks[b][t];
      if (!block.visible) continue;
      head.fault |= block.fault;
      const Alignment al = align(head.group, block.n);
      shared.alignments[b][t] = al;
      head.group = {false, al.n, add_block(head.group.l, block.b, al, al.gain)};
    }
  }
  __syncthreads();
  for (int64_t at = threadIdx.x; at < heads * g.layout.d; at += blockDim.x) {
    const int64_t t = at / g.layout.d, i = at % g.layout.d;
    float o = 0;
    for (int b = 0; b < kWarps; ++b) {
      const Block& block = shared.blocks[b][t];
      if (!block.visible) continue;
      const Alignment al = shared.alignments[b][t];
      o = add_block(o, a[(b * kHeads + t) * plan.padded_d + i], al, al.gain * num::pow2(block.f));
    }
    group_o[t * plan.padded_d + i] = o;
  }
  __syncthreads();
}

// Joins a group's state to a head's total; every thread of the block calls it with the same heads.
__device__ void join(const Rows& g, int heads, const float* group_o, int64_t group_stride, std::byte* smem, const Plan& plan) {
  auto& shared = *reinterpret_cast<Shared*>(smem);
  auto* total_o = reinterpret_cast<float*>(smem + plan.total_o);
  if (threadIdx.x < heads) {
    Head& head = shared.heads[threadIdx.x];
    const Alignment al = align(head.total, head.group.n);
    shared.joins[threadIdx.x] = al;
    head.total = {false, al.n, add_group(head.total.l, head.group.l, al)};
  }
  __syncthreads();
  for (int64_t at = threadIdx.x; at < heads * g.layout.d; at += blockDim.x) {
    const int64_t t = at / g.layout.d, i = at % g.layout.d;
    float& o = total_o[t * plan.padded_d + i];
    o = add_group(o, group_o[t * group_stride + i], shared.joins[t]);
  }
  __syncthreads();
}

__device__ void write_result(const Rows& g, const Work& w, std::byte* smem, const Plan& plan) {
  auto& shared = *reinterpret_cast<Shared*>(smem);
  const auto* total_o = reinterpret_cast<const float*>(smem + plan.total_o);
  for (int64_t at = threadIdx.x; at < w.count * g.layout.d; at += blockDim.x) {
    const int64_t t = at / g.layout.d, i = at % g.layout.d;
    uint16_t* out = g.out + w.row * g.out_stride + (w.first + t) * g.layout.d + i;
    *out = shared.heads[t].fault ? num::kBf16Nan : num::float_to_bf16(total_o[t * plan.padded_d + i] / shared.heads[t].total.l);
  }
  if (threadIdx.x < w.count && shared.heads[threadIdx.x].fault) g.faults[w.row] = 1;
}

// Whole cache lines, so that no thread block caches a line that another one still writes to.
ZU_HD int64_t partial_floats(int64_t d) { return (d + sizeof(Partial) / 4 + 31) / 32 * 32; }

// Leaves the group's states behind; the last thread block of these heads merges those of all groups [first_group, last_group].
__device__ void leave_and_merge(const Rows& g, const Work& w, int64_t group, int64_t first_group, int64_t last_group, int64_t groups,
                                float* workspace, std::byte* smem, const Plan& plan) {
  auto& shared = *reinterpret_cast<Shared*>(smem);
  const auto* group_o = reinterpret_cast<const float*>(smem + plan.group_o);
  const int64_t d = g.layout.d, size = partial_floats(d);
  const auto at_group = [&](int64_t head, int64_t gr) { return workspace + ((w.row * g.heads + head) * groups + gr) * size; };
  for (int64_t at = threadIdx.x; at < w.count * d; at += blockDim.x)
    at_group(w.first + at / d, group)[sizeof(Partial) / 4 + at % d] = group_o[at / d * plan.padded_d + at % d];
  if (threadIdx.x < w.count) {
    const Head& head = shared.heads[threadIdx.x];
    *reinterpret_cast<Partial*>(at_group(w.first + threadIdx.x, group)) = {head.group.n, head.group.l, head.fault, 0};
  }
  __threadfence();
  __syncthreads();
  int32_t* arrivals = g.arrivals + w.row * g.heads + w.first;
  if (threadIdx.x == 0) shared.last = atomicAdd(arrivals, 1) == last_group - first_group;
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  for (int64_t gr = first_group; gr <= last_group; ++gr) {
    if (threadIdx.x < w.count) {
      const Partial part = *reinterpret_cast<const Partial*>(at_group(w.first + threadIdx.x, gr));
      Head& head = shared.heads[threadIdx.x];
      head.group = {false, part.n, part.l};
      head.fault |= part.fault != 0;
    }
    __syncthreads();
    join(g, w.count, at_group(w.first, gr) + sizeof(Partial) / 4, groups * size, smem, plan);
  }
  write_result(g, w, smem, plan);
  if (threadIdx.x == 0) *arrivals = 0;
}

// kSplit: one group per thread block.
template <bool kVector, bool kSplit>
__global__ void __launch_bounds__(kBlockThreads) attention_kernel(Rows g, int64_t tiles, int64_t groups, float* workspace) {
  extern __shared__ int4 dynamic[];
  auto* smem = reinterpret_cast<std::byte*>(dynamic);
  auto& shared = *reinterpret_cast<Shared*>(smem);
  const Plan plan(g.layout.d);
  const int64_t item = kSplit ? blockIdx.x / groups : blockIdx.x;
  Work w;
  if (!find_work(g, item, tiles, w)) return;
  const int64_t position = g.positions[w.row], d = g.layout.d;
  const int64_t first_key = g.window > 0 ? max(int64_t{0}, position - g.window + 1) : 0;
  const int64_t first_group = first_key / kGroupPositions, last_group = position / kGroupPositions;
  const int64_t only = blockIdx.x % groups;
  if (kSplit && (only < first_group || only > last_group)) return;

  float c[kHeads];
  for (int t = 0; t < kHeads; ++t) c[t] = t < w.count ? g.q_scales[w.row * g.heads + w.first + t] * g.score_constant : 0.0f;
  auto* q = reinterpret_cast<int16_t*>(smem + plan.q);
  auto* q_hi = reinterpret_cast<int8_t*>(smem + plan.q_hi);
  auto* total_o = reinterpret_cast<float*>(smem + plan.total_o);
  for (int64_t at = threadIdx.x; at < kHeads * plan.padded_d; at += blockDim.x) {
    const int64_t t = at / plan.padded_d, i = at % plan.padded_d;
    const int16_t code = t < w.count && i < d ? g.q[w.row * g.q_stride + (w.first + t) * d + i] : int16_t{0};
    q[at] = code;
    q_hi[at] = static_cast<int8_t>(num::plane_hi(code));
    total_o[at] = 0.0f;
  }
  if (threadIdx.x < kHeads) shared.heads[threadIdx.x] = {{}, {}, false};
  __syncthreads();

  for (int64_t group = kSplit ? only : first_group; group <= (kSplit ? only : last_group); ++group) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int64_t block = group * kGroup + warp, base = block * kBlock;
    const bool visible = base + kBlock > first_key && base <= position;
    if (visible) {
      const kv_cache::View<const std::byte> kv(g.pages.block(w.row, block, w.kv_head), g.layout);
      block_sums<kVector>(g, c, kv, static_cast<int>(max(first_key - base, int64_t{0})), static_cast<int>(min(position - base, kBlock - 1)),
                          w.count, smem, plan);
    } else if (threadIdx.x % 32 < kHeads) {
      shared.blocks[warp][threadIdx.x % 32].visible = false;
    }
    __syncthreads();
    merge_blocks(g, w.count, smem, plan);
    if (!kSplit) join(g, w.count, reinterpret_cast<const float*>(smem + plan.group_o), plan.padded_d, smem, plan);
  }
  if (kSplit)
    leave_and_merge(g, w, only, first_group, last_group, groups, workspace, smem, plan);
  else
    write_result(g, w, smem, plan);
}

int64_t groups_of(const Rows& g) { return (g.max_positions + kGroupPositions - 1) / kGroupPositions; }
int64_t tiles_of(const Rows& g) { return (g.group + kHeads - 1) / kHeads; }
// Few thread blocks and several groups: the groups are shared out.
bool splits(const Rows& g) { return groups_of(g) > 1 && g.rows * g.kv_heads() * tiles_of(g) <= 512; }

}  // namespace

int64_t cuda_workspace(const Rows& g) { return splits(g) ? g.rows * g.heads * groups_of(g) * partial_floats(g.layout.d) * 4 : 0; }

void cuda(const Rows& g, const device::Launch& l) {
  if (g.rows * g.heads == 0) return;
  const bool split = splits(g), vector = g.layout.d % 16 == 0;
  auto* kernel = vector ? (split ? attention_kernel<true, true> : attention_kernel<true, false>)
                        : (split ? attention_kernel<false, true> : attention_kernel<false, false>);
  const auto bytes = static_cast<int>(Plan(g.layout.d).bytes);
  if (bytes > 48 << 10) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int64_t items = g.rows * g.kv_heads() * tiles_of(g), groups = groups_of(g);
  kernel<<<static_cast<unsigned>(split ? items * groups : items), kBlockThreads, bytes, l.stream>>>(g, tiles_of(g), groups,
                                                                                                    reinterpret_cast<float*>(l.workspace));
}

}  // namespace zeroulp::ops::attention
