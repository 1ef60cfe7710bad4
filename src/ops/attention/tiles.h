// The frame of the fast CPU variants: queries (row and head) in tiles, so that a block of keys and values is unpacked once for all of
// them; states and the mandated order of merging. What runs on vectors is the template argument:
//
//   struct Isa {
//     // Sizes in bytes, multiples of 64: one query's packed codes; a block's packed keys; a block's packed values.
//     static int64_t query_bytes(const Layout&), key_bytes(const Layout&), value_bytes(const Layout&);
//     // Packs a query's codes; what it returns is handed to attend() again.
//     static int32_t pack_query(const Layout&, const int16_t* q, std::byte* to);
//     // Packs what the keys [first, last] of a block need; other keys may hold anything.
//     static void pack_block(const Layout&, const View&, Range, std::byte* keys, std::byte* values);
//     // The exact sums of one query over the keys of a packed block; `a` is padded to kLanes.
//     static BlockSums attend(const Layout&, const View&, Range, const Query&, const std::byte* keys, const std::byte* values, int32_t* a);
//     // o = o * keep, then o = fma(i2f(a), gain, o) unless gain is 0.     total = total * keep + group * gain.     out = bf16(o / l).
//     static void add_block(float* o, const int32_t* a, float keep, float gain, int64_t count);
//     static void add_group(float* total, const float* group, float keep, float gain, int64_t count);
//     static void finish(uint16_t* out, const float* o, float l, int64_t d);
//   };
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/attention/contract.h"

namespace zeroulp::ops::attention {

using kv_cache::Layout;
using View = kv_cache::View<const std::byte>;

inline constexpr int64_t kLanes = 64;  // vectors over d are padded to this many elements
inline constexpr int64_t kTileQueries = 32;

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Keys [first, last] of a block; empty when first > last.
struct Range {
  int64_t first, last;
  bool empty() const { return first > last; }
};

struct BlockSums {
  bool fault = false;
  float n = 0;
  int f = 0;
  int32_t b = 0;
};

struct Query {
  std::byte* codes;
  int32_t offset;  // of pack_query
  float c;
  int64_t row, head, first_key, position;
  State total, group;
  float *o_total, *o_group;
  bool fault;

  Range visible(int64_t block) const {
    const int64_t base = block * kBlock;
    return {std::max(first_key - base, int64_t{0}), std::min(position - base, kBlock - 1)};
  }
};

template <class Isa>
int64_t query_stride_of(const Layout& l) {
  return Isa::query_bytes(l) + 8 * round_up(l.d, kLanes);
}
template <class Isa>
int64_t scratch_bytes_of(const Layout& l) {
  return Isa::key_bytes(l) + Isa::value_bytes(l) + 4 * round_up(l.d, kLanes) + kTileQueries * query_stride_of<Isa>(l);
}

// The call's scratch memory, or the calling thread's, which it keeps. (The thread's is in a function of its own: meeting a thread_local vector
// allocates, even one that stays empty.)
inline std::byte* own_scratch(int64_t bytes) {
  static thread_local std::vector<std::byte> memory;
  if (static_cast<int64_t>(memory.size()) < bytes + 64) memory.resize(static_cast<size_t>(bytes + 64));
  return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
}
inline std::byte* scratch_of(const Args& g, int64_t bytes) { return g.scratch != nullptr ? g.scratch : own_scratch(bytes); }

// It cut up.
struct Scratch {
  std::byte *keys, *values, *queries;
  int32_t* a;
  int64_t query_stride;
};
template <class Isa>
Scratch make_scratch(const Args& g) {
  const Layout& l = g.layout;
  std::byte* at = scratch_of(g, scratch_bytes_of<Isa>(l));
  std::byte* values = at + Isa::key_bytes(l);
  std::byte* a = values + Isa::value_bytes(l);
  return {at, values, a + 4 * round_up(l.d, kLanes), reinterpret_cast<int32_t*>(a), query_stride_of<Isa>(l)};
}

template <class Isa>
Query make_query(const Args& g, int64_t index, std::byte* memory) {
  const int64_t d = g.layout.d, padded = round_up(d, kLanes);
  Query q{};
  q.row = index / g.group;
  q.head = index % g.group;
  q.position = g.first_position + q.row;
  q.first_key = g.window > 0 ? std::max<int64_t>(0, q.position - g.window + 1) : 0;
  q.c = g.q_scales[q.row * g.q_scales_stride + q.head] * g.score_constant;
  q.codes = memory;
  q.offset = Isa::pack_query(g.layout, g.q + q.row * g.q_stride + q.head * d, q.codes);
  q.o_total = reinterpret_cast<float*>(memory + Isa::query_bytes(g.layout));
  q.o_group = q.o_total + padded;
  std::fill_n(q.o_total, 2 * padded, 0.0f);
  return q;
}

template <class Isa>
void add(Query& q, const BlockSums& s, const int32_t* a, int64_t padded, bool ends_group) {
  const Alignment al = align(q.group, s.n);
  Isa::add_block(q.o_group, a, al.keep, al.gain * num::pow2(s.f), padded);
  q.group.l *= al.keep;
  if (al.gain != 0) q.group.l = std::fma(num::i2f(s.b), al.gain, q.group.l);
  q.group.n = al.n;
  q.group.empty = false;
  if (!ends_group) return;
  const Alignment of_group = align(q.total, q.group.n);
  Isa::add_group(q.o_total, q.o_group, of_group.keep, of_group.gain, padded);
  q.total.l = q.total.l * of_group.keep + q.group.l * of_group.gain;
  q.total.n = of_group.n;
  q.total.empty = false;
  q.group = {};
  std::fill_n(q.o_group, padded, 0.0f);
}

template <class Isa>
void run_tile(const Args& g, int64_t first_query, int64_t count, const Scratch& scratch) {
  const int64_t padded = round_up(g.layout.d, kLanes);
  Query queries[kTileQueries];
  int64_t first_block = INT64_MAX, last_block = 0;
  for (int64_t i = 0; i < count; ++i) {
    queries[i] = make_query<Isa>(g, first_query + i, scratch.queries + i * scratch.query_stride);
    first_block = std::min(first_block, queries[i].first_key / kBlock);
    last_block = std::max(last_block, queries[i].position / kBlock);
  }
  for (int64_t block = first_block; block <= last_block; ++block) {
    Range all{kBlock, -1};
    for (int64_t i = 0; i < count; ++i) {
      const Range r = queries[i].visible(block);
      if (!r.empty() && !queries[i].fault) all = {std::min(all.first, r.first), std::max(all.last, r.last)};
    }
    if (all.empty()) continue;
    const View kv(g.pages[block] + g.page_offset, g.layout);
    Isa::pack_block(g.layout, kv, all, scratch.keys, scratch.values);
    for (int64_t i = 0; i < count; ++i) {
      Query& q = queries[i];
      const Range r = q.visible(block);
      if (r.empty() || q.fault) continue;
      const BlockSums s = Isa::attend(g.layout, kv, r, q, scratch.keys, scratch.values, scratch.a);
      q.fault = s.fault;
      if (!s.fault) add<Isa>(q, s, scratch.a, padded, block % kGroup == kGroup - 1 || block == q.position / kBlock);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const Query& q = queries[i];
    uint16_t* out = g.out + q.row * g.out_stride + q.head * g.layout.d;
    if (!q.fault) {
      Isa::finish(out, q.o_total, q.total.l, g.layout.d);
    } else {
      std::fill_n(out, g.layout.d, num::kBf16Nan);
      g.faults[q.row * g.faults_stride] = 1;
    }
  }
}

template <class Isa>
void run_tiles(const Args& g) {
  const Scratch scratch = make_scratch<Isa>(g);
  const int64_t queries = g.rows * g.group;
  for (int64_t i = 0; i < queries; i += kTileQueries) run_tile<Isa>(g, i, std::min(kTileQueries, queries - i), scratch);
}

}  // namespace zeroulp::ops::attention
