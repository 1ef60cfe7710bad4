// One fused pass: a CTA reads a block into registers, samples its exponents, chooses mode and windows, counts, takes its place in the frame
// by decoupled look-back (D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016), and stores the payload.
// CTAs are started in the order of blockIdx, so that a CTA never waits for one that has not begun.
#include "codec/cuda/common.cuh"

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

// By one warp: the sum of the sizes of all blocks before `block`, which has published its own.
__device__ uint64_t look_back(unsigned long long* places, uint32_t block, uint32_t own, int lane) {
  uint64_t before = 0;
  for (int64_t nearest = int64_t{block} - 1;; nearest -= 32) {
    const int64_t mine = nearest - lane;
    unsigned long long word;
    uint32_t totals, ready;
    do {
      word = mine >= 0 ? look(places + mine) : kTotal;
      totals = __ballot_sync(kAll, word >= kTotal);
      ready = __ballot_sync(kAll, word != 0);
    } while ((~ready & (totals == 0 ? kAll : (totals & -totals) - 1)) != 0);
    const int last = totals == 0 ? 31 : __ffs(static_cast<int>(totals)) - 1;
    uint64_t sum = lane <= last ? word & kValue : 0;
#pragma unroll
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kAll, sum, d);
    before += sum;
    if (totals != 0) break;
  }
  if (lane == 0) publish(places + block, kTotal | (before + own));
  return before;
}

// choose() of choose.cpp by the whole CTA, a thread per symbol. Each thread first offers the window that begins at its symbol, for widths 15,
// 3 and 7; then every warp finds the second windows for itself, eight lanes to a mode. Of equal windows the lowest wins: keys hold
// 255 - begin below the count.
struct Chooser {
  uint32_t sums[257];             // samples below symbol i
  uint32_t warp_total[kWarps];
  uint32_t best[3][kWarps];
};

__device__ uint32_t inside(const uint32_t* sums, uint32_t begin, uint32_t width) { return sums[begin + width] - sums[begin]; }
__device__ uint32_t key_of(const uint32_t* sums, uint32_t begin, uint32_t width, uint32_t last) {
  return begin <= last ? inside(sums, begin, width) << 8 | (255 - begin) : 0;
}

template <bool kBalanced>
__device__ Choice choose_by_all(const uint32_t* histogram, Chooser& c, int tid) {
  const int warp = tid / 32, lane = tid % 32;
  const uint32_t own = histogram[tid], through = warp_scan(own, lane);
  if (lane == 31) c.warp_total[warp] = through;
  __syncthreads();
  uint32_t before = 0, samples = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    before += i < warp ? c.warp_total[i] : 0;
    samples += c.warp_total[i];
  }
  c.sums[tid] = before + through - own;
  if (tid == 0) c.sums[256] = samples;
  __syncthreads();
  const uint32_t begin = static_cast<uint32_t>(tid);
  const uint32_t best15 = __reduce_max_sync(kAll, key_of(c.sums, begin, 15, 240));
  if (lane == 0) c.best[0][warp] = best15;
  if (kBalanced) {
    const uint32_t best3 = __reduce_max_sync(kAll, key_of(c.sums, begin, 3, 252)), best7 = __reduce_max_sync(kAll, key_of(c.sums, begin, 7, 248));
    if (lane == 0) c.best[1][warp] = best3, c.best[2][warp] = best7;
  }
  __syncthreads();
  const auto first_of = [&](int which) { return 255 - (__reduce_max_sync(kAll, lane < kWarps ? c.best[which][lane] : 0u) & 255); };
  const uint32_t first15 = first_of(0);
  Choice choice = {Mode::kW4, static_cast<uint8_t>(first15), 0};
  if (!kBalanced) return choice;

  const uint32_t first3 = first_of(1), first7 = first_of(2);
  // Lanes 0 to 7: T22, 8 to 15: T23, 16 to 23: T33.
  const Windows w = windows_of(lane < 8 ? Mode::kT22 : lane < 16 ? Mode::kT23 : Mode::kT33);
  const uint32_t first = w.width1 == 3 ? first3 : first7, both = static_cast<uint32_t>(w.width1 + w.width2), second = static_cast<uint32_t>(w.width2);
  const uint32_t lowest = first > second ? first - second : 0, highest = first < 255 - both ? first : 255 - both;
  uint32_t key = key_of(c.sums, lowest + static_cast<uint32_t>(lane) % 8, both, highest);
#pragma unroll
  for (int d = 1; d < 8; d *= 2) {
    const uint32_t other = __shfl_xor_sync(kAll, key, d);
    key = other > key ? other : key;
  }
  // An estimate per mode in lanes 0, 8, 16 and, for W4 and W3, 24 and 25; the least, and of equals the lowest mode, wins.
  Mode mode = static_cast<Mode>(static_cast<int>(Mode::kT22) + lane / 8);
  uint32_t base = 255 - (key & 255), bits = estimated_bits(w, samples, inside(c.sums, first, static_cast<uint32_t>(w.width1)), key >> 8), shift = first - base;
  if (lane >= 24) {
    mode = lane == 24 ? Mode::kW4 : Mode::kW3;
    base = lane == 24 ? first15 : first7;
    const uint32_t held = inside(c.sums, base, lane == 24 ? 15 : 7);
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

// The symbols of a row: value 2i in the low half of word i, value 2i + 1 in the high half.
template <bool kTable>
__device__ Row symbols_of(const Row& row, const EncodeArgs& a, uint32_t i0) {
  Row s;
#pragma unroll
  for (int i = 0; i < 4; ++i) s.word[i] = (row.word[i] >> 7) & 0x00FF00FFu;
  if (kTable) {
    const uint2 t = table_at(a.table, a.period, i0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t entries = __byte_perm(i < 2 ? t.x : t.y, 0, i % 2 == 0 ? 0x4140 : 0x4342);
      s.word[i] = ((s.word[i] | 0x01000100u) - entries) & 0x00FF00FFu;
    }
  }
  return s;
}

__device__ uint32_t both_halves(uint32_t x) { return (x & 0xFFFFu) * 0x00010001u; }

// First codes of a row as a string of 8 codes.
__device__ uint32_t first_codes(const Row& s, uint32_t begin, uint32_t width, int bits) {
  uint32_t c[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) c[i] = __viaddmin_u16x2(s.word[i], both_halves(0u - begin), both_halves(width));
  const uint32_t step = 2 * static_cast<uint32_t>(bits);
  const uint32_t pairs = c[0] | c[1] << step;  // values 0, 2 low and 1, 3 high
  const uint32_t low = pairs & 0xFFFFu, high = pairs >> 16;
  const uint32_t pairs2 = c[2] | c[3] << step, low2 = pairs2 & 0xFFFFu, high2 = pairs2 >> 16;
  return (low | high << bits) | (low2 | high2 << bits) << (4 * bits);
}

// Bits i * bits of the values outside [base, base + width). Such values are rare.
__device__ uint32_t outside_of(const Row& s, uint32_t base, uint32_t width, int bits) {
  uint32_t high[4], any = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    high[i] = (__viaddmin_u16x2(s.word[i], both_halves(0u - base), both_halves(width)) + both_halves(0x8000u - width)) & 0x80008000u;
    any |= high[i];
  }
  if (any == 0) return 0;
  uint32_t m = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) m |= (high[e / 2] >> (15 + 16 * (e % 2)) & 1u) << (e * bits);
  return m;
}

// Second codes of all values of a row, meaningful for opened ones only; halves as in symbols_of.
__device__ Row second_codes(const Row& s, uint32_t base, uint32_t shift, Windows w) {
  Row c;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t above = __viaddmin_s16x2_relu(s.word[i], both_halves(1u - (base + shift)), 0x00010001u);  // 1 where at or above the hole
    const uint32_t moved = s.word[i] + 0x02000200u - base * 0x00010001u - above * static_cast<uint32_t>(w.width1);
    c.word[i] = __viaddmin_u16x2(moved, 0xFE00FE00u, both_halves(static_cast<uint32_t>(w.width2)));
  }
  return c;
}
__device__ uint32_t half(const Row& row, int e) { return row.word[e / 2] >> (16 * (e % 2)) & 0xFFFFu; }

// The low `bytes` bytes of x, to any address.
__device__ void put_bytes(std::byte* to, uint32_t x, int bytes) {
#pragma unroll
  for (int b = 0; b < 4; ++b)
    if (b < bytes) to[b] = static_cast<std::byte>(x >> (8 * b));
}

struct Shared {
  uint32_t histogram[256];
  Chooser chooser;
  uint32_t opened[kWarps], escapes[kWarps];
  uint64_t place;
};

// Eight second codes, a byte each, to a string of `bits` bits.
__device__ uint32_t squeeze(uint2 c, int bits) {
  const auto four = [bits](uint32_t x) { return (x & 7u) | (x >> 8 & 7u) << bits | (x >> 16 & 7u) << (2 * bits) | x >> 24 << (3 * bits); };
  return four(c.x) | four(c.y) << (4 * bits);
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

template <int R, bool kTable, bool kBalanced>
__global__ void __launch_bounds__(kThreads, kCtas<R>) encode_bf16(const EncodeArgs a) {
  extern __shared__ __align__(16) std::byte memory[];
  __shared__ Shared shared;
  __shared__ uint64_t kib_sums[R * kWarps / 2][8];
  std::byte* const image = memory;                                             // the payload
  std::byte* const stage = memory + round_up16(2 * a.from.block_values) + 16;  // second codes, a byte each

  const int tid = static_cast<int>(threadIdx.x), warp = tid / 32, lane = tid % 32;
  const uint32_t block = blockIdx.x;
  const uint32_t n = a.valid != nullptr ? a.valid[block] : block + 1 == a.from.blocks ? a.last_values : a.from.block_values;
  const auto* raw = reinterpret_cast<const std::byte*>(a.from.base + (a.from.page != nullptr ? a.from.page[block] : block) * a.from.stride);

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
  uint32_t differs = 0;
  by_fullness([&](auto full) {
#pragma unroll
    for (int r = 0; r < R; ++r) rows[r] = load_row(raw + 2 * first_of(r), full.value ? 8 : valid_of(r));
  });
  const uint32_t leader = both_halves(*reinterpret_cast<const uint16_t*>(raw));
  shared.histogram[tid] = 0;
  __syncthreads();

  by_fullness([&](auto full) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int valid = full.value ? 8 : valid_of(r);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t x = rows[r].word[i] ^ leader;
        if (!full.value) x &= valid > 2 * i + 1 ? kAll : valid > 2 * i ? 0xFFFFu : 0u;
        differs |= x;
      }
      if (row_is_sampled(static_cast<uint32_t>(warp * R + r)) && valid > 0) {
        const Row s = symbols_of<kTable>(rows[r], a, first_of(r));
#pragma unroll
        for (int e = 0; e < 8; ++e)
          if (full.value || e < valid) atomicAdd(&shared.histogram[half(s, e)], 1u);
      }
    }
  });
  if (a.hashes) hash_rows<R>(rows, warp, lane, 2 * n, kib_sums);
  const bool constant = __syncthreads_or(static_cast<int>(differs)) == 0;

  Choice choice = {Mode::kConst, 0, 0};
  uint32_t size = 16, escapes = 0;
  const uint32_t raw_size = round_up16(2 * n);
  if (!constant) {
    choice = choose_by_all<kBalanced>(shared.histogram, shared.chooser, tid);
    const Windows w = windows_of(kBalanced ? choice.mode : Mode::kW4);
    const uint32_t begin = choice.base + choice.shift, at1 = n, bytes1 = string_bytes(n, w.bits1);
    uint32_t opened[R], wild[R], warp_opened = 0, warp_escapes = 0;
    by_fullness([&](auto full) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int valid = full.value ? 8 : valid_of(r);
        const uint32_t i0 = first_of(r);
        const Row s = symbols_of<kTable>(rows[r], a, i0);
        uint32_t string = first_codes(s, begin, static_cast<uint32_t>(w.width1), w.bits1);
        if (!full.value && valid < 8) string &= valid == 0 ? 0u : kAll >> (32 - valid * w.bits1);
        opened[r] = opened_of(string, w.bits1);
        wild[r] = kBalanced && w.bits2 != 0 ? opened[r] & outside_of(s, choice.base, static_cast<uint32_t>(w.width1 + w.width2), w.bits1) : opened[r];
        warp_opened += static_cast<uint32_t>(__popc(opened[r]));
        warp_escapes += static_cast<uint32_t>(__popc(wild[r]));

        const uint32_t x0 = rotate_left(rows[r].word[0]), x1 = rotate_left(rows[r].word[1]), x2 = rotate_left(rows[r].word[2]), x3 = rotate_left(rows[r].word[3]);
        const uint32_t rest0 = __byte_perm(x0, x1, 0x6420), rest1 = __byte_perm(x2, x3, 0x6420);
        std::byte* const codes = image + at1 + i0 / 8 * static_cast<uint32_t>(w.bits1);
        if (full.value) {
          *reinterpret_cast<uint2*>(image + i0) = make_uint2(rest0, rest1);
          if (w.bits1 == 4) {
            *reinterpret_cast<uint32_t*>(codes) = string;
          } else if (w.bits1 == 2) {
            *reinterpret_cast<uint16_t*>(codes) = static_cast<uint16_t>(string);
          } else {
            put_bytes(codes, string, 3);
          }
        } else {
          put_bytes(image + i0, rest0, valid);
          put_bytes(image + i0 + 4, rest1, valid - 4);
          put_bytes(codes, string, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), w.bits1)));
        }
      }
    });
    warp_opened = __reduce_add_sync(kAll, warp_opened);
    warp_escapes = __reduce_add_sync(kAll, warp_escapes);
    if (lane == 0) shared.opened[warp] = warp_opened, shared.escapes[warp] = warp_escapes;
    __syncthreads();

    uint32_t all_opened = 0, before_opened = 0, before_escapes = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      if (i == warp) before_opened = all_opened, before_escapes = escapes;
      all_opened += shared.opened[i];
      escapes += shared.escapes[i];
    }
    const uint32_t bytes2 = string_bytes(all_opened, w.bits2), at2 = at1 + bytes1, at3 = at2 + bytes2, exact = at3 + escapes;
    size = round_up16(exact);
    const bool stays_raw = size >= raw_size;
    if (stays_raw) {
      choice = {Mode::kRaw, 0, 0};
      size = raw_size;
      escapes = 0;
    }
    if (tid == 0) publish(a.places + block, (block == 0 ? kTotal : kOwn) | size / 16);
    if (!stays_raw) {
      const bool two_levels = kBalanced && w.bits2 != 0;
      if (warp_opened != 0) {
        uint32_t to2[R], to3[R];
        places_of<R>(opened, lane, before_opened, to2);
        if (two_levels && warp_escapes != 0) places_of<R>(wild, lane, before_escapes, to3);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          if (opened[r] == 0) continue;
          const Row s = symbols_of<kTable>(rows[r], a, first_of(r));
          if (two_levels) {
            const Row c = second_codes(s, choice.base, choice.shift, w);
#pragma unroll
            for (int e = 0; e < 8; ++e)
              if ((opened[r] >> (e * w.bits1) & 1) != 0) stage[to2[r]++] = static_cast<std::byte>(half(c, e));
          }
          if (wild[r] == 0) continue;
          std::byte* to = image + at3 + (two_levels ? to3[r] : to2[r]);
#pragma unroll
          for (int e = 0; e < 8; ++e)
            if ((wild[r] >> (e * w.bits1) & 1) != 0) *to++ = static_cast<std::byte>(half(s, e));
        }
      }
      if (tid < 16 && exact + static_cast<uint32_t>(tid) < size) image[exact + static_cast<uint32_t>(tid)] = std::byte{0};
      if (two_levels) {
        if (tid < 8) stage[all_opened + static_cast<uint32_t>(tid)] = std::byte{0};
        __syncthreads();
        for (uint32_t g = static_cast<uint32_t>(tid); g * 8 < all_opened; g += kThreads) {
          const uint32_t left = all_opened - g * 8, string = squeeze(*reinterpret_cast<const uint2*>(stage + g * 8), w.bits2);
          put_bytes(image + at2 + g * static_cast<uint32_t>(w.bits2), string, static_cast<int>(left >= 8 ? static_cast<uint32_t>(w.bits2) : string_bytes(left, w.bits2)));
        }
      }
    }
  } else {
    if (tid == 0) publish(a.places + block, (block == 0 ? kTotal : kOwn) | 1);
    if (tid < 16) image[tid] = static_cast<std::byte>(tid < 2 ? leader >> (8 * tid) : 0);
  }

  if (warp == 0) {
    const uint64_t before = block == 0 ? 0 : look_back(a.places, block, size / 16, lane);
    if (lane == 0) shared.place = before;
  }
  __syncthreads();

  const uint64_t place = shared.place;
  std::byte* const payload = a.frame + a.payloads + place * kAlign;
  if (choice.mode == Mode::kRaw) {
#pragma unroll
    for (int r = 0; r < R; ++r) store_row(rows[r], payload + 2 * first_of(r), valid_of(r));
    for (uint32_t at = 2 * n + static_cast<uint32_t>(tid); at < size; at += kThreads) payload[at] = std::byte{0};
  } else {
    for (uint32_t i = static_cast<uint32_t>(tid); i < size / 16; i += kThreads) __stcs(reinterpret_cast<uint4*>(payload) + i, reinterpret_cast<const uint4*>(image)[i]);
  }
  auto* const entry = reinterpret_cast<uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
  if (tid == 0) {
    entry[0] = static_cast<uint32_t>(place);
    entry[1] = size / 16 | (n - 1) << 16;
    entry[2] = escapes | static_cast<uint32_t>(choice.mode) << 16 | static_cast<uint32_t>(choice.shift) << 20 | static_cast<uint32_t>(choice.base) << 24;
    if (!a.hashes) entry[3] = entry[4] = 0;
    if (block + 1 == a.from.blocks) write_header(a, (place + size / 16) * kAlign);
  }
  if (block == 0)
    for (uint32_t i = static_cast<uint32_t>(tid); i < round_up16(a.period); i += kThreads) a.frame[kHeaderBytes + i] = static_cast<std::byte>(i < a.period ? a.table[i] : 0);
  if (warp == kWarps - 1 && a.hashes) {  // last, because it is one long chain
    const uint64_t hash = finish_hash(kib_sums, raw, 2 * n, lane);
    if (lane < 2) entry[3 + lane] = static_cast<uint32_t>(hash >> (32 * lane));
  }
}

__global__ void encode_empty(const EncodeArgs a) { write_header(a, 0); }

template <int R, bool kTable, bool kBalanced>
cudaError_t launch(const EncodeArgs& a, cudaStream_t stream) {
  const uint32_t bytes = round_up16(2 * a.from.block_values) + 16 + (kBalanced ? round_up16(a.from.block_values) + 16 : 0);
  const auto kernel = encode_bf16<R, kTable, kBalanced>;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)); error != cudaSuccess) return error;
  kernel<<<a.from.blocks, kThreads, bytes, stream>>>(a);
  return cudaGetLastError();
}

template <int R>
cudaError_t launch_rows(const EncodeArgs& a, bool balanced, cudaStream_t stream) {
  if (a.period != 0) return balanced ? launch<R, true, true>(a, stream) : launch<R, true, false>(a, stream);
  return balanced ? launch<R, false, true>(a, stream) : launch<R, false, false>(a, stream);
}

const char* name_of(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorName(error); }

}  // namespace

const char* launch_encode(const EncodeArgs& a, bool balanced, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.places, 0, sizeof(*a.places) * a.from.blocks, stream); error != cudaSuccess) return name_of(error);
  if (a.from.blocks == 0) {
    encode_empty<<<1, 1, 0, stream>>>(a);
    return name_of(cudaGetLastError());
  }
  const uint32_t rows = (a.from.block_values + 2047) / 2048;  // per warp
  cudaError_t error;
  if (rows <= 4) error = launch_rows<4>(a, balanced, stream);
  else if (rows <= 6) error = launch_rows<6>(a, balanced, stream);
  else error = launch_rows<16>(a, balanced, stream);
  return name_of(error);
}

}  // namespace zeroulp::codec::cuda
