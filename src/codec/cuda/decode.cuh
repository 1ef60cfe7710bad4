// A CTA per block: its entry is checked while its payload comes to shared memory, codes are counted to find each lane's place, rows go out as
// coalesced 16-byte stores, and their hash is compared.
#pragma once

#include "codec/cuda/hash.cuh"
#include "codec/cuda/values.cuh"

namespace zeroulp::codec::cuda {
namespace {

// Entry of format.h as plain memory, and what else decoding needs to know.
struct Entry {
  uint32_t offset, size, values, escapes;
  Mode mode;
  uint8_t base, shift;
  uint64_t hash;
  bool hashed;
  std::byte* out;  // the page
};

__device__ void report(const DecodeArgs& a, uint32_t block, Fault fault) {
  atomicMax(a.status, static_cast<unsigned long long>(~block) << 32 | static_cast<uint32_t>(fault));
}

// What Frame::parse checks, as far as it concerns this block.
template <Type kType>
__device__ Fault check_entry(const DecodeArgs& a, uint32_t block, Entry& e) {
  if (a.capacity < a.payloads + uint64_t{kAlign}) return Fault::kTruncated;
  // All loads before the first branch: one trip to memory.
  const auto* from = reinterpret_cast<const uint64_t*>(a.frame);
  uint64_t head[5];
#pragma unroll
  for (int i = 0; i < 5; ++i) head[i] = from[i];
  const bool last = block + 1 == a.to.blocks;
  const auto* directory = reinterpret_cast<const uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
  uint32_t words[6];
#pragma unroll
  for (int i = 0; i < 6; ++i) words[i] = directory[i == 5 && last ? 0 : i];
  const uint32_t page = a.to.page != nullptr ? a.to.page[block] : block;
  const uint64_t first = head[0], hashes = first >> 48 & kFlagHashes;
  if (static_cast<uint32_t>(first) != kMagic) return Fault::kBadMagic;
  if ((first >> 32 & 255) != kVersion) return Fault::kBadVersion;
  if ((first | uint64_t{kFlagHashes} << 48) != a.head[0] || head[1] != a.head[1] || head[2] != a.raw_bytes || static_cast<uint32_t>(head[4]) != a.period)
    return Fault::kGeometry;
  const uint64_t payload_bytes = head[3];
  if (payload_bytes % kAlign != 0 || payload_bytes > kPayloadLimit) return Fault::kHeader;
  if (payload_bytes > a.capacity - a.payloads) return Fault::kTruncated;
  e.hashed = hashes != 0;

  e.offset = words[0];
  e.size = (words[1] & 0xFFFFu) * kAlign;
  e.values = (words[1] >> 16) + 1;
  e.escapes = words[2] & 0xFFFFu;
  const uint32_t mode = words[2] >> 16 & 255;
  e.base = static_cast<uint8_t>(words[2] >> 24);
  e.shift = static_cast<uint8_t>(mode >> 4);
  e.hash = words[3] | uint64_t{words[4]} << 32;
  if ((mode & 15) >= static_cast<uint32_t>(Mode::kRans)) return Fault::kMode;
  if ((mode & 128) != 0) return Fault::kParameters;
  e.mode = static_cast<Mode>(mode & 15);
  const Windows w = windows_of(e.mode);
  if (has_windows(e.mode) && kExponentBits<kType> == 0) return Fault::kMode;
  if (has_windows(e.mode) ? e.shift > w.width2 || e.base + w.width1 + w.width2 >= static_cast<int>(kSymbols<kType>) : e.base != 0 || e.shift != 0 || e.escapes != 0) return Fault::kParameters;
  if (hashes == 0 && e.hash != 0) return Fault::kParameters;
  const uint64_t left = a.raw_bytes / kBytes<kType> - uint64_t{block} * a.to.block_values;
  if (e.values > a.to.block_values || (!a.ragged && e.values != (last ? left : a.to.block_values))) return Fault::kCount;
  const uint64_t begin = uint64_t{e.offset} * kAlign, end = begin + e.size;
  if (end > payload_bytes || (block == 0 && begin != 0) || end != (last ? payload_bytes : uint64_t{words[5]} * kAlign)) return Fault::kPlace;
  const uint32_t raw_size = round_up16(kBytes<kType> * e.values);
  if (e.size == 0 || e.size > raw_size) return Fault::kSize;
  if (has_windows(e.mode) && rest_size<kType>(e.values) + string_bytes(e.values, w.bits1) > e.size) return Fault::kSize;
  if (e.mode == Mode::kRaw && e.size != raw_size) return Fault::kSize;
  if (e.mode == Mode::kConst && e.size != kAlign) return Fault::kSize;
  if (page >= a.page_count) return Fault::kGeometry;
  e.out = reinterpret_cast<std::byte*>(a.to.base + page * a.to.stride);
  return Fault::kNone;
}

// What belongs to the frame as a whole; the warp of the first block.
__device__ Fault check_frame(const DecodeArgs& a, int lane) {
  const auto* head = reinterpret_cast<const uint64_t*>(a.frame);
  if (hash_memory(a.frame, 40, lane) != head[5]) return Fault::kHeaderHash;
  const uint32_t check = static_cast<uint32_t>(head[4] >> 32);
  if (a.period == 0 ? check != 0 : static_cast<uint32_t>(hash_memory(a.frame + kHeaderBytes, a.period, lane)) != check) return Fault::kTable;
  bool clean = true;
  for (uint64_t at = kHeaderBytes + a.period + lane; at < a.directory; at += 32) clean = clean && a.frame[at] == std::byte{0};
  if (__any_sync(kAll, !clean)) return Fault::kTable;
  for (uint64_t at = a.directory + uint64_t{kEntryBytes} * a.to.blocks + lane; at < a.payloads; at += 32) clean = clean && a.frame[at] == std::byte{0};
  return __any_sync(kAll, !clean) ? Fault::kPadding : Fault::kNone;
}

constexpr int kWarps = 2;         // of a CTA
constexpr int kDecodeCtas = 12;  // on a multiprocessor: as many as have room for 16 KiB each, and registers

// The rows of a block that a warp works on: groups of rows from `begin` to `full`, single rows from there to `end`. The warps share the groups; the last one has the rest.
struct Part {
  uint32_t begin, full, end;
};
__device__ Part part_of(uint32_t n, uint32_t groups, int warp) {
  const auto first = [&](int w) { return groups * static_cast<uint32_t>(w) / kWarps * kGroupValues; };
  const uint32_t full = first(warp + 1);
  return {first(warp), full, warp + 1 == kWarps ? n : full};
}

// Begins to bring the payload to shared memory; only bounds are looked at. By one thread.
template <Type kType>
__device__ void fetch_payload(const DecodeArgs& a, uint32_t block, std::byte* to, uint64_t* done) {
  const auto* const entry = reinterpret_cast<const uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
  uint64_t begin = 0;
  uint32_t units = 0;
  if (a.capacity >= a.payloads + uint64_t{kAlign}) {
    begin = a.payloads + uint64_t{entry[0]} * kAlign;
    units = entry[1] & 0xFFFFu;
    if (units > round_up16(a.to.block_values * kBytes<kType>) / kAlign || begin + uint64_t{units} * kAlign > a.capacity) units = 0;
  }
  // Payloads follow each other, so that what lies that far ahead is what is wanted next.
  if (begin + uint64_t{kAhead + 1} * units * kAlign <= a.capacity) prefetch(a.frame + begin + uint64_t{kAhead} * units * kAlign, units * kAlign);
  fetch_bulk(to, a.frame + begin, units * kAlign, done);
}

__device__ uint32_t get_bytes(const std::byte* from, int bytes) {
  uint32_t x = 0;
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (b < bytes) x |= static_cast<uint32_t>(from[b]) << (8 * b);
  return x;
}
// `bits` bits, at most 24, from bit `at` of the payload on. There is always a word more to read.
__device__ uint32_t window_at(const std::byte* payload, uint32_t at, uint32_t bits) {
  const auto* words = reinterpret_cast<const uint32_t*>(payload) + at / 32;
  return __funnelshift_r(words[0], words[1], at % 32) & ((1u << bits) - 1);
}

__device__ uint32_t add_bytes(uint32_t a, uint32_t b) { return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u); }

// For four first codes of 2 bits: a permute() selector that takes code c below 3 from byte c of its first operand, and what code 3 opens, in
// order, from its second; in byte 2 how many are opened, in byte 3 four times that.
struct Mixes {
  uint32_t of[256];
};
constexpr Mixes mixes() {
  Mixes t{};
  for (uint32_t codes = 0; codes < 256; ++codes) {
    uint32_t selector = 0, opened = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t code = codes >> (2 * i) & 3;
      selector |= (code < 3 ? code : 4 + opened++) << (4 * i);
    }
    t.of[codes] = selector | opened << 16 | 4 * opened << 24;
  }
  return t;
}
__device__ const Mixes kMixes = mixes();

// Symbols by code, a byte each, for permute().
struct Symbols {
  uint2 first, second;
};
__device__ Symbols symbols_of(const Entry& e, Windows w) {
  const uint32_t base = e.base * 0x01010101u, first = base + e.shift * 0x01010101u;
  const auto second = [&](uint32_t codes, uint32_t from) {  // above the hole they move up by its width
    uint32_t moved = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) moved |= (from + i >= e.shift ? static_cast<uint32_t>(w.width1) : 0u) << (8 * i);
    return base + codes + moved;
  };
  return {{first + 0x03020100u, first + 0x07060504u}, {second(0x03020100u, 0), second(0x07060504u, 4)}};
}

__device__ void set_symbol(uint2& symbols, uint32_t i, uint32_t symbol) {
  const uint32_t selector = 0x3210u ^ ((i % 4 ^ 4u) << (4 * (i % 4)));
  if (i < 4) symbols.x = permute(symbols.x, symbol, selector);
  else symbols.y = permute(symbols.y, symbol, selector);
}

// A payload being decoded: where its parts begin, and what has been met so far.
struct Progress {
  const std::byte* payload;
  uint32_t values;
  uint32_t first, second, raw;  // byte of the first codes, bit of the second, byte of the raw exponents
  uint32_t opened, escapes;
  Fault fault;
};

// The string of eight codes of kBits, or of the first `valid`, that begins at `at`. kFull: at a multiple of its bytes (of two, of four).
template <int kBits, bool kFull>
__device__ uint32_t string_at(const std::byte* at, int valid) {
  if (!kFull) return get_bytes(at, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), kBits)));
  if (kBits == 4) return *reinterpret_cast<const uint32_t*>(at);
  if (kBits == 2) return *reinterpret_cast<const uint16_t*>(at);
  return get_bytes(at, 3);
}
// Whether the bits behind `valid` codes, which end a string, are not 0.
template <int kBits>
__device__ bool ends_unclean(uint32_t string, int valid) {
  return valid < 8 && valid > 0 && string >> (valid * kBits) != 0;
}

// kRows rows that follow each other, to values; see encode.cuh.
template <Type kType, int kBits1, int kBits2, bool kTable, bool kFull, int kRows>
__device__ __forceinline__ void decode_rows(Channels<kTable>& channels, const Entry& e, const Symbols& known, Progress& p, Eight<kType> (&rows)[kRows], uint32_t i0, int valid, int lane) {
  constexpr bool kMixed = kBits1 == 2;
  uint32_t string[kRows], own[kRows], low[kRows], high[kRows], codes2[kRows], any = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    string[r] = string_at<kBits1, kFull>(p.payload + p.first + (i0 + static_cast<uint32_t>(r) * kRowValues) / 8 * kBits1, valid);
    if (!kFull && ends_unclean<kBits1>(string[r], valid)) p.fault = Fault::kPadding;
    if (kMixed) {
      low[r] = kMixes.of[string[r] & 255], high[r] = kMixes.of[string[r] >> 8];
      own[r] = (low[r] + high[r]) >> 16 & 255;
    } else if (kBits2 != 0) {
      own[r] = static_cast<uint32_t>(__popc(opened_of<kBits1>(string[r], kPlaces<kBits1>)));
    } else {
      any |= opened_of<kBits1>(string[r], kPlaces<kBits1>);
    }
  }
  if (kBits2 != 0) {
    uint32_t places[kRows];
    places_of<kRows>(own, p.opened, places);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t window = window_at(p.payload, p.second + places[r] * kBits2, own[r] * kBits2);
      codes2[r] = nibbles<kBits2>(window);
      any |= opened_of<kBits2>(window, kPlaces<kBits2>);
    }
  }
  uint2 symbols[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (kMixed) {
      symbols[r].x = permute(known.first.x, permute(known.second.x, known.second.y, codes2[r]), low[r]);
      symbols[r].y = permute(known.first.x, permute(known.second.x, known.second.y, codes2[r] >> (low[r] >> 24)), high[r]);
    } else if (kBits1 == 4) {
      const uint32_t begin = known.first.x - 0x03020100u, even = (string[r] & 0x0F0F0F0Fu) + begin, odd = (string[r] >> 4 & 0x0F0F0F0Fu) + begin;
      symbols[r] = make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
    } else {
      const uint32_t codes = nibbles<3>(string[r]);
      symbols[r] = make_uint2(permute(known.first.x, known.first.y, codes), permute(known.first.x, known.first.y, codes >> 16));
      if (kBits2 != 0) {
        uint32_t next = codes2[r];
        for (uint32_t m = opened_of<3>(string[r], kPlaces<3>); m != 0; m &= m - 1, next >>= 4)
          set_symbol(symbols[r], static_cast<uint32_t>(__ffs(static_cast<int>(m)) - 1) / 3, permute(known.second.x, known.second.y, next & 7));
      }
    }
  }
  if (__any_sync(kAll, any != 0)) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint32_t opened = opened_of<kBits1>(string[r], kPlaces<kBits1>);
      const uint32_t carry = kBits2 == 3 ? 0x11111111u : 0x55555555u;
      const uint32_t marks = kBits2 == 0 ? opened : (codes2[r] + carry) & 0x88888888u;
      if (!__any_sync(kAll, marks != 0)) continue;
      const Share share = share_of(static_cast<uint32_t>(__popc(marks)), lane);
      if (p.escapes + share.total > e.escapes) {
        p.fault = Fault::kEscapes;
        break;
      }
      const std::byte* from = p.payload + p.raw + p.escapes + share.before;
      uint32_t wild = marks;
      for (uint32_t m = opened; wild != 0; m &= m - 1) {
        if (kBits2 == 0 || (wild & 8) != 0) {
          const uint32_t symbol = static_cast<uint32_t>(*from++);
          if (kSymbols<kType> < 256 && symbol >= kSymbols<kType>) p.fault = Fault::kSymbol;
          set_symbol(symbols[r], static_cast<uint32_t>(__ffs(static_cast<int>(m)) - 1) / kBits1, symbol);
        }
        wild = kBits2 == 0 ? wild & (wild - 1) : wild >> 4;
      }
      p.escapes += share.total;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + static_cast<uint32_t>(r) * kRowValues;
    Rest<kType> rest;
#pragma unroll
    for (int q = 0; q < kPlanes<kType>; ++q) {
      const std::byte* const from = p.payload + static_cast<uint32_t>(q) * p.values + i;
      rest.plane[q] = kFull ? *reinterpret_cast<const uint2*>(from) : make_uint2(get_bytes(from, valid), get_bytes(from + 4, valid - 4));
    }
    if constexpr (kTail<kType> != 0) {
      rest.tail = string_at<kTail<kType>, kFull>(p.payload + kPlanes<kType> * p.values + i / 8 * kTail<kType>, valid);
      if (!kFull && ends_unclean<kTail<kType>>(rest.tail, valid)) p.fault = Fault::kPadding;
    }
    if (kTable) {
      const uint2 t = channels.next();
      symbols[r] = make_uint2(add_bytes(symbols[r].x, t.x), add_bytes(symbols[r].y, t.y));
      if constexpr (kSymbols<kType> < 256) symbols[r].x &= (kSymbols<kType> - 1) * 0x01010101u, symbols[r].y &= (kSymbols<kType> - 1) * 0x01010101u;
    }
    rows[r] = merge<kType>(rest, symbols[r]);
  }
}

// How many of a part's first codes are all ones.
template <int kBits1>
__device__ uint32_t count_opened(const std::byte* codes, const Part& part, int lane) {
  uint32_t opened = 0;
  const uint32_t own = static_cast<uint32_t>(lane);
  if (kBits1 != 3 && (reinterpret_cast<uint64_t>(codes) | part.end) % 16 == 0) {
    constexpr uint32_t kEach = 32 / kBits1;
    for (uint32_t i = part.begin / kEach + own; i < part.end / kEach; i += kLanes)
      opened += static_cast<uint32_t>(__popc(opened_of<kBits1>(reinterpret_cast<const uint32_t*>(codes)[i], kBits1 == 2 ? 0x55555555u : 0x11111111u)));
  } else {
    for (uint32_t i = part.begin + 8 * own; i < part.end; i += kRowValues)
      opened += static_cast<uint32_t>(__popc(opened_of<kBits1>(string_at<kBits1, false>(codes + i / 8 * kBits1, clamp8(static_cast<int>(part.end - i))), kPlaces<kBits1>)));
  }
  return __reduce_add_sync(kAll, opened);
}
// How many of `n` second codes from a bit on are all ones.
template <int kBits2>
__device__ uint32_t count_escapes(const std::byte* payload, uint32_t bit, uint32_t n, int lane) {
  uint32_t escapes = 0;
  for (uint32_t i = 8 * static_cast<uint32_t>(lane); i < n; i += kRowValues)
    escapes += static_cast<uint32_t>(__popc(opened_of<kBits2>(window_at(payload, bit + i * kBits2, min(8u, n - i) * kBits2), kPlaces<kBits2>)));
  return __reduce_add_sync(kAll, escapes);
}

// What the warps of a CTA tell each other.
struct Shared {
  Entry entry;
  Fault fault;
  uint32_t opened[kWarps], escapes[kWarps];
};

// Of values all warps have counted in their parts: those before this one's, and all.
__device__ Share sum_up(uint32_t (&counts)[kWarps], uint32_t own, int warp, int lane) {
  if (lane == 0) counts[warp] = own;
  __syncthreads();
  Share s = {0, 0};
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) s.before = s.total;
    s.total += counts[w];
  }
  return s;
}

// Values of 2 bytes are hashed while they are in registers.
template <Type kType>
inline constexpr bool kHashesRows = kBytes<kType> == 2;

// A part of a block with windows: writes its values. `exact` is the payload's bytes before the padding. With `hashed`, the first warp's part
// is hashed; the other warps leave the sums of their KiBs in the payload, where the rest of their values was, for add_sums(). All warps
// return together what none but all can tell.
template <Type kType, int kBits1, int kBits2, bool kTable>
__device__ __forceinline__ Fault decode_part(const DecodeArgs& a, const Entry& e, std::byte* payload, uint32_t& exact, bool hashed, WarpHash& hash, Shared& shared, int warp, int lane) {
  const uint32_t n = e.values, i0 = 8 * static_cast<uint32_t>(lane), first = rest_size<kType>(n);
  const Symbols known = symbols_of(e, windows_of(kBits1 == 4 ? Mode::kW4 : kBits1 == 2 ? (kBits2 == 2 ? Mode::kT22 : Mode::kT23) : kBits2 == 0 ? Mode::kW3 : Mode::kT33));
  const Part part = part_of(n, parts_are_aligned<kType>(n) ? n / kGroupValues : 0, warp);
  Progress p = {payload, n, first, 8 * (first + string_bytes(n, kBits1)), 0, 0, 0, Fault::kNone};
  uint32_t opened = e.escapes;
  if (kBits2 != 0) {
    const uint32_t own = count_opened<kBits1>(payload + first, part, lane);
    const Share both = sum_up(shared.opened, own, warp, lane);
    p.opened = both.before;
    opened = both.total;
  }
  p.raw = p.second / 8 + string_bytes(opened, kBits2);
  exact = p.raw + e.escapes;
  if (round_up16(exact) != e.size) return Fault::kSize;
  if (kBits2 != 0 && opened * kBits2 % 8 != 0 && static_cast<uint32_t>(payload[p.raw - 1]) >> (opened * kBits2 % 8) != 0) return Fault::kPadding;
  uint32_t escapes = 0;  // of the last warp they are not asked for
  if (warp + 1 < kWarps) escapes = kBits2 == 0 ? count_opened<kBits1>(payload + first, part, lane) : count_escapes<kBits2>(payload, p.second + p.opened * kBits2, shared.opened[warp], lane);
  const Share all = sum_up(shared.escapes, escapes, warp, lane);
  p.escapes = all.before;
  if (all.total > e.escapes) return Fault::kEscapes;

  Channels<kTable> channels(a.period != 0 ? reinterpret_cast<const uint8_t*>(a.frame) + kHeaderBytes : reinterpret_cast<const uint8_t*>(&kNoTable), a.period != 0 ? a.period : 8, part.begin + i0);
#pragma unroll 1
  for (uint32_t i = part.begin; i < part.full && p.fault == Fault::kNone; i += kGroupValues) {
    Eight<kType> rows[kGroup];
    decode_rows<kType, kBits1, kBits2, kTable, true, kGroup>(channels, e, known, p, rows, i + i0, 8, lane);
    if (kSymbols<kType> < 256 && __any_sync(kAll, p.fault != Fault::kNone) && p.fault == Fault::kNone) p.fault = Fault::kSymbol;
#pragma unroll
    for (int r = 0; r < kGroup; ++r) store_eight<kType>(rows[r], e.out + kBytes<kType> * (i + i0 + static_cast<uint32_t>(r) * kRowValues), 8);
    if constexpr (kHashesRows<kType>) {
      if (hashed) {
        const auto unit = [&](int r) { return make_uint4(rows[r].word[0], rows[r].word[1], rows[r].word[2], rows[r].word[3]); };
        const uint64_t sum0 = hash.sum_of(unit(0), unit(1));
        if (i + kGroupValues == n) hash.expect_last();
        const uint64_t sum1 = hash.sum_of(unit(2), unit(3));
        if (warp == 0) {
          hash.add(sum0);
          hash.add(sum1);
        } else if (lane % 16 < 4) {  // all lanes have met since they read their rest
          auto* const sums = reinterpret_cast<uint64_t*>(payload + i);
          sums[WarpHash::accumulator(lane)] = sum0;
          sums[8 + WarpHash::accumulator(lane)] = sum1;
        }
      }
    }
  }
#pragma unroll 1
  for (uint32_t i = part.full; i < part.end && p.fault == Fault::kNone; i += kRowValues) {
    const int valid = clamp8(static_cast<int>(n) - static_cast<int>(i + i0));
    Eight<kType> rows[1];
    decode_rows<kType, kBits1, kBits2, kTable, false, 1>(channels, e, known, p, rows, i + i0, valid, lane);
    if (__any_sync(kAll, p.fault != Fault::kNone) && p.fault == Fault::kNone) p.fault = Fault::kPadding;
    store_eight<kType>(rows[0], e.out + kBytes<kType> * (i + i0), valid);
  }
  if (p.fault == Fault::kNone && warp + 1 == kWarps && p.escapes != e.escapes) return Fault::kEscapes;
  return p.fault;
}

// By the first warp, when the others are done: their part of the hash.
__device__ void add_sums(WarpHash& hash, const std::byte* payload, uint32_t n, int lane) {
  for (uint32_t i = part_of(n, n / kGroupValues, 0).full; i < n; i += kGroupValues) {
    const auto* const sums = reinterpret_cast<const uint64_t*>(payload + i);
    hash.add(sums[WarpHash::accumulator(lane)]);
    hash.add(sums[8 + WarpHash::accumulator(lane)]);
  }
}

template <Type kType, bool kTable>
__device__ __forceinline__ Fault decode_by_mode(const DecodeArgs& a, const Entry& e, std::byte* payload, uint32_t& exact, bool hashed, WarpHash& hash, Shared& shared, int warp, int lane) {
  const auto decode = [&]<int kBits1, int kBits2>() { return decode_part<kType, kBits1, kBits2, kTable>(a, e, payload, exact, hashed, hash, shared, warp, lane); };
  switch (e.mode) {
    case Mode::kW4: return decode.template operator()<4, 0>();
    case Mode::kT23: return decode.template operator()<2, 3>();
    case Mode::kT33: return decode.template operator()<3, 3>();
    case Mode::kT22: return decode.template operator()<2, 2>();
    default: return decode.template operator()<3, 0>();
  }
}

// RAW and CONST; all threads.
template <Type kType>
__device__ void copy_values(const Entry& e, const std::byte* payload) {
  Eight<kType> constant;
  uint32_t value = *reinterpret_cast<const uint32_t*>(payload);
  if (kBytes<kType> == 2) value = both_halves(value);
  if (kBytes<kType> == 1) value = (value & 255) * 0x01010101u;
#pragma unroll
  for (uint32_t i = 0; i < 2 * kBytes<kType>; ++i) constant.word[i] = value;
  for (uint32_t i = 8 * threadIdx.x; i < e.values; i += 8 * kWarps * kLanes)
    store_eight<kType>(e.mode == Mode::kRaw ? load_eight<kType>(payload + kBytes<kType> * i) : constant, e.out + kBytes<kType> * i, clamp8(static_cast<int>(e.values - i)));
}

// kTable: serves frames without a table too.
template <Type kType, bool kTable>
__global__ void __launch_bounds__(kLanes* kWarps, kDecodeCtas) decode_blocks(const DecodeArgs a) {
  extern __shared__ __align__(16) std::byte payload[];
  __shared__ Shared shared;
  __shared__ uint64_t fetched_all;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const uint32_t block = blockIdx.x, t = threadIdx.x;
  if (t == 0) fetch_payload<kType>(a, block, payload, &fetched_all);
  if (warp == 0) {
    Entry e;
    Fault fault = check_entry<kType>(a, block, e);
    if (block == 0 && fault == Fault::kNone) fault = check_frame(a, lane);
    if (lane == 0) shared.entry = e, shared.fault = fault;
  }
  __syncthreads();
  wait_bulk(&fetched_all);
  const Entry e = shared.entry;
  Fault fault = shared.fault;
  if (fault != Fault::kNone) {
    if (t == 0) report(a, block, fault);
    return;
  }

  const uint32_t n = e.values, bytes = n * kBytes<kType>;
  const bool windows = has_windows(e.mode);
  const bool hashed = kHashesRows<kType> && e.hashed && windows && n % kGroupValues == 0;  // by the decoder of rows
  uint32_t exact = e.mode == Mode::kConst ? kBytes<kType> : bytes;
  WarpHash hash(lane);
  if constexpr (kExponentBits<kType> != 0) {
    if (windows) fault = decode_by_mode<kType, kTable>(a, e, payload, exact, hashed, hash, shared, warp, lane);
  }
  if (!windows) copy_values<kType>(e, payload);
  if (__syncthreads_or(fault != Fault::kNone)) {
    if (fault != Fault::kNone) report(a, block, fault);
    return;
  }
  if (exact + t < e.size && payload[exact + t] != std::byte{0}) report(a, block, Fault::kPadding);
  if (!e.hashed || warp != 0) return;
  uint64_t digest;
  if (hashed) add_sums(hash, payload, n, lane), digest = hash.finish(bytes);
  else digest = hash_memory(e.out, bytes, lane);
  if (digest != e.hash && lane == 0) report(a, block, Fault::kBlockHash);
}

template <Type kType, bool kTable>
cudaError_t launch(const DecodeArgs& a, cudaStream_t stream) {
  return launch_ctas(decode_blocks<kType, kTable>, a, kWarps, a.to.blocks, round_up16(kBytes<kType> * a.to.block_values) + kAlign, stream);
}

}  // namespace

template <Type kType>
const char* launch_decode(const DecodeArgs& a, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.status, 0, sizeof(*a.status), stream); error != cudaSuccess) return error_name(error);
  if (a.to.blocks == 0) return nullptr;
  if constexpr (kType == Type::kBF16)
    if (a.period == 0) return error_name(launch<kType, false>(a, stream));
  return error_name(launch<kType, kExponentBits<kType> != 0>(a, stream));
}

}  // namespace zeroulp::codec::cuda
