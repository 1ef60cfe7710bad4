// A thread block takes up to four query heads of one row that share a KV head, and works through key blocks, all 256 threads on one of 128
// keys: two threads to a key for the scores, eight lanes to a row of 128 value codes for the sums. What is summed is an exact integer, so
// that lanes may share it out as they like. The merges have a mandated order: every output element has one thread, which takes key blocks
// ascending inside a group and groups ascending.
//
// With few rows each key block has a thread block of its own. It leaves its sums in the workspace; the last to arrive merges them all. There
// the time is latency: keys and values of earlier passes are asked for before the kernel ahead has ended (ops/early.cuh), and the merge asks
// for a whole group at once.
#include "ops/attention/fast.h"
#include "base/check.h"
#include "ops/early.cuh"
#include "ops/fused/heads.cuh"
#include "ops/launch.cuh"

namespace zeroulp::ops::attention {
namespace {

constexpr int kHeads = 4, kBlockThreads = 256, kWarps = kBlockThreads / 32, kLanes = 8;
constexpr int64_t kMostSplitItems = 264;  // rows times tiles of heads up to which key blocks are spread over thread blocks
constexpr int64_t kMostSplitBlocks = 64;  // of one row; beyond that a thread block takes a whole group
constexpr int kMergers = kBlockThreads / kHeads;  // threads that merge the key blocks of one head

constexpr int64_t kHeadBytes = (kHeads + 1) * fused::HeadWarp::kVectors * 2;  // for each element of a head

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
  float query_scales[kHeads];
  bool last;
};

// Offsets of the arrays behind Shared in dynamic shared memory, all multiples of 16 bytes. One place serves what is never needed together: O of the group
// and in all, or the headers of split key blocks, or the vectors of heads on their way to codes.
struct Plan {
  int64_t padded_d, q, q_hi, p, group_o, total_o, headers, bytes;
  ZU_HD explicit Plan(int64_t d) {
    padded_d = (d + 15) / 16 * 16;
    q = (sizeof(Shared) + 15) / 16 * 16;
    q_hi = q + kHeads * padded_d * 2;
    p = q_hi + kHeads * padded_d;
    group_o = p + kHeads * kBlock * 2;
    total_o = group_o + kHeads * padded_d * 4;
    headers = group_o;
    bytes = group_o + std::max({2 * kHeads * padded_d * 4, int64_t{kHeads * kMostSplitBlocks * sizeof(Block)}, kHeadBytes * padded_d});
  }
};

// The workspace: per row and head a record for every part, a key block's header and A or a group's state and O. Whole cache lines each, so
// that no thread block caches a line that another one still writes to.
struct Left {
  int64_t record, parts;  // 4-byte words of a record; records of a head
  ZU_HD Left(int64_t d, int64_t count) : record((d + 4 + 31) / 32 * 32), parts(count) {}
  ZU_HD int64_t words(int64_t heads) const { return heads * parts * record; }
  template <class T, class Bytes>
  __device__ T* at(Bytes* workspace, int64_t head, int64_t part) const {
    return reinterpret_cast<T*>(workspace) + (head * parts + part) * record;
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

// The heads of one thread block: [first, first + count) of row `row`, all reading KV head `kv_head`.
struct Work {
  int64_t row, first, kv_head;
  int count;
};

// Tile `tile` of the tiles of a row, `tiles` to each KV head.
__device__ bool find_work(const Rows& g, int64_t row, int tile, int tiles, Work& w) {
  const int group = static_cast<int>(g.group), kv_head = tile / tiles, shift = static_cast<int>(g.first_head) % group;
  const int low = max(0, kv_head * group - shift), high = min(static_cast<int>(g.heads), (kv_head + 1) * group - shift);
  const int first = low + tile % tiles * kHeads;
  w = {row, first, kv_head, min(kHeads, high - first)};
  return w.count > 0;
}

// A thread block's view of its work. Lane `lane` of eight has the merges of head `lane`, elements i = first_element + 32 n. kAhead:
// vectors of a thread's key and value rows that are asked for before they are needed; four are all of them up to d = 128.
template <bool kVector, int kAhead>
class Attend {
 public:
  using View = kv_cache::View<const std::byte>;

  __device__ Attend(const Rows& g, const Work& w, std::byte* smem)
      : g_(g), w_(w), plan_(g.layout.d), d_(g.layout.d), position_(g.positions[w.row]),
        first_key_(g.window > 0 ? max(int64_t{0}, position_ - g.window + 1) : 0), shared_(*reinterpret_cast<Shared*>(smem)),
        q_(reinterpret_cast<int16_t*>(smem + plan_.q)), q_hi_(smem + plan_.q_hi), p_(reinterpret_cast<int16_t*>(smem + plan_.p)),
        group_o_(reinterpret_cast<float*>(smem + plan_.group_o)), total_o_(reinterpret_cast<float*>(smem + plan_.total_o)),
        headers_(smem + plan_.headers),
        lane_(static_cast<int>(threadIdx.x) % kLanes), first_element_(threadIdx.x / kLanes) {}

  __device__ int64_t first_block() const { return first_key_ / kBlock; }
  __device__ int64_t last_block() const { return position_ / kBlock; }

  __device__ void load_queries() {
    for (int t = 0; t < kHeads; ++t) c_[t] = t < w_.count ? g_.q_scales[w_.row * g_.heads + w_.first + t] * g_.score_constant : 0.0f;
    const int16_t* const q = g_.q + w_.row * g_.q_stride + w_.first * d_;
    const auto put = [&](int at, int16_t code) {
      q_[at] = code;
      reinterpret_cast<int8_t*>(q_hi_)[at] = static_cast<int8_t>(num::plane_hi(code));
    };
    const int d = static_cast<int>(d_), padded = static_cast<int>(plan_.padded_d);
    if constexpr (kVector) {  // heads follow each other without padding
      for (int at = threadIdx.x; at < kHeads * d; at += kBlockThreads) put(at, at < w_.count * d ? q[at] : int16_t{0});
    } else {
      for (int at = threadIdx.x; at < kHeads * padded; at += kBlockThreads) {
        const int t = at / padded, i = at % padded;
        put(at, t < w_.count && i < d ? q[t * d + i] : int16_t{0});
      }
    }
    __syncthreads();
  }
  // The same from bf16 vectors: a warp to a head, in this memory.
  __device__ uint16_t* head_memory() const { return reinterpret_cast<uint16_t*>(group_o_); }
  __device__ bool make_query(int t, const uint16_t* x) {
    constexpr num::RowRange range = num::kAttentionRange;
    const quant_rows::Quantiser q = quant_rows::quantiser(kv_cache::warp_absmax(x, d_), 15, range);
    for (int64_t i = threadIdx.x % 32; i < d_; i += 32) {
      const int16_t code = quant_rows::code(x[i], q.multiplier);
      q_[t * d_ + i] = code;
      reinterpret_cast<int8_t*>(q_hi_)[t * d_ + i] = static_cast<int8_t>(num::plane_hi(code));
    }
    if (threadIdx.x % 32 == 0) shared_.query_scales[t] = q.scale;
    return !q.fault;
  }
  __device__ void no_query(int t) {
    for (int64_t i = threadIdx.x % 32; i < d_; i += 32) q_[t * d_ + i] = 0, reinterpret_cast<int8_t*>(q_hi_)[t * d_ + i] = 0;
    if (threadIdx.x % 32 == 0) shared_.query_scales[t] = 0.0f;
  }
  __device__ void take_queries() {
    __syncthreads();
    for (int t = 0; t < kHeads; ++t) c_[t] = t < w_.count ? shared_.query_scales[t] * g_.score_constant : 0.0f;
  }
  // Before the first group is computed here.
  __device__ void begin() {
    clear(group_o_);
    clear(total_o_);
    __syncthreads();
  }

  // Whether no row of this pass writes to a key block: the rows of a sequence stand at consecutive positions.
  __device__ bool is_old(int64_t block) const { return (block + 1) * kBlock <= position_ - (g_.rows - 1); }

  // Asks for a key block: the first vectors of this thread's key and value rows. Slots that are not visible are read, not used.
  __device__ void ask(const View& kv) {
    if constexpr (kVector) {
      const int64_t j = threadIdx.x / 2, half = threadIdx.x % 2;
      const auto* hi = reinterpret_cast<const int4*>(kv.key_hi + j * d_);
      const auto* lo = reinterpret_cast<const int4*>(kv.key_lo ? kv.key_lo + j * d_ : kv.key_hi + j * d_);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int64_t v = half + 2 * a, i = first_element_ + 32 * a;
        if (v < d_ / 16) keys_hi_[a] = hi[v], keys_lo_[a] = lo[v];
        values_[a] = i < d_ ? *reinterpret_cast<const int4*>(kv.values + i * kBlock + 16 * lane_) : int4{};
      }
    }
  }

  __device__ View view(int64_t block) const { return View(g_.pages.block(w_.row, block, w_.kv_head), g_.layout); }

  // The exact sums of one key block: leaves the probabilities in shared memory and returns the header of this lane's head.
  __device__ Block weigh(int64_t block, const View& kv) {
    const int64_t base = block * kBlock;
    const int first = static_cast<int>(max(first_key_ - base, int64_t{0})), last = static_cast<int>(min(position_ - base, kBlock - 1));
    const int j = threadIdx.x / 2, half = threadIdx.x % 2, warp = threadIdx.x / 32;
    const bool visible = j >= first && j <= last;
    const int value_exponent = visible ? kv.value_exponents[j] : kv_cache::kZeroRow;
    float u[kHeads];
    scores(kv, j, half, visible, u);
    const int exponent = warp_max(value_exponent);
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
      if (half == t % 2 && visible && !faulted) weight = weights(u[t], c_[t], n, static_cast<int8_t>(value_exponent), f);
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
  __device__ void sum_values(const View& kv, Take take) {
    int4 low[kHeads], high[kHeads];  // p of this lane's 16 keys
#pragma unroll
    for (int t = 0; t < kHeads; ++t) {
      const auto* p = reinterpret_cast<const int4*>(p_ + t * kBlock + 16 * lane_);
      low[t] = p[0];
      high[t] = p[1];
    }
    const auto round = [&](int64_t i, const int4& v) {
      int32_t mine = 0;
#pragma unroll
      for (int t = 0; t < kHeads; ++t) {
        int32_t sum = dot16(v, low[t], high[t], 0);
        for (int offset = 1; offset < kLanes; offset *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
        if (lane_ == t) mine = sum;
      }
      if (lane_ < w_.count && i < d_) take(i, mine);
    };
    int64_t done = 0;
    if constexpr (kVector) {
#pragma unroll
      for (int a = 0; a < kAhead; ++a)
        if (32 * a < d_) round(first_element_ + 32 * a, values_[a]);
      done = kAhead;
    }
#pragma unroll 4
    for (; 32 * done < d_; ++done) {
      const int64_t i = first_element_ + 32 * done;
      round(i, i < d_ ? *reinterpret_cast<const int4*>(kv.values + i * kBlock + 16 * lane_) : int4{});
    }
    __syncthreads();
  }

  // A key block joins the group's state.
  __device__ void compute_block(int64_t block) {
    const View kv = view(block);
    const Block header = weigh(block, kv);
    const Alignment al = begin_block(header);
    const float value_gain = al.gain * num::pow2(header.f);
    sum_values(kv, [&](int64_t i, int32_t a) { group_o_[at(i)] = add_block(group_o_[at(i)], a, al, value_gain); });
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

  // Key block or group `part` of this thread block goes to the workspace.
  __device__ void leave_block(int64_t part, const View& kv, const Left& left, std::byte* workspace) {
    const Block header = weigh(part, kv);
    int32_t* to = lane_ < w_.count ? left.at<int32_t>(workspace, head(lane_), part) : nullptr;
    if (lane_ < w_.count && first_element_ == 0) *reinterpret_cast<Block*>(to) = header;
    sum_values(kv, [&](int64_t i, int32_t a) { to[4 + i] = a; });
  }
  __device__ void leave_group(int64_t part, const Left& left, std::byte* workspace) {
    if (lane_ >= w_.count) return;
    float* to = left.at<float>(workspace, head(lane_), part);
    if (first_element_ == 0) *reinterpret_cast<Partial*>(to) = {group_.n, group_.l, fault_, 0};
    for_elements([&](int64_t i) { to[4 + i] = group_o_[at(i)]; });
  }
  // Merges key blocks [first, last] and writes the outputs: kMergers threads to a head, each with two elements at a time. The headers come
  // to shared memory; a group's sums are asked for while the group before is merged.
  __device__ void merge_left_blocks(int first, int last, const Left& left, const std::byte* workspace) {
    constexpr int kElements = 2;
    const int t = threadIdx.x / kMergers, mine = threadIdx.x % kMergers, d = static_cast<int>(d_), record = static_cast<int>(left.record);
    const bool has_head = t < w_.count;
    auto* const headers = reinterpret_cast<int4*>(headers_) + t * kMostSplitBlocks;  // of block `first` on
    const auto* const records = left.at<const int32_t>(workspace, head(has_head ? t : 0), 0);
    if (has_head && first + mine <= last) headers[mine] = __ldcg(reinterpret_cast<const int4*>(records + (first + mine) * record));
    int32_t sums[kGroup][kElements], next[kGroup][kElements];
    const auto ask = [&](int group, int base, int32_t (&to)[kGroup][kElements]) {
#pragma unroll
      for (int b = 0; b < kGroup; ++b)
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const int block = group * static_cast<int>(kGroup) + b, i = base + e * kMergers;
          to[b][e] = has_head && block >= first && block <= last && i < d ? __ldcg(records + block * record + 4 + i) : 0;
        }
    };
    const int first_group = first / static_cast<int>(kGroup), last_group = last / static_cast<int>(kGroup);
    ask(first_group, mine, sums);
    __syncthreads();
    if (!has_head) return;
    for (int base = mine; base < d; base += kElements * kMergers) {
      State total;
      float o[kElements] = {};
      int fault = 0;
      if (base != mine) ask(first_group, base, sums);
#pragma unroll 1
      for (int group = first_group; group <= last_group; ++group) {
        if (group < last_group) ask(group + 1, base, next);
        State state;
        float part[kElements] = {};
#pragma unroll
        for (int b = 0; b < kGroup; ++b) {
          const int at = group * static_cast<int>(kGroup) + b;
          if (at < first || at > last) continue;
          const int4 header = headers[at - first];
          const Block block{__int_as_float(header.x), header.y, header.z, header.w};
          const Alignment al = align(state, block.n);
          const float gain = al.gain * num::pow2(block.f);
          state = {false, al.n, add_block(state.l, block.b, al, al.gain)};
          fault |= block.fault;
#pragma unroll
          for (int e = 0; e < kElements; ++e) part[e] = add_block(part[e], sums[b][e], al, gain);
        }
        const Alignment al = align(total, state.n);
        total = {false, al.n, add_group(total.l, state.l, al)};
#pragma unroll
        for (int e = 0; e < kElements; ++e) o[e] = add_group(o[e], part[e], al);
#pragma unroll
        for (int b = 0; b < kGroup; ++b)
#pragma unroll
          for (int e = 0; e < kElements; ++e) sums[b][e] = next[b][e];
      }
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int i = base + e * kMergers;
        if (i < d) g_.out[w_.row * g_.out_stride + (w_.first + t) * d_ + i] = fault ? num::kBf16Nan : num::float_to_bf16(o[e] / total.l);
      }
      if (base == 0 && fault) g_.faults[w_.row] = 1;
    }
  }
  __device__ void merge_left_groups(int64_t first, int64_t last, const Left& left, std::byte* workspace) {
    if (lane_ >= w_.count) return;
    fault_ = 0;
    for (int64_t group = first; group <= last; ++group) {
      const float* from = left.at<float>(workspace, head(lane_), group);
      const Partial part = *reinterpret_cast<const Partial*>(from);
      join_group(part.n, part.l, part.fault, [&](int64_t i) { return from[4 + i]; });
    }
  }

  // Whether this thread block is the last of `expected` to arrive; the counter is then 0 again. One thread's fences order what the block's
  // other threads wrote before and read afterwards, since the barriers put those before and after it.
  __device__ bool last_to_arrive(int32_t* counter, int64_t expected) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      shared_.last = atomicAdd(counter, 1) == expected - 1;
      if (shared_.last) *counter = 0;
      __threadfence();
    }
    __syncthreads();
    return shared_.last;
  }

 private:
  __device__ int64_t head(int t) const { return w_.row * g_.heads + w_.first + t; }
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
    const float scale = visible ? kv.key_scales[j] : 0.0f;
    if (visible) {
      if constexpr (kVector) {
        const auto* hi = reinterpret_cast<const int4*>(kv.key_hi + j * d_);
        const auto* lo = reinterpret_cast<const int4*>(kv.key_lo ? kv.key_lo + j * d_ : nullptr);
        const auto add = [&](int64_t v, const int4& k_hi, const int4& k_lo) {
#pragma unroll
          for (int t = 0; t < kHeads; ++t) {
            // q * k_hi plus the high plane of q times k_lo: raw_score's sum re-ordered.
            const auto* codes = reinterpret_cast<const int4*>(q_ + t * plan_.padded_d + 16 * v);
            acc[t] = dot16(k_hi, codes[0], codes[1], acc[t]);
            if (lo) acc[t] = dot16_planes(k_lo, *reinterpret_cast<const int4*>(q_hi_ + t * plan_.padded_d + 16 * v), acc[t]);
          }
        };
#pragma unroll
        for (int a = 0; a < kAhead; ++a)
          if (half + 2 * a < d_ / 16) add(half + 2 * a, keys_hi_[a], keys_lo_[a]);
#pragma unroll 4
        for (int64_t v = half + 2 * kAhead; v < d_ / 16; v += 2) add(v, hi[v], lo ? lo[v] : int4{});
      } else if (half == 0) {
        for (int t = 0; t < w_.count; ++t) acc[t] = raw_score(q_ + t * plan_.padded_d, kv.key_hi + j * d_, kv.key_lo ? kv.key_lo + j * d_ : nullptr, d_);
      }
    }
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
  std::byte* headers_;
  const int lane_;
  const int64_t first_element_;
  float c_[kHeads];
  int4 keys_hi_[kAhead + 1], keys_lo_[kAhead + 1], values_[kAhead + 1];
  State group_, total_;
  int fault_ = 0;
};

// One thread block for all key blocks of its heads.
template <bool kVector>
__global__ void __launch_bounds__(kBlockThreads) attention_whole(Rows g, int tiles) {
  extern __shared__ int4 dynamic[];
  Work w;
  const int64_t per_row = g.kv_heads() * tiles;
  if (!find_work(g, blockIdx.x / per_row, static_cast<int>(blockIdx.x % per_row), tiles, w)) return;
  Attend<kVector, 0> attend(g, w, reinterpret_cast<std::byte*>(dynamic));
  attend.load_queries();
  attend.begin();
  for (int64_t block = attend.first_block(); block <= attend.last_block(); ++block) {
    attend.compute_block(block);
    if (block % kGroup == kGroup - 1 || block == attend.last_block()) attend.end_group();
  }
  attend.write();
}

// One thread block for a key block, or for a group of them (kWholeGroups). arrivals: one counter per item.
template <bool kVector, bool kWholeGroups>
__global__ void __launch_bounds__(kBlockThreads, 2) attention_split(Rows g, int tiles, std::byte* workspace) {
  extern __shared__ int4 dynamic[];
  const int64_t part = blockIdx.x, parts = gridDim.x, item = int64_t{blockIdx.z} * gridDim.y + blockIdx.y;
  let_next_start();
  Work w;
  if (!find_work(g, blockIdx.z, static_cast<int>(blockIdx.y), tiles, w)) return;
  Attend<kVector, kWholeGroups ? 0 : 4> attend(g, w, reinterpret_cast<std::byte*>(dynamic));
  const int64_t first = attend.first_block(), last = attend.last_block(), first_group = first / kGroup, last_group = last / kGroup;
  if (kWholeGroups ? part < first_group || part > last_group : part < first || part > last) return;
  const Left left(g.layout.d, parts);
  if (kWholeGroups) {
    wait_for_previous();
    attend.load_queries();
    attend.begin();
    for (int64_t block = max(first, part * kGroup); block <= min(last, part * kGroup + kGroup - 1); ++block) attend.compute_block(block);
    attend.leave_group(part, left, workspace);
    if (!attend.last_to_arrive(g.arrivals + item, last_group - first_group + 1)) return;
    attend.merge_left_groups(first_group, last_group, left, workspace);
    attend.write();
  } else {
    const auto kv = attend.view(part);
    const bool old = attend.is_old(part);
    if (old) attend.ask(kv);
    wait_for_previous();
    if (!old) attend.ask(kv);
    attend.load_queries();
    attend.leave_block(part, kv, left, workspace);
    if (attend.last_to_arrive(g.arrivals + item, last - first + 1)) attend.merge_left_blocks(static_cast<int>(first), static_cast<int>(last), left, workspace);
  }
}

// The key blocks as in attention_split; each of them makes the queries anew, and the one of the newest position stores its key and value first. Where heads
// of one KV head are spread over several thread blocks, each stores the same bytes.
__global__ void __launch_bounds__(kBlockThreads, 2) attention_with_heads(const __grid_constant__ Rows g, const __grid_constant__ fused::Heads h, int tiles,
                                                                        std::byte* workspace) {
  extern __shared__ int4 dynamic[];
  const int64_t part = blockIdx.x, row = blockIdx.z, item = row * gridDim.y + blockIdx.y;
  Work w;
  if (!find_work(g, row, static_cast<int>(blockIdx.y), tiles, w)) return;
  Attend<true, 4> attend(g, w, reinterpret_cast<std::byte*>(dynamic));
  const int64_t first = attend.first_block(), last = attend.last_block();
  if (part < first || part > last) return;
  const auto kv = attend.view(part);
  const bool newest = part == last;
  if (!newest) attend.ask(kv);
  let_next_start();
  const int warp = threadIdx.x / 32;
  const bool query = warp < w.count, key = newest && warp == kHeads;
  if (query || key) {
    fused::HeadWarp head(h, row, query ? w.first + warp : g.heads + w.kv_head, attend.head_memory() + warp * fused::HeadWarp::kVectors * g.layout.d);
    wait_for_previous();
    head.rotate();
    if (key)
      head.store();
    else if (!attend.make_query(warp, head.vector()) && newest && threadIdx.x % 32 == 0)
      h.q_faults[row] = 1;
  } else {
    if (warp < kHeads) attend.no_query(warp);
    wait_for_previous();
  }
  attend.take_queries();
  if (newest) attend.ask(kv);
  const Left left(g.layout.d, gridDim.x);
  attend.leave_block(part, kv, left, workspace);
  if (attend.last_to_arrive(g.arrivals + item, last - first + 1)) attend.merge_left_blocks(static_cast<int>(first), static_cast<int>(last), left, workspace);
}

int64_t tiles_of(const Rows& g) { return (g.group + kHeads - 1) / kHeads; }
int64_t items_of(const Rows& g) { return g.rows * g.kv_heads() * tiles_of(g); }
int64_t blocks_of(const Rows& g) { return (g.max_positions + kBlock - 1) / kBlock; }
bool splits(const Rows& g) { return blocks_of(g) > 1 && items_of(g) <= kMostSplitItems; }
bool whole_groups(const Rows& g) { return blocks_of(g) > kMostSplitBlocks; }
int64_t parts_of(const Rows& g) { return whole_groups(g) ? (blocks_of(g) + kGroup - 1) / kGroup : blocks_of(g); }

}  // namespace

int64_t cuda_workspace(const Rows& g) { return splits(g) ? 4 * Left(g.layout.d, parts_of(g)).words(g.rows * g.heads) : 0; }
int64_t cuda_arrivals() { return kMostSplitItems; }

void cuda(const Rows& g, const device::Launch& l) {
  if (g.rows * g.heads == 0) return;
  const bool vector = g.layout.d % 16 == 0;
  const auto bytes = static_cast<int>(Plan(g.layout.d).bytes);
  const auto tiles = static_cast<int>(tiles_of(g));
  if (!splits(g)) {
    auto* kernel = vector ? attention_whole<true> : attention_whole<false>;
    if (bytes > 48 << 10) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<static_cast<unsigned>(items_of(g)), kBlockThreads, bytes, l.stream>>>(g, tiles);
    return;
  }
  const bool whole = whole_groups(g);
  auto* kernel = vector ? (whole ? attention_split<true, true> : attention_split<true, false>) : (whole ? attention_split<false, true> : attention_split<false, false>);
  if (bytes > 48 << 10) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 blocks(static_cast<unsigned>(parts_of(g)), static_cast<unsigned>(g.kv_heads() * tiles), static_cast<unsigned>(g.rows));
  launch_early(kernel, blocks, kBlockThreads, bytes, l.stream, g, tiles, l.workspace);
}

}  // namespace zeroulp::ops::attention

namespace zeroulp::ops::fused {

bool heads_attention_fits(const attention::Rows& g) {
  return g.layout.d % 16 == 0 && attention::splits(g) && !attention::whole_groups(g);
}

void heads_attention(const Heads& h, const attention::Rows& g, const device::Launch& l) {
  if (g.rows * g.heads == 0) return;
  ZU_CHECK(heads_attention_fits(g));
  const auto bytes = static_cast<int>(attention::Plan(g.layout.d).bytes), tiles = static_cast<int>(attention::tiles_of(g));
  if (bytes > 48 << 10) cudaFuncSetAttribute(attention::attention_with_heads, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const dim3 blocks(static_cast<unsigned>(attention::parts_of(g)), static_cast<unsigned>(g.kv_heads() * tiles), static_cast<unsigned>(g.rows));
  launch_early(attention::attention_with_heads, blocks, attention::kBlockThreads, bytes, l.stream, g, h, tiles, l.workspace);
}

}  // namespace zeroulp::ops::fused
