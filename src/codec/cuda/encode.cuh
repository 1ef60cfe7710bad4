// One kernel. A warp brings its block to shared memory, samples its exponents, chooses mode and windows, counts what they leave out, and so
// knows the payload's size, which it publishes; hashes the block; takes its place in the frame by decoupled look-back (D. Merrill, M. Garland,
// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016), by when the sizes before it are mostly there; and codes row after row to
// where the payload belongs. CTAs are of one warp and are started in the order of blockIdx, so that none waits for one that has not begun.
#pragma once

#include "codec/cuda/hash.cuh"
#include "codec/cuda/values.cuh"

namespace zeroulp::codec::cuda {
namespace {

constexpr unsigned long long kOwn = 1ull << 62, kTotal = 2ull << 62, kValue = kOwn - 1;

__device__ void publish(unsigned long long* place, unsigned long long word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
}
__device__ unsigned long long look(const unsigned long long* place) {
  unsigned long long word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  return word;
}

// By one warp: the sum of the sizes of all blocks before `block`, which has published its own. Hundreds of blocks are under way, so that the
// nearest total is often far: 128 places are read at a time.
__device__ uint64_t look_back(unsigned long long* places, uint32_t block, uint32_t own, int lane) {
  constexpr int kReads = 4;
  uint64_t before = 0;  // this lane's part
  for (int64_t nearest = int64_t{block} - 1 - lane;;) {
    unsigned long long words[kReads];
#pragma unroll
    for (int i = 0; i < kReads; ++i) words[i] = nearest >= 32 * i ? look(places + nearest - 32 * i) : kTotal;
    bool found = false;
#pragma unroll
    for (int i = 0; i < kReads; ++i) {
      const uint32_t totals = __ballot_sync(kAll, words[i] >= kTotal), ready = __ballot_sync(kAll, words[i] != 0);
      const uint32_t nearer = totals == 0 ? kAll : (totals & -totals) - 1;  // lanes before the nearest total
      if ((~ready & nearer) != 0) break;                                    // from here on once more
      if ((nearer >> lane & 1) != 0 || lane == __ffs(static_cast<int>(totals)) - 1) before += words[i] & kValue;
      nearest -= 32;
      found = totals != 0;
      if (found) break;
    }
    if (found) break;
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) before += __shfl_xor_sync(kAll, before, d);
  if (lane == 0) publish(places + block, kTotal | (before + own));
  return before;
}

// choose() of choose.cpp by a warp, eight symbols to a lane; `sums` holds the histogram at first. Each lane offers the windows that begin at its symbols, for widths 15, 3 and 7; then
// the second windows, eight lanes to a mode. Of equal windows the lowest wins: keys hold 255 - begin below the count.
constexpr uint32_t kSums = 272;  // samples below symbol i; those behind 256 are read and do not matter

__device__ uint32_t inside(const uint32_t* sums, uint32_t begin, uint32_t width) { return sums[begin + width] - sums[begin]; }
__device__ uint32_t key_of(uint32_t held, uint32_t begin, uint32_t last) { return begin <= last ? held << 8 | (255 - begin) : 0; }

template <Type kType>
__device__ uint32_t fullest(const uint32_t* sums, const uint32_t (&below)[8], uint32_t width, int lane) {
  uint32_t best = 0;
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    const uint32_t begin = 8 * static_cast<uint32_t>(lane) + j;
    best = max(best, key_of(sums[begin + width] - below[j], begin, kSymbols<kType> - 1 - width));
  }
  return 255 - (__reduce_max_sync(kAll, best) & 255);
}

template <Type kType, bool kBalanced>
__device__ Choice choose_by_warp(uint32_t* sums, bool balanced, int lane) {
  uint32_t below[8], own = 0;
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
    const uint4 h = reinterpret_cast<const uint4*>(sums)[2 * lane + j / 4];
    below[j] = own;
    below[j + 1] = own += h.x;
    below[j + 2] = own += h.y;
    below[j + 3] = own += h.z;
    own += h.w;
  }
  const uint32_t through = warp_scan(own), before = through - own, samples = __shfl_sync(kAll, through, 31);  // and the histogram is read
#pragma unroll
  for (int j = 0; j < 8; ++j) below[j] += before;
#pragma unroll
  for (int j = 0; j < 8; j += 4) reinterpret_cast<uint4*>(sums)[2 * lane + j / 4] = make_uint4(below[j], below[j + 1], below[j + 2], below[j + 3]);
  if (lane == 0) sums[256] = samples;
  __syncwarp();
  const uint32_t first15 = fullest<kType>(sums, below, 15, lane);
  Choice choice = {Mode::kW4, static_cast<uint8_t>(first15), 0};
  if (!kBalanced || !balanced) return choice;

  const uint32_t first3 = fullest<kType>(sums, below, 3, lane), first7 = fullest<kType>(sums, below, 7, lane);
  // Lanes 0 to 7: T22, 8 to 15: T23, 16 to 23: T33.
  const Windows w = windows_of(lane < 8 ? Mode::kT22 : lane < 16 ? Mode::kT23 : Mode::kT33);
  const uint32_t first = w.width1 == 3 ? first3 : first7, both = static_cast<uint32_t>(w.width1 + w.width2), second = static_cast<uint32_t>(w.width2);
  const uint32_t lowest = first > second ? first - second : 0, highest = min(first, kSymbols<kType> - 1 - both);
  const uint32_t begin = lowest + static_cast<uint32_t>(lane) % 8;
  uint32_t key = begin <= highest ? key_of(inside(sums, begin, both), begin, highest) : 0;
#pragma unroll
  for (int d = 1; d < 8; d *= 2) key = max(key, __shfl_xor_sync(kAll, key, d));
  // An estimate per mode in lanes 0, 8, 16 and, for W4 and W3, 24 and 25; the least, and of equals the lowest mode, wins.
  Mode mode = static_cast<Mode>(static_cast<int>(Mode::kT22) + lane / 8);
  uint32_t base = 255 - (key & 255), bits = estimated_bits(w, samples, inside(sums, first, static_cast<uint32_t>(w.width1)), key >> 8), shift = first - base;
  if (lane >= 24) {
    mode = lane == 24 ? Mode::kW4 : Mode::kW3;
    base = lane == 24 ? first15 : first7;
    const uint32_t held = inside(sums, base, lane == 24 ? 15 : 7);
    bits = estimated_bits(windows_of(mode), samples, held, held);
    shift = 0;
  }
  const bool speaks = lane % 8 == 0 || lane == 25;
  const uint32_t least = __reduce_min_sync(kAll, speaks ? bits << 3 | static_cast<uint32_t>(mode) : kAll);
  const int winner = __ffs(static_cast<int>(__ballot_sync(kAll, speaks && (bits << 3 | static_cast<uint32_t>(mode)) == least))) - 1;
  choice.mode = static_cast<Mode>(least & 7);
  choice.base = static_cast<uint8_t>(__shfl_sync(kAll, base, winner));
  choice.shift = static_cast<uint8_t>(__shfl_sync(kAll, shift, winner));
  return choice;
}

// Windows as the coder of rows uses them: in the upper byte of each half.
struct Limits {
  uint32_t minus_first, minus_base, shift;
};
__device__ Limits limits_of(const Choice& c) {
  const uint32_t base = c.base, first = base + c.shift;
  return {both_halves(0u - (first << 8)), both_halves(0u - (base << 8)), both_halves(uint32_t{c.shift} << 8)};
}

template <int kBits>
inline constexpr uint32_t kWidth = kBits == 0 ? 0 : (1u << kBits) - 1;

template <int kBits1>
__device__ Row first_codes(const Row& t, const Limits& w) {
  Row u;
#pragma unroll
  for (int i = 0; i < 4; ++i) u.word[i] = __viaddmin_u16x2(t.word[i], w.minus_first, (kWidth<kBits1> << 8) * 0x00010001u);
  return u;
}
// Right for values outside the first window. Distance from the base, escapes at the windows' end; what lies above the hole moves down by it.
template <int kBits1, int kBits2>
__device__ Row second_codes(const Row& t, const Limits& w) {
  Row c;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t d = __viaddmin_u16x2(t.word[i], w.minus_base, ((kWidth<kBits1> + kWidth<kBits2>) << 8) * 0x00010001u);
    c.word[i] = __viaddmax_s16x2(d, ((0u - (kWidth<kBits1> << 8)) & 0xFFFFu) * 0x00010001u, __vminu2(d, w.shift));
  }
  return c;
}

// A bit for each of eight codes (a byte each, codes of kBits) that is all ones.
template <int kBits>
__device__ uint32_t full_codes(uint2 codes) {
  const auto flags = [](uint32_t x) { return x & x >> 1 & (kBits > 2 ? x >> 2 : kAll) & 0x01010101u; };
  return __dp4a(flags(codes.x), 0x08040201u, __dp4a(flags(codes.y), 0x80402010u, 0u));
}

// For each mask of eight values, permute() selectors that bring the marked ones to the front, with zeros behind.
struct Selectors {
  uint32_t of[256];
};
constexpr Selectors compactions() {
  Selectors t{};
  for (uint32_t mask = 0; mask < 256; ++mask) {
    uint32_t at = 0, selector = 0x88888888u;
    for (uint32_t i = 0; i < 8; ++i)
      if ((mask >> i & 1) != 0) selector = (selector & ~(15u << (4 * at))) | i << (4 * at), ++at;
    t.of[mask] = selector;
  }
  return t;
}
__device__ const Selectors kCompactions = compactions();

// The low `bytes` bytes of x, to any address.
__device__ void put_bytes(std::byte* to, uint32_t x, int bytes) {
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (b < bytes) to[b] = static_cast<std::byte>(x >> (8 * b));
}
// A string of eight codes, to where a multiple of its bytes (of two, of four) lies.
template <int kBits>
__device__ void put_eight(std::byte* to, uint32_t string) {
  if (kBits == 4) __stcs(reinterpret_cast<uint32_t*>(to), string);
  else if (kBits == 2) __stcs(reinterpret_cast<uint16_t*>(to), static_cast<uint16_t>(string));
  else put_bytes(to, string, 3);
}
// A string into zeros in shared memory from bit `at` on. Predicated by hand: a branch costs more than what it saves.
__device__ void put_string(std::byte* to, uint32_t at, uint32_t string) {
  const uint32_t word = static_cast<uint32_t>(__cvta_generic_to_shared(to)) + at / 32 * 4;
  asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(word), "r"(string << (at % 32)) : "memory");
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p red.shared.or.b32 [%0+4], %1; }" ::"r"(word), "r"(__funnelshift_l(string, 0, at % 32)) : "memory");
}

// How many values are outside the first window, and how many outside both.
struct Counts {
  uint32_t opened, escapes;
};

// A payload in the making. Second codes are put together in shared memory, over those of the block's values that are coded already.
struct Payload {
  std::byte* to;                // its place in the frame
  std::byte* block;             // the values in shared memory
  uint32_t values;
  uint32_t first, second, raw;  // byte of the first codes, of the second, of the raw exponents
  uint32_t opened, escapes;     // so far
  uint32_t clean;               // words of the second codes that are written, or 0
};
// Where in shared memory the second codes begin: as far from a multiple of 16 as in the payload.
__device__ uint32_t second_bit(const Payload& p) { return p.second % kAlign * 8; }

// Zeros for the second codes of so many values more. They take less room than the values did, which all lanes hold in registers.
template <int kBits2>
__device__ void make_room(Payload& p, uint32_t values, int lane) {
  __syncwarp();
  const uint32_t end = (second_bit(p) + (p.opened + values) * kBits2) / 32 + 2;
#pragma unroll 1
  for (uint32_t i = p.clean + static_cast<uint32_t>(lane); i < end; i += kLanes) reinterpret_cast<uint32_t*>(p.block)[i] = 0;
  p.clean = end;
  __syncwarp();
}

__device__ void put_second_codes(const Payload& p, uint32_t bytes, int lane) {
  __syncwarp();
  const uint32_t begin = p.second % kAlign, end = begin + bytes, from = min(round_up16(begin), end), until = max(end / kAlign * kAlign, from);
  std::byte* const to = p.to + (p.second - begin);
  if (begin + static_cast<uint32_t>(lane) < from) to[begin + static_cast<uint32_t>(lane)] = p.block[begin + static_cast<uint32_t>(lane)];
  for (uint32_t i = from + static_cast<uint32_t>(lane) * kAlign; i < until; i += kLanes * kAlign) *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(p.block + i);
  if (until + static_cast<uint32_t>(lane) < end) to[until + static_cast<uint32_t>(lane)] = p.block[until + static_cast<uint32_t>(lane)];
}

// The symbols (a byte each) of the values that are marked; bit kStride * k of the marks stands for the value that nibble k of `which` names.
template <int kStride>
__device__ void put_escapes(Payload& p, uint32_t marks, uint32_t which, uint2 symbols, int lane) {
  const Share share = share_of(static_cast<uint32_t>(__popc(marks)), lane);
  for (std::byte* to = p.to + p.raw + p.escapes + share.before; marks != 0; marks &= marks - 1)
    *to++ = static_cast<std::byte>(permute(symbols.x, symbols.y, which >> (static_cast<uint32_t>(__ffs(static_cast<int>(marks)) - 1) / kStride * 4)));
  p.escapes += share.total;
}

// kRows rows that follow each other; i0 is this lane's first value in the first of them. Not kFull: one row, of whose 8 values `valid` exist.
template <Type kType, int kBits1, int kBits2, bool kTable, bool kFull, int kRows>
__device__ __forceinline__ void code_rows(Channels<kTable>& channels, const Limits& w, Payload& p, const Eight<kType> (&rows)[kRows], uint32_t i0, int valid, int lane) {
  Channels<kTable> again = channels;
  uint32_t opened[kRows], second[kRows], wild[kRows], any = 0;
  if (kBits2 != 0) make_room<kBits2>(p, kFull ? kRows * kRowValues : min(kRowValues, p.values - (i0 - 8 * static_cast<uint32_t>(lane))), lane);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + static_cast<uint32_t>(r) * kRowValues;
    const Row t = symbols_of<kType, kTable>(rows[r], channels.next()), u = first_codes<kBits1>(t, w);
    const Rest<kType> rest = rest_of<kType>(rows[r]);
    uint32_t string = join8<kBits1>(u);
    if (!kFull && valid < 8) string &= valid == 0 ? 0u : kAll >> (32 - valid * kBits1);
#pragma unroll
    for (int q = 0; q < kPlanes<kType>; ++q) {
      std::byte* const plane = p.to + static_cast<uint32_t>(q) * p.values + i;
      if (kFull) {
        __stcs(reinterpret_cast<uint2*>(plane), rest.plane[q]);
      } else {
        put_bytes(plane, rest.plane[q].x, valid);
        put_bytes(plane + 4, rest.plane[q].y, valid - 4);
      }
    }
    if constexpr (kTail<kType> != 0) {
      std::byte* const tail = p.to + kPlanes<kType> * p.values + i / 8 * kTail<kType>;
      if (kFull) put_eight<kTail<kType>>(tail, rest.tail);
      else put_bytes(tail, rest.tail, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), kTail<kType>)));
    }
    std::byte* const codes = p.to + p.first + i / 8 * kBits1;
    if (kFull) put_eight<kBits1>(codes, string);
    else put_bytes(codes, string, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), kBits1)));
    if (kBits2 == 0) {
      wild[r] = opened[r] = opened_of<kBits1>(string, kPlaces<kBits1>);
    } else {
      opened[r] = full_codes<kBits1>(upper_bytes(u)) & (kFull ? 255u : (1u << valid) - 1);
      const uint2 c = upper_bytes(second_codes<kBits1, kBits2>(t, w));
      const uint32_t selector = kCompactions.of[opened[r]];
      second[r] = join4<kBits2>(permute(c.x, c.y, selector)) | join4<kBits2>(permute(c.x, c.y, selector >> 16)) << (4 * kBits2);
      wild[r] = opened_of<kBits2>(second[r], kPlaces<kBits2>);
    }
    any |= wild[r];
  }
  if (kBits2 != 0) {
    uint32_t own[kRows], places[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = static_cast<uint32_t>(__popc(opened[r]));
    places_of<kRows>(own, p.opened, places);
#pragma unroll
    for (int r = 0; r < kRows; ++r) put_string(p.block, second_bit(p) + places[r] * kBits2, second[r]);
  }
  if (!__any_sync(kAll, any != 0)) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint2 table = again.next();
    if (!__any_sync(kAll, wild[r] != 0)) continue;
    const uint2 symbols = upper_bytes(symbols_of<kType, kTable>(rows[r], table));
    if constexpr (kBits2 == 0) put_escapes<kBits1>(p, wild[r], 0x76543210u, symbols, lane);
    else put_escapes<kBits2>(p, wild[r], kCompactions.of[opened[r]], symbols, lane);
  }
}

// A group's rows out of shared memory; i is this lane's first value in the first row.
template <Type kType>
__device__ void load_group(Eight<kType> (&rows)[kGroup], const std::byte* block, uint32_t i) {
#pragma unroll
  for (int r = 0; r < kGroup; ++r) rows[r] = load_eight<kType>(block + kBytes<kType> * (i + static_cast<uint32_t>(r) * kRowValues));
}

// Adds to 16-bit counts: of a row's values, those outside the first window, and those outside both.
template <Type kType, int kBits1, int kBits2, bool kTable>
__device__ void count_row(Channels<kTable>& channels, const Limits& w, const Eight<kType>& row, int valid, uint32_t& opened, uint32_t& escapes) {
  // A clipped distance is the limit, or less: limit + 1 away from it is 1, or nothing.
  const auto at_limit = [](uint32_t clipped, uint32_t limit) { return __viaddmax_s16x2(clipped, ((1u - (limit << 8)) & 0xFFFFu) * 0x00010001u, 0u); };
  const Row t = symbols_of<kType, kTable>(row, channels.next()), u = first_codes<kBits1>(t, w);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t exist = halves_of(i, valid);
    opened += at_limit(u.word[i], kWidth<kBits1>) & exist;
    if (kBits2 != 0) escapes += at_limit(__viaddmin_u16x2(t.word[i], w.minus_base, ((kWidth<kBits1> + kWidth<kBits2>) << 8) * 0x00010001u), kWidth<kBits1> + kWidth<kBits2>) & exist;
  }
}

// The table that the lanes read, with a period of 8 if the call has none.
struct Table {
  const uint8_t* of;
  uint32_t period;
};

template <Type kType, int kBits1, int kBits2, bool kTable>
__device__ __forceinline__ Counts count_block(const Table& table, const Choice& choice, const std::byte* block, uint32_t n, int lane) {
  const Limits w = limits_of(choice);
  const uint32_t i0 = 8 * static_cast<uint32_t>(lane), full = n / kGroupValues * kGroupValues;
  Channels<kTable> channels(table.of, table.period, i0);
  uint32_t opened = 0, escapes = 0;
#pragma unroll 1
  for (uint32_t i = i0; i < full; i += kGroupValues) {
    Eight<kType> rows[kGroup];
    load_group<kType>(rows, block, i);
#pragma unroll
    for (int r = 0; r < kGroup; ++r) count_row<kType, kBits1, kBits2, kTable>(channels, w, rows[r], 8, opened, escapes);
  }
#pragma unroll 1
  for (uint32_t i = i0 + full; i < n; i += kRowValues)
    count_row<kType, kBits1, kBits2, kTable>(channels, w, load_eight<kType>(block + kBytes<kType> * i), clamp8(static_cast<int>(n - i)), opened, escapes);
  __syncwarp();
  const auto total = [](uint32_t x) { return __reduce_add_sync(kAll, (x & 0xFFFFu) + (x >> 16)); };
  opened = total(opened);
  return {opened, kBits2 == 0 ? opened : total(escapes)};
}

template <Type kType, int kBits1, int kBits2, bool kTable>
__device__ __forceinline__ void code_block(const Table& table, const Choice& choice, Payload p, int lane) {
  const Limits w = limits_of(choice);
  const uint32_t n = p.values, i0 = 8 * static_cast<uint32_t>(lane), full = parts_are_aligned<kType>(n) ? n / kGroupValues * kGroupValues : 0;
  Channels<kTable> channels(table.of, table.period, i0);
#pragma unroll 1
  for (uint32_t i = 0; i < full; i += kGroupValues) {
    Eight<kType> rows[kGroup];
    load_group<kType>(rows, p.block, i + i0);
    code_rows<kType, kBits1, kBits2, kTable, true, kGroup>(channels, w, p, rows, i + i0, 8, lane);
  }
#pragma unroll 1
  for (uint32_t i = full; i < n; i += kRowValues) {
    const int valid = clamp8(static_cast<int>(n) - static_cast<int>(i + i0));
    const Eight<kType> rows[1] = {load_part<kType>(p.block + kBytes<kType> * (i + i0), valid)};
    code_rows<kType, kBits1, kBits2, kTable, false, 1>(channels, w, p, rows, i + i0, valid, lane);
  }
  if (kBits2 != 0) put_second_codes(p, string_bytes(p.opened, kBits2), lane);
}

__device__ void write_header(const EncodeArgs& a, uint64_t payload_bytes) {
  uint64_t head[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) head[i] = i == 3 ? payload_bytes : a.head[i];
  auto* to = reinterpret_cast<uint64_t*>(a.frame);
#pragma unroll
  for (int i = 0; i < 5; ++i) to[i] = head[i];
  to[5] = xxh3::of_short(reinterpret_cast<const std::byte*>(head), 40);
  for (uint64_t at = a.directory + uint64_t{kEntryBytes} * a.from.blocks; at < a.payloads; ++at) a.frame[at] = std::byte{0};
  if (a.frame_bytes != nullptr) *a.frame_bytes = a.payloads + payload_bytes;
}

// Counts the symbols of the sampled rows.
template <Type kType, bool kTable>
__device__ void sample(const Table& table, const std::byte* block, uint32_t n, uint32_t* histogram, int lane) {
  const auto row_at = [](uint32_t k) { return 8 * k + k % 8; };  // row_is_sampled()
#pragma unroll 1
  for (uint32_t k = 0; row_at(k) * kRowValues < n; ++k) {
    const uint32_t i = row_at(k) * kRowValues + 8 * static_cast<uint32_t>(lane);
    if (i >= n) continue;
    const Row t = symbols_of<kType, kTable>(load_eight<kType>(block + kBytes<kType> * i), Channels<kTable>(table.of, table.period, i).next());
    const int valid = clamp8(static_cast<int>(n - i));
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < valid) atomicAdd(&histogram[t.word[e / 2] >> (e % 2 == 0 ? 8 : 24) & 255], 1u);
  }
}

// Whether all values equal the first. For most blocks 512 bytes tell.
template <Type kType>
__device__ bool all_equal(const std::byte* block, uint32_t bytes, int lane) {
  uint32_t leader = *reinterpret_cast<const uint32_t*>(block);
  if (kBytes<kType> == 2) leader = both_halves(leader);
  if (kBytes<kType> == 1) leader = (leader & 255) * 0x01010101u;
  const uint32_t units = bytes / kAlign, own = static_cast<uint32_t>(lane);
#pragma unroll 1
  for (uint32_t i = 0; i < units; i += kLanes) {
    uint32_t differs = 0;
    if (i + own < units) {
      const uint4 x = reinterpret_cast<const uint4*>(block)[i + own];
      differs = (x.x ^ leader) | (x.y ^ leader) | (x.z ^ leader) | (x.w ^ leader);
    }
    if (__any_sync(kAll, differs != 0)) return false;
  }
  return !__any_sync(kAll, own < bytes % kAlign && block[units * kAlign + own] != static_cast<std::byte>(leader >> (8 * (own % 4))));
}

constexpr int kEncodeCtas = 12;  // of one warp, on a multiprocessor: as many as have room for 16 KiB each
// Shared memory for a histogram and a block.
__host__ __device__ constexpr uint32_t shared_bytes(uint32_t block_bytes) { return 4 * kSums + round_up16(block_bytes) + kAlign; }

// Calls work.template operator()<bits1, bits2>() for the mode's codes.
template <bool kBalanced, class Work>
__device__ __forceinline__ void by_mode(Mode mode, const Work& work) {
  if (!kBalanced || mode == Mode::kW4) work.template operator()<4, 0>();
  else if (mode == Mode::kT23) work.template operator()<2, 3>();
  else if (mode == Mode::kT33) work.template operator()<3, 3>();
  else if (mode == Mode::kT22) work.template operator()<2, 2>();
  else work.template operator()<3, 0>();
}

// kTable: serves calls without a table too. kBalanced: serves level fast too.
template <Type kType, bool kTable, bool kBalanced>
__global__ void __launch_bounds__(kLanes, kEncodeCtas) encode_blocks(const EncodeArgs a) {
  extern __shared__ __align__(16) std::byte memory[];
  auto* const histogram = reinterpret_cast<uint32_t*>(memory);
  std::byte* const values = memory + 4 * kSums;
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t block = blockIdx.x, own = threadIdx.x;
  const uint32_t n = a.valid != nullptr ? a.valid[block] : block + 1 == a.from.blocks ? a.last_values : a.from.block_values, bytes = n * kBytes<kType>;
  const auto* raw = reinterpret_cast<const std::byte*>(a.from.base + (a.from.page != nullptr ? a.from.page[block] : block) * a.from.stride);
  if (lane == 0 && a.from.page == nullptr && a.from.blocks - block > kAhead + 1) prefetch(raw + kAhead * a.from.stride, a.from.block_values * kBytes<kType>);

  fetch(values, raw, bytes / kAlign, lane);
  if (own < bytes % kAlign) values[bytes / kAlign * kAlign + own] = raw[bytes / kAlign * kAlign + own];
#pragma unroll
  for (int i = 0; i < 2; ++i) reinterpret_cast<uint4*>(histogram)[2 * lane + i] = make_uint4(0, 0, 0, 0);
  fetched();

  const Table table = !kTable || a.period != 0 ? Table{a.table, a.period} : Table{reinterpret_cast<const uint8_t*>(&kNoTable), 8};
  Choice choice = {Mode::kConst, 0, 0};
  Counts counts = {0, 0};
  uint32_t first = 0, second = 0, at3 = 0, exact = kBytes<kType>;  // bytes of the payload, as in Payload; before padding
  const uint32_t raw_size = round_up16(bytes);
  const bool constant = all_equal<kType>(values, bytes, lane);
  if constexpr (kExponentBits<kType> != 0) {
    if (!constant) {
      sample<kType, kTable>(table, values, n, histogram, lane);
      __syncwarp();
      choice = choose_by_warp<kType, kBalanced>(histogram, a.balanced, lane);
      by_mode<kBalanced>(choice.mode, [&]<int kBits1, int kBits2>() {
        counts = count_block<kType, kBits1, kBits2, kTable>(table, choice, values, n, lane);
        first = rest_size<kType>(n);
        second = first + string_bytes(n, kBits1);
        at3 = second + string_bytes(counts.opened, kBits2);
      });
      exact = at3 + counts.escapes;
    }
  }
  uint32_t size = round_up16(exact);
  if (!constant && (kExponentBits<kType> == 0 || size >= raw_size)) choice = {Mode::kRaw, 0, 0}, size = raw_size, exact = bytes, counts.escapes = 0;
  if (lane == 0) publish(a.places + block, (block == 0 ? kTotal : kOwn) | size / kAlign);
  const uint64_t digest = a.hashes ? hash_bytes(values, bytes, lane) : 0;
  const uint64_t place = block == 0 ? 0 : look_back(a.places, block, size / kAlign, lane);

  std::byte* const payload = a.frame + a.payloads + place * kAlign;
  if (has_windows(choice.mode)) {
    if constexpr (kExponentBits<kType> != 0)
      by_mode<kBalanced>(choice.mode, [&]<int kBits1, int kBits2>() { code_block<kType, kBits1, kBits2, kTable>(table, choice, {payload, values, n, first, second, at3, 0, 0, 0}, lane); });
  } else {
    for (uint32_t i = own; i < exact / kAlign; i += kLanes) __stcs(reinterpret_cast<uint4*>(payload) + i, reinterpret_cast<const uint4*>(values)[i]);
    const uint32_t whole = exact / kAlign * kAlign;
    if (whole + own < exact) payload[whole + own] = values[whole + own];
  }
  if (exact + own < size) payload[exact + own] = std::byte{0};
  if (lane == 0) {
    auto* const entry = reinterpret_cast<uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
    entry[0] = static_cast<uint32_t>(place);
    entry[1] = size / kAlign | (n - 1) << 16;
    entry[2] = counts.escapes | static_cast<uint32_t>(choice.mode) << 16 | static_cast<uint32_t>(choice.shift) << 20 | static_cast<uint32_t>(choice.base) << 24;
    entry[3] = static_cast<uint32_t>(digest);
    entry[4] = static_cast<uint32_t>(digest >> 32);
    if (block + 1 == a.from.blocks) write_header(a, (place + size / kAlign) * kAlign);
  }
  if (block == 0)
    for (uint32_t i = own; i < round_up16(a.period); i += kLanes) a.frame[kHeaderBytes + i] = static_cast<std::byte>(i < a.period ? a.table[i] : 0);
}

__global__ void encode_empty(const EncodeArgs a) { write_header(a, 0); }

template <Type kType, bool kTable, bool kBalanced>
cudaError_t launch(const EncodeArgs& a, cudaStream_t stream) {
  if (a.from.blocks == 0) {
    encode_empty<<<1, 1, 0, stream>>>(a);
    return cudaGetLastError();
  }
  return launch_ctas(encode_blocks<kType, kTable, kBalanced>, a, 1, a.from.blocks, shared_bytes(kBytes<kType> * a.from.block_values), stream);
}

}  // namespace

template <Type kType>
const char* launch_encode(const EncodeArgs& a, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.places, 0, sizeof(*a.places) * a.from.blocks, stream); error != cudaSuccess) return error_name(error);
  // BF16 has kernels for what is usual; the other types have one each.
  if constexpr (kType == Type::kBF16) {
    if (a.period == 0) return error_name(a.balanced ? launch<kType, false, true>(a, stream) : launch<kType, false, false>(a, stream));
    if (!a.balanced) return error_name(launch<kType, true, false>(a, stream));
  }
  constexpr bool kWindows = kExponentBits<kType> != 0;
  return error_name(launch<kType, kWindows, kWindows>(a, stream));
}

}  // namespace zeroulp::codec::cuda
