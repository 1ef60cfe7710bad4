// A CTA per block: its entry is checked, its payload goes to shared memory, codes are counted to find each lane's place, values go out as
// coalesced 16-byte stores, and their hash is compared.
#include "codec/cuda/common.cuh"

namespace zeroulp::codec::cuda {
namespace {

// Entry of format.h as plain memory.
struct Fields {
  uint32_t offset, size, values, escapes;
  Mode mode;
  uint8_t base, shift;
  uint64_t hash;
};

struct Shared {
  Fields entry;
  uint64_t out;  // address of the page
  uint32_t fault, hashes;
  uint32_t opened[kWarps], escapes[kWarps];
};

__device__ void report(const DecodeArgs& a, uint32_t block, Fault fault) {
  atomicMax(a.status, static_cast<unsigned long long>(~block) << 32 | static_cast<uint32_t>(fault));
}

// What Frame::parse checks, as far as it concerns this block.
__device__ Fault check_entry(const DecodeArgs& a, uint32_t block, Shared& s) {
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
  s.hashes = static_cast<uint32_t>(hashes);

  Fields& e = s.entry;
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
  s.out = a.to.base + page * a.to.stride;
  return Fault::kNone;
}

// What belongs to the frame as a whole; one warp of the first CTA.
__device__ Fault check_frame(const DecodeArgs& a, int lane) {
  const auto* head = reinterpret_cast<const uint64_t*>(a.frame);
  if (hash_of_odd(nullptr, a.frame, 40, lane) != head[5]) return Fault::kHeaderHash;
  const uint32_t check = static_cast<uint32_t>(head[4] >> 32);
  if (a.period == 0 ? check != 0 : static_cast<uint32_t>(hash_of_odd(nullptr, a.frame + kHeaderBytes, a.period, lane)) != check) return Fault::kTable;
  bool clean = true;
  for (uint64_t at = kHeaderBytes + a.period + lane; at < a.directory; at += 32) clean = clean && a.frame[at] == std::byte{0};
  if (__any_sync(kAll, !clean)) return Fault::kTable;
  for (uint64_t at = a.directory + uint64_t{kEntryBytes} * a.to.blocks + lane; at < a.payloads; at += 32) clean = clean && a.frame[at] == std::byte{0};
  return __any_sync(kAll, !clean) ? Fault::kPadding : Fault::kNone;
}

__device__ uint32_t get_bytes(const std::byte* from, int bytes) {
  uint32_t x = 0;
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (b < bytes) x |= static_cast<uint32_t>(from[b]) << (8 * b);
  return x;
}

// Codes 0 to 3 of a string to the bytes of a word.
__device__ uint32_t spread(uint32_t string, int bits) {
  const uint32_t one = (1u << bits) - 1;
  return (string & one) | (string >> bits & one) << 8 | (string >> (2 * bits) & one) << 16 | (string >> (3 * bits) & one) << 24;
}

// 24 bits from bit `at` of the payload on.
__device__ uint32_t window_at(const std::byte* payload, uint32_t at) {
  const auto* words = reinterpret_cast<const uint32_t*>(payload) + at / 32;
  return __funnelshift_r(words[0], words[1], at % 32);
}

// A bit for each escape among the first `count` second codes of a string.
__device__ uint32_t escapes_in(uint32_t string, uint32_t count, Windows w) {
  const uint32_t used = static_cast<uint32_t>(w.bits2) * count;
  return opened_of(string & (used == 0 ? 0u : kAll >> (32 - used)), w.bits2);
}

__device__ uint32_t add_bytes(uint32_t a, uint32_t b) { return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u); }

// Symbols (8 bytes) and rest (8 bytes) to values.
__device__ Row merge(uint2 rest, uint2 symbols) {
  return {{rotate_right(__byte_perm(rest.x, symbols.x, 0x5140)), rotate_right(__byte_perm(rest.x, symbols.x, 0x7362)),
           rotate_right(__byte_perm(rest.y, symbols.y, 0x5140)), rotate_right(__byte_perm(rest.y, symbols.y, 0x7362))}};
}

template <int R>
__global__ void __launch_bounds__(kThreads, kCtas<R>) decode_bf16(const DecodeArgs a) {
  extern __shared__ __align__(16) std::byte payload[];
  __shared__ Shared s;
  __shared__ uint64_t kib_sums[R * kWarps / 2][8];
  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const uint32_t block = blockIdx.x;
  const auto fail = [&](Fault fault) { s.fault = static_cast<uint32_t>(fault); };  // of several faults any one

  // The payload is on its way before all of the entry is checked; only its bounds are looked at.
  const auto* const place = reinterpret_cast<const uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
  if (a.capacity >= a.payloads + uint64_t{kAlign}) {
    const uint64_t begin = a.payloads + uint64_t{place[0]} * kAlign;
    const uint32_t units = place[1] & 0xFFFFu;
    if (units <= a.to.block_values / 8 + 1 && begin + uint64_t{units} * kAlign <= a.capacity)
      for (uint32_t i = static_cast<uint32_t>(tid); i < units; i += kThreads) reinterpret_cast<uint4*>(payload)[i] = __ldcs(reinterpret_cast<const uint4*>(a.frame + begin) + i);
  }
  if (tid == kThreads - 1) s.fault = static_cast<uint32_t>(check_entry(a, block, s));
  __syncthreads();
  if (s.fault != 0) {
    if (tid == 0) report(a, block, static_cast<Fault>(s.fault));
    return;
  }
  if (block == 0 && warp == 1) {
    const Fault fault = check_frame(a, lane);
    if (fault != Fault::kNone && lane == 0) report(a, block, fault);
  }
  const Fields e = s.entry;
  const uint32_t n = e.values;

  const uint32_t origin = static_cast<uint32_t>(warp * R * 256 + lane * 8);
  const auto first_of = [&](int r) { return origin + static_cast<uint32_t>(r * 256); };
  const auto valid_of = [&](int r) { return clamp8(static_cast<int>(n) - static_cast<int>(first_of(r))); };
  // Warps whose rows are all full take code without a check per value.
  const bool whole = static_cast<uint32_t>((warp + 1) * R * 256) <= n && n % 4 == 0;
  const auto by_fullness = [&](auto work) {
    if (whole) work(Full<true>());
    else work(Full<false>());
  };
  Row rows[R];
  uint32_t exact = 0;  // bytes before the padding
  if (!has_windows(e.mode)) {
    exact = e.mode == Mode::kConst ? 2 : 2 * n;
    const uint32_t value = static_cast<uint32_t>(payload[0]) | static_cast<uint32_t>(payload[1]) << 8;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      rows[r] = load_shared_row(payload + 2 * first_of(r), e.mode == Mode::kRaw ? valid_of(r) : 0);
      if (e.mode == Mode::kConst)
#pragma unroll
        for (int i = 0; i < 4; ++i) rows[r].word[i] = value * 0x00010001u;
    }
  } else {
    const Windows w = windows_of(e.mode);
    const uint32_t at1 = n, at2 = at1 + string_bytes(n, w.bits1);
    uint32_t string[R], warp_opened = 0, tail = 0;
    by_fullness([&](auto full) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const std::byte* const codes = payload + at1 + first_of(r) / 8 * static_cast<uint32_t>(w.bits1);
        if (full.value) {
          string[r] = w.bits1 == 4 ? *reinterpret_cast<const uint32_t*>(codes) : w.bits1 == 2 ? *reinterpret_cast<const uint16_t*>(codes) : get_bytes(codes, 3);
        } else {
          const int valid = valid_of(r);
          string[r] = get_bytes(codes, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), w.bits1)));
          if (valid > 0 && valid < 8) tail |= string[r] >> (valid * w.bits1);
        }
        warp_opened += static_cast<uint32_t>(__popc(opened_of(string[r], w.bits1)));
      }
    });
    if (tail != 0) fail(Fault::kPadding);
    warp_opened = __reduce_add_sync(kAll, warp_opened);
    if (lane == 0) s.opened[warp] = warp_opened;
    __syncthreads();
    uint32_t all_opened = 0, before = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      if (i == warp) before = all_opened;
      all_opened += s.opened[i];
    }
    const uint32_t at3 = at2 + string_bytes(all_opened, w.bits2);
    exact = at3 + e.escapes;
    if (s.fault != 0 || round_up16(exact) != e.size || (w.bits2 == 0 && all_opened != e.escapes)) {
      if (tid == 0) report(a, block, s.fault != 0 ? static_cast<Fault>(s.fault) : round_up16(exact) != e.size ? Fault::kSize : Fault::kEscapes);
      return;
    }

    // Opened values before this lane's, and escapes before this lane's; of each row.
    uint32_t second[R], wild[R], marks[R];
#pragma unroll
    for (int r = 0; r < R; ++r) marks[r] = opened_of(string[r], w.bits1), second[r] = wild[r] = before;
    if (warp_opened != 0) places_of<R>(marks, lane, before, second);
    if (w.bits2 != 0) {
      uint32_t warp_escapes = 0;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const uint32_t opened = static_cast<uint32_t>(__popc(marks[r]));
        marks[r] = escapes_in(window_at(payload, 8 * at2 + static_cast<uint32_t>(w.bits2) * second[r]), opened, w);
        warp_escapes += static_cast<uint32_t>(__popc(marks[r]));
      }
      warp_escapes = __reduce_add_sync(kAll, warp_escapes);
      if (lane == 0) s.escapes[warp] = warp_escapes;
      const uint32_t used = static_cast<uint32_t>(w.bits2) * all_opened % 8;
      if (tid == 0 && used != 0 && static_cast<uint32_t>(payload[at3 - 1]) >> used != 0) fail(Fault::kPadding);
      __syncthreads();
      uint32_t all_escapes = 0, before_escapes = 0;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        if (i == warp) before_escapes = all_escapes;
        all_escapes += s.escapes[i];
      }
      if (s.fault != 0 || all_escapes != e.escapes) {
        if (tid == 0) report(a, block, s.fault != 0 ? static_cast<Fault>(s.fault) : Fault::kEscapes);
        return;
      }
      if (warp_escapes != 0) places_of<R>(marks, lane, before_escapes, wild);
    } else {
#pragma unroll
      for (int r = 0; r < R; ++r) wild[r] = second[r];
    }

    const uint32_t begin = (static_cast<uint32_t>(e.base) + e.shift) * 0x01010101u;
    by_fullness([&](auto full) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const uint32_t i0 = first_of(r);
        uint2 rest;
        if (full.value) {
          rest = *reinterpret_cast<const uint2*>(payload + i0);
        } else {
          const int valid = valid_of(r);
          rest = make_uint2(get_bytes(payload + i0, valid), get_bytes(payload + i0 + 4, valid - 4));
        }
        uint2 symbols;
        if (w.bits1 == 4) {
          const uint32_t even = string[r] & 0x0F0F0F0Fu, odd = string[r] >> 4 & 0x0F0F0F0Fu;
          symbols = make_uint2(__byte_perm(even, odd, 0x5140) + begin, __byte_perm(even, odd, 0x7362) + begin);
        } else {
          symbols = make_uint2(spread(string[r], w.bits1) + begin, spread(string[r] >> (4 * w.bits1), w.bits1) + begin);
        }
        const uint32_t opened = opened_of(string[r], w.bits1);
        if (opened != 0) {
          uint32_t codes = w.bits2 != 0 ? window_at(payload, 8 * at2 + static_cast<uint32_t>(w.bits2) * second[r]) : 0;
          const std::byte* from = payload + at3 + wild[r];
          const uint32_t one = (1u << w.bits2) - 1;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if ((opened >> (i * w.bits1) & 1) == 0) continue;
            const uint32_t code = codes & one;
            codes >>= w.bits2;
            uint32_t symbol = e.base + code + (code >= e.shift ? static_cast<uint32_t>(w.width1) : 0u);
            if (code == static_cast<uint32_t>(w.width2)) symbol = static_cast<uint32_t>(*from++);
            uint32_t& word = i < 4 ? symbols.x : symbols.y;
            word = __byte_perm(word, symbol, i % 4 == 0 ? 0x3214 : i % 4 == 1 ? 0x3240 : i % 4 == 2 ? 0x3410 : 0x4210);
          }
        }
        if (a.period != 0) {
          const uint2 t = table_at(reinterpret_cast<const uint8_t*>(a.frame) + kHeaderBytes, a.period, i0);
          symbols = make_uint2(add_bytes(symbols.x, t.x), add_bytes(symbols.y, t.y));
        }
        rows[r] = merge(rest, symbols);
      }
    });
  }

  auto* const out = reinterpret_cast<std::byte*>(s.out);
  by_fullness([&](auto full) {
#pragma unroll
    for (int r = 0; r < R; ++r) store_row(rows[r], out + 2 * first_of(r), full.value ? 8 : valid_of(r));
  });
  if (tid < 16 && exact + static_cast<uint32_t>(tid) < e.size && payload[exact + static_cast<uint32_t>(tid)] != std::byte{0}) report(a, block, Fault::kPadding);
  if (s.hashes == 0) return;
  hash_rows<R>(rows, warp, lane, 2 * n, kib_sums);
  __syncthreads();
  if (warp == 0 && finish_hash(kib_sums, out, 2 * n, lane) != e.hash && lane == 0) report(a, block, Fault::kBlockHash);
}

template <int R>
cudaError_t launch(const DecodeArgs& a, cudaStream_t stream) {
  const uint32_t bytes = round_up16(2 * a.to.block_values) + 16;
  if (const cudaError_t error = cudaFuncSetAttribute(decode_bf16<R>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)); error != cudaSuccess) return error;
  decode_bf16<R><<<a.to.blocks, kThreads, bytes, stream>>>(a);
  return cudaGetLastError();
}

const char* name_of(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorName(error); }

}  // namespace

const char* launch_decode(const DecodeArgs& a, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.status, 0, sizeof(*a.status), stream); error != cudaSuccess) return name_of(error);
  if (a.to.blocks == 0) return nullptr;
  const uint32_t rows = (a.to.block_values + 2047) / 2048;  // per warp
  cudaError_t error;
  if (rows <= 4) error = launch<4>(a, stream);
  else if (rows <= 6) error = launch<6>(a, stream);
  else error = launch<16>(a, stream);
  return name_of(error);
}

}  // namespace zeroulp::codec::cuda
