// A warp per block: its entry is checked while its payload comes to shared memory, codes are counted to find each lane's place, rows go out as
// coalesced 16-byte stores, and their hash is compared.
#include "codec/cuda/hash.cuh"

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
  if (has_windows(e.mode) ? e.shift > w.width2 || e.base + w.width1 + w.width2 >= 256 : e.base != 0 || e.shift != 0 || e.escapes != 0) return Fault::kParameters;
  if (hashes == 0 && e.hash != 0) return Fault::kParameters;
  const uint64_t left = a.raw_bytes / 2 - uint64_t{block} * a.to.block_values;
  if (e.values > a.to.block_values || (!a.ragged && e.values != (last ? left : a.to.block_values))) return Fault::kCount;
  const uint64_t begin = uint64_t{e.offset} * kAlign, end = begin + e.size;
  if (end > payload_bytes || (block == 0 && begin != 0) || end != (last ? payload_bytes : uint64_t{words[5]} * kAlign)) return Fault::kPlace;
  if (e.size == 0 || e.size > round_up16(2 * e.values)) return Fault::kSize;
  if (has_windows(e.mode) && e.values + string_bytes(e.values, w.bits1) > e.size) return Fault::kSize;
  if (e.mode == Mode::kRaw && e.size != round_up16(2 * e.values)) return Fault::kSize;
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

constexpr int kDecodeCtas = 13;  // of one warp, on a multiprocessor: as many as have room for 16 KiB each

// The payload to shared memory; only bounds are looked at.
__device__ void fetch_payload(const DecodeArgs& a, uint32_t block, std::byte* to, int lane) {
  const auto* const entry = reinterpret_cast<const uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
  if (a.capacity < a.payloads + uint64_t{kAlign}) return;
  const uint64_t begin = a.payloads + uint64_t{entry[0]} * kAlign;
  const uint32_t units = entry[1] & 0xFFFFu;
  if (units > a.to.block_values / 8 + 1 || begin + uint64_t{units} * kAlign > a.capacity) return;
  // Payloads follow each other, so that what lies that far ahead is what is wanted next.
  if (lane == 0 && begin + uint64_t{kAhead + 1} * units * kAlign <= a.capacity) prefetch(a.frame + begin + uint64_t{kAhead} * units * kAlign, units * kAlign);
  fetch(to, a.frame + begin, units, lane);
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

// Eight codes of kBits to nibbles.
template <int kBits>
__device__ uint32_t nibbles(uint32_t s) {
  if (kBits == 3) {
    s = (s & 0x00000FFFu) | (s << 4 & 0x0FFF0000u);
    s = (s & 0x003F003Fu) | (s << 2 & 0x3F003F00u);
    return (s & 0x07070707u) | (s << 1 & 0x70707070u);
  }
  s = (s & 0x000000FFu) | (s << 8 & 0x00FF0000u);
  s = (s & 0x000F000Fu) | (s << 4 & 0x0F000F00u);
  return (s & 0x03030303u) | (s << 2 & 0x30303030u);
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

// Symbols (8 bytes) and rest (8 bytes) to values. Rotating two values as one word right by one brings each the other's sign, so signs change
// places first.
__device__ Row merge(uint2 rest, uint2 symbols) {
  Row row;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t r = i == 0 ? rest.x : rest.y, s = i == 0 ? symbols.x : symbols.y;
    const uint32_t crossed = (r & 0xFEFEFEFEu) | (__byte_perm(r, 0, 0x2301) & 0x01010101u);
    const uint32_t low = __byte_perm(crossed, s, 0x5140), high = __byte_perm(crossed, s, 0x7362);
    row.word[2 * i] = __funnelshift_r(low, low, 1);
    row.word[2 * i + 1] = __funnelshift_r(high, high, 1);
  }
  return row;
}

// A payload being decoded: where its parts begin, and what has been met so far.
struct Progress {
  const std::byte* payload;
  uint32_t values, second, raw;  // byte of the first codes, bit of the second, byte of the raw exponents
  uint32_t opened, escapes;
  Fault fault;
};

// First codes of the row whose value i is this lane's first.
template <int kBits1, bool kFull>
__device__ uint32_t string_at(const std::byte* payload, uint32_t values, uint32_t i, int valid) {
  const std::byte* const codes = payload + values + i / 8 * kBits1;
  if (!kFull) return get_bytes(codes, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), kBits1)));
  if (kBits1 == 4) return *reinterpret_cast<const uint32_t*>(codes);
  if (kBits1 == 2) return *reinterpret_cast<const uint16_t*>(codes);
  return get_bytes(codes, 3);
}

// kRows rows that follow each other, to values; see encode.cu.
template <int kBits1, int kBits2, bool kTable, bool kFull, int kRows>
__device__ __forceinline__ void decode_rows(Channels<kTable>& channels, const Entry& e, const Symbols& known, Progress& p, Row (&rows)[kRows], uint32_t i0, int valid, int lane) {
  constexpr bool kMixed = kBits1 == 2;
  uint32_t string[kRows], own[kRows], low[kRows], high[kRows], codes2[kRows], any = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    string[r] = string_at<kBits1, kFull>(p.payload, p.values, i0 + static_cast<uint32_t>(r) * kRowValues, valid);
    if (!kFull && valid < 8 && valid > 0 && string[r] >> (valid * kBits1) != 0) p.fault = Fault::kPadding;
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
        if (kBits2 == 0 || (wild & 8) != 0) set_symbol(symbols[r], static_cast<uint32_t>(__ffs(static_cast<int>(m)) - 1) / kBits1, static_cast<uint32_t>(*from++));
        wild = kBits2 == 0 ? wild & (wild - 1) : wild >> 4;
      }
      p.escapes += share.total;
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + static_cast<uint32_t>(r) * kRowValues;
    const std::byte* const from = p.payload + i;
    const uint2 rest = kFull ? *reinterpret_cast<const uint2*>(from) : make_uint2(get_bytes(from, valid), get_bytes(from + 4, valid - 4));
    if (kTable) {
      const uint2 t = channels.next();
      symbols[r] = make_uint2(add_bytes(symbols[r].x, t.x), add_bytes(symbols[r].y, t.y));
    }
    rows[r] = merge(rest, symbols[r]);
  }
}

// Values that open a second code; all rows of the block.
template <int kBits1>
__device__ uint32_t count_opened(const std::byte* payload, uint32_t n, int lane) {
  uint32_t opened = 0;
  if (kBits1 == 2 && n % 16 == 0) {
    for (uint32_t i = static_cast<uint32_t>(lane); i < n / 16; i += kLanes) {
      const uint32_t word = reinterpret_cast<const uint32_t*>(payload + n)[i];
      opened += static_cast<uint32_t>(__popc(word & word >> 1 & 0x55555555u));
    }
  } else {
    for (uint32_t i = 8 * static_cast<uint32_t>(lane); i < n; i += kRowValues)
      opened += static_cast<uint32_t>(__popc(opened_of<kBits1>(string_at<kBits1, false>(payload, n, i, clamp8(static_cast<int>(n - i))), kPlaces<kBits1>)));
  }
  return __reduce_add_sync(kAll, opened);
}

// A block with windows: writes its values, and their hash if `hashed`. `exact` is its bytes before the padding.
template <int kBits1, int kBits2, bool kTable>
__device__ __forceinline__ Fault decode_block(const DecodeArgs& a, const Entry& e, const std::byte* payload, uint32_t& exact, bool hashed, uint64_t& digest, int lane) {
  const uint32_t n = e.values, i0 = 8 * static_cast<uint32_t>(lane);
  const Symbols known = symbols_of(e, windows_of(kBits1 == 4 ? Mode::kW4 : kBits1 == 2 ? (kBits2 == 2 ? Mode::kT22 : Mode::kT23) : kBits2 == 0 ? Mode::kW3 : Mode::kT33));
  Progress p = {payload, n, 8 * (n + string_bytes(n, kBits1)), 0, 0, 0, Fault::kNone};
  const uint32_t opened = kBits2 == 0 ? e.escapes : count_opened<kBits1>(payload, n, lane);
  p.raw = p.second / 8 + string_bytes(opened, kBits2);
  exact = p.raw + e.escapes;
  if (round_up16(exact) != e.size) return Fault::kSize;
  if (kBits2 != 0 && opened * kBits2 % 8 != 0 && static_cast<uint32_t>(payload[p.raw - 1]) >> (opened * kBits2 % 8) != 0) return Fault::kPadding;

  Channels<kTable> channels(reinterpret_cast<const uint8_t*>(a.frame) + kHeaderBytes, a.period, i0);
  WarpHash hash(lane);
  const uint32_t groups = n % 8 == 0 ? n / kGroupValues : 0;
#pragma unroll 1
  for (uint32_t g = 0; g < groups && p.fault == Fault::kNone; ++g) {
    Row rows[kGroup];
    const uint32_t i = i0 + g * kGroupValues;
    decode_rows<kBits1, kBits2, kTable, true, kGroup>(channels, e, known, p, rows, i, 8, lane);
#pragma unroll
    for (int r = 0; r < kGroup; ++r) store_row(rows[r], e.out + 2 * (i + static_cast<uint32_t>(r) * kRowValues), 8);
    if (hashed) {
      hash.add(rows[0], rows[1]);
      if (g + 1 == groups) hash.expect_last();
      hash.add(rows[2], rows[3]);
    }
  }
#pragma unroll 1
  for (uint32_t i = i0 + groups * kGroupValues; i - i0 < n && p.fault == Fault::kNone; i += kRowValues) {
    const int valid = clamp8(static_cast<int>(n) - static_cast<int>(i));
    Row rows[1];
    decode_rows<kBits1, kBits2, kTable, false, 1>(channels, e, known, p, rows, i, valid, lane);
    if (__any_sync(kAll, p.fault != Fault::kNone)) p.fault = Fault::kPadding;
    store_row(rows[0], e.out + 2 * i, valid);
  }
  if (p.fault == Fault::kNone && p.escapes != e.escapes) return Fault::kEscapes;
  digest = hash.finish(2 * n);
  return p.fault;
}

template <bool kTable>
__device__ __forceinline__ Fault decode_by_mode(const DecodeArgs& a, const Entry& e, const std::byte* payload, uint32_t& exact, bool hashed, uint64_t& digest, int lane) {
  const auto decode = [&]<int kBits1, int kBits2>() { return decode_block<kBits1, kBits2, kTable>(a, e, payload, exact, hashed, digest, lane); };
  switch (e.mode) {
    case Mode::kW4: return decode.template operator()<4, 0>();
    case Mode::kT23: return decode.template operator()<2, 3>();
    case Mode::kT33: return decode.template operator()<3, 3>();
    case Mode::kT22: return decode.template operator()<2, 2>();
    default: return decode.template operator()<3, 0>();
  }
}

// RAW and CONST.
__device__ void copy_values(const Entry& e, const std::byte* payload, int lane) {
  const uint32_t value = both_halves(*reinterpret_cast<const uint16_t*>(payload));
  const Row constant = {{value, value, value, value}};
  for (uint32_t i = 8 * static_cast<uint32_t>(lane); i < e.values; i += kRowValues)
    store_row(e.mode == Mode::kRaw ? load_row(payload + 2 * i) : constant, e.out + 2 * i, clamp8(static_cast<int>(e.values - i)));
}

template <bool kTable>
__global__ void __launch_bounds__(kLanes, kDecodeCtas) decode_bf16(const DecodeArgs a) {
  extern __shared__ __align__(16) std::byte payload[];
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t block = blockIdx.x;
  fetch_payload(a, block, payload, lane);
  Entry e;
  Fault fault = check_entry(a, block, e);
  if (block == 0 && fault == Fault::kNone) fault = check_frame(a, lane);
  fetched();
  if (fault != Fault::kNone) {
    if (lane == 0) report(a, block, fault);
    return;
  }

  const uint32_t n = e.values;
  const bool windows = has_windows(e.mode);
  const bool hashed = e.hashed && windows && n % kGroupValues == 0;  // by the decoder of rows
  uint32_t exact = e.mode == Mode::kConst ? 2 : 2 * n;
  uint64_t digest = 0;
  if (windows) fault = decode_by_mode<kTable>(a, e, payload, exact, hashed, digest, lane);
  else copy_values(e, payload, lane);
  if (__any_sync(kAll, fault != Fault::kNone)) {
    if (fault != Fault::kNone) report(a, block, fault);
    return;
  }
  if (exact + static_cast<uint32_t>(lane) < e.size && payload[exact + static_cast<uint32_t>(lane)] != std::byte{0}) report(a, block, Fault::kPadding);
  if (!e.hashed) return;
  __syncwarp();
  if (!hashed) digest = hash_memory(e.out, 2 * n, lane);
  if (digest != e.hash && lane == 0) report(a, block, Fault::kBlockHash);
}

template <bool kTable>
cudaError_t launch(const DecodeArgs& a, cudaStream_t stream) {
  return launch_warps(decode_bf16<kTable>, a, a.to.blocks, round_up16(2 * a.to.block_values) + 16, stream);
}

}  // namespace

const char* launch_decode(const DecodeArgs& a, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.status, 0, sizeof(*a.status), stream); error != cudaSuccess) return error_name(error);
  if (a.to.blocks == 0) return nullptr;
  return error_name(a.period != 0 ? launch<true>(a, stream) : launch<false>(a, stream));
}

}  // namespace zeroulp::codec::cuda
