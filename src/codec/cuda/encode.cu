// One fused pass. A warp samples the exponents of its block, chooses mode and windows, codes row after row into an image of the payload in
// shared memory, takes its place in the frame by decoupled look-back (D. Merrill, M. Garland, "Single-pass Parallel Prefix Scan with Decoupled
// Look-back", 2016), and stores the image. CTAs are of one warp and are started in the order of blockIdx, so that none waits for one that has
// not begun.
#include "codec/cuda/hash.cuh"

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

// choose() of choose.cpp by a warp, eight symbols to a lane. Each lane offers the windows that begin at its symbols, for widths 15, 3 and 7; then
// the second windows, eight lanes to a mode. Of equal windows the lowest wins: keys hold 255 - begin below the count.
constexpr uint32_t kSums = 272;  // samples below symbol i; those behind 256 are read and not used

__device__ uint32_t inside(const uint32_t* sums, uint32_t begin, uint32_t width) { return sums[begin + width] - sums[begin]; }
__device__ uint32_t key_of(uint32_t held, uint32_t begin, uint32_t last) { return begin <= last ? held << 8 | (255 - begin) : 0; }

__device__ uint32_t fullest(const uint32_t* sums, const uint32_t (&below)[8], uint32_t width, int lane) {
  uint32_t best = 0;
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    const uint32_t begin = 8 * static_cast<uint32_t>(lane) + j;
    best = max(best, key_of(sums[begin + width] - below[j], begin, 255 - width));
  }
  return 255 - (__reduce_max_sync(kAll, best) & 255);
}

template <bool kBalanced>
__device__ Choice choose_by_warp(const uint32_t* histogram, uint32_t* sums, int lane) {
  uint32_t below[8], own = 0;
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
    const uint4 h = reinterpret_cast<const uint4*>(histogram)[2 * lane + j / 4];
    below[j] = own;
    below[j + 1] = own += h.x;
    below[j + 2] = own += h.y;
    below[j + 3] = own += h.z;
    own += h.w;
  }
  const uint32_t through = warp_scan(own), before = through - own, samples = __shfl_sync(kAll, through, 31);
#pragma unroll
  for (int j = 0; j < 8; ++j) below[j] += before;
#pragma unroll
  for (int j = 0; j < 8; j += 4) reinterpret_cast<uint4*>(sums)[2 * lane + j / 4] = make_uint4(below[j], below[j + 1], below[j + 2], below[j + 3]);
  if (lane == 0) sums[256] = samples;
  __syncwarp();
  const uint32_t first15 = fullest(sums, below, 15, lane);
  Choice choice = {Mode::kW4, static_cast<uint8_t>(first15), 0};
  if (!kBalanced) return choice;

  const uint32_t first3 = fullest(sums, below, 3, lane), first7 = fullest(sums, below, 7, lane);
  // Lanes 0 to 7: T22, 8 to 15: T23, 16 to 23: T33.
  const Windows w = windows_of(lane < 8 ? Mode::kT22 : lane < 16 ? Mode::kT23 : Mode::kT33);
  const uint32_t first = w.width1 == 3 ? first3 : first7, both = static_cast<uint32_t>(w.width1 + w.width2), second = static_cast<uint32_t>(w.width2);
  const uint32_t lowest = first > second ? first - second : 0, highest = first < 255 - both ? first : 255 - both;
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

// The symbols of a row: the upper byte of each half. What stands in the lower bytes means nothing.
template <bool kTable>
__device__ Row symbols_of(const Row& row, const EncodeArgs& a, uint32_t i0) {
  Row t;
#pragma unroll
  for (int i = 0; i < 4; ++i) t.word[i] = row.word[i] << 1;
  if (kTable) {
    const uint2 table = table_at(a.table, a.period, i0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t entries = __byte_perm(i < 2 ? table.x : table.y, 0, i % 2 == 0 ? 0x1404 : 0x3424);
      t.word[i] = (t.word[i] | 0x00010000u) - entries;  // that bit is what the lower half may borrow
    }
  }
  return t;
}
// The upper bytes of all halves: eight symbols or codes in order.
__device__ uint2 upper_bytes(const Row& t) {
  return make_uint2(__byte_perm(t.word[0], t.word[1], 0x7531), __byte_perm(t.word[2], t.word[3], 0x7531));
}

// Mantissa and sign of eight values: the lower bytes of the values rotated left by one.
__device__ uint2 rest_of(const Row& row) {
  const auto four = [](uint32_t a, uint32_t b) {
    const uint32_t mantissas = __byte_perm(a << 1, b << 1, 0x6420), signs = __byte_perm(a, b, 0x7531) >> 7;
    return (mantissas & 0xFEFEFEFEu) | (signs & 0x01010101u);
  };
  return make_uint2(four(row.word[0], row.word[1]), four(row.word[2], row.word[3]));
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

// Four codes, a byte each, to a string.
template <int kBits>
__device__ uint32_t join4(uint32_t bytes) {
  if (kBits == 2) return __dp4a(bytes, 0x40100401u, 0u);
  return __dp4a(bytes, 0x00400801u, bytes >> 15 & 0xE00u);
}
// Eight codes in the upper bytes of halves to a string.
template <int kBits>
__device__ uint32_t join8(const Row& u) {
  if (kBits == 4) {
    const uint32_t p = __byte_perm(u.word[0], u.word[1], 0x7351), q = __byte_perm(u.word[2], u.word[3], 0x7351);
    return __byte_perm(p, q, 0x5410) + (__byte_perm(p, q, 0x7632) << 4);
  }
  const uint2 bytes = upper_bytes(u);
  return join4<kBits>(bytes.x) | join4<kBits>(bytes.y) << (4 * kBits);
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
// A string into zeros from bit `at` of the image on.
__device__ void put_string(std::byte* image, uint32_t at, uint32_t string) {
  auto* const word = reinterpret_cast<uint32_t*>(image) + at / 32;
  const uint32_t low = string << (at % 32), high = __funnelshift_l(string, 0, at % 32);
  if (low != 0) atomicOr(word, low);
  if (high != 0) atomicOr(word + 1, high);
}

// A payload in the making: escapes are kept at the top of the image, the first one highest, until it is known where they go.
struct Image {
  std::byte* at;
  uint32_t top;
  uint32_t values, second;  // bit of the second codes
  uint32_t opened, escapes;
};

// The symbols (a byte each) of the values whose bits are set, kStride bits apart.
template <int kStride>
__device__ void put_escapes(Image& image, uint32_t marks, uint2 symbols, int lane) {
  const Share share = share_of(static_cast<uint32_t>(__popc(marks)), lane);
  for (std::byte* to = image.at + image.top - image.escapes - share.before; marks != 0; marks &= marks - 1)
    *--to = static_cast<std::byte>(permute(symbols.x, symbols.y, static_cast<uint32_t>(__ffs(static_cast<int>(marks)) - 1) / kStride));
  image.escapes += share.total;
}

// kRows rows that follow each other; i0 is this lane's first value in the first of them. Not kFull: one row, of whose 8 values `valid` exist.
template <int kBits1, int kBits2, bool kTable, bool kFull, int kRows>
__device__ __forceinline__ void code_rows(const EncodeArgs& a, const Limits& w, Image& image, const Row (&rows)[kRows], uint32_t i0, int valid, int lane) {
  uint32_t opened[kRows], second[kRows], any = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t i = i0 + static_cast<uint32_t>(r) * kRowValues;
    const Row t = symbols_of<kTable>(rows[r], a, i), u = first_codes<kBits1>(t, w);
    const uint2 rest = rest_of(rows[r]);
    uint32_t string = join8<kBits1>(u);
    if (!kFull && valid < 8) string &= valid == 0 ? 0u : kAll >> (32 - valid * kBits1);
    std::byte* const codes = image.at + image.values + i / 8 * kBits1;
    if (kFull) {
      *reinterpret_cast<uint2*>(image.at + i) = rest;
      if (kBits1 == 4) *reinterpret_cast<uint32_t*>(codes) = string;
      else if (kBits1 == 2) *reinterpret_cast<uint16_t*>(codes) = static_cast<uint16_t>(string);
      else put_bytes(codes, string, 3);
    } else {
      put_bytes(image.at + i, rest.x, valid);
      put_bytes(image.at + i + 4, rest.y, valid - 4);
      put_bytes(codes, string, static_cast<int>(string_bytes(static_cast<uint32_t>(valid), kBits1)));
    }
    if (kBits2 == 0) {
      opened[r] = opened_of<kBits1>(string, kPlaces<kBits1>);
      any |= opened[r];
    } else {
      opened[r] = full_codes<kBits1>(upper_bytes(u)) & (kFull ? 255u : (1u << valid) - 1);
      const uint2 c = upper_bytes(second_codes<kBits1, kBits2>(t, w));
      const uint32_t selector = kCompactions.of[opened[r]];
      second[r] = join4<kBits2>(permute(c.x, c.y, selector)) | join4<kBits2>(permute(c.x, c.y, selector >> 16)) << (4 * kBits2);
      any |= opened_of<kBits2>(second[r], kPlaces<kBits2>);
    }
  }
  if (kBits2 != 0) {
    uint32_t own[kRows], places[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) own[r] = static_cast<uint32_t>(__popc(opened[r]));
    places_of<kRows>(own, image.opened, places);
#pragma unroll
    for (int r = 0; r < kRows; ++r) put_string(image.at, image.second + places[r] * kBits2, second[r]);
  }
  if (!__any_sync(kAll, any != 0)) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Row t = symbols_of<kTable>(rows[r], a, i0 + static_cast<uint32_t>(r) * kRowValues);
    if (kBits2 == 0) put_escapes<kBits1>(image, opened[r], upper_bytes(t), lane);
    else put_escapes<1>(image, opened[r] & full_codes<kBits2>(upper_bytes(second_codes<kBits1, kBits2>(t, w))), upper_bytes(t), lane);
  }
}

__device__ void load_group(Row (&rows)[kGroup], const std::byte* from) {
#pragma unroll
  for (int r = 0; r < kGroup; ++r) rows[r] = load_row(from + r * 2 * kRowValues, 8);
}

// All rows. `next` holds this lane's part of the first group if `groups` is not 0; the hash, if `hashed`, goes with groups.
template <int kBits1, int kBits2, bool kTable>
__device__ __forceinline__ void code_block(const EncodeArgs& a, const Choice& choice, Image& image, const std::byte* raw, uint32_t groups, bool hashed, Row (&next)[kGroup], WarpHash& hash, int lane) {
  const Limits w = limits_of(choice);
  const uint32_t n = image.values, i0 = 8 * static_cast<uint32_t>(lane);
  image.second = 8 * (n + string_bytes(n, kBits1));
  if (kBits2 != 0)  // second codes go into zeros
    for (uint32_t i = image.second / 128 + static_cast<uint32_t>(lane); i < image.top / 16; i += kLanes) reinterpret_cast<uint4*>(image.at)[i] = make_uint4(0, 0, 0, 0);
  __syncwarp();
#pragma unroll 1
  for (uint32_t g = 0; g < groups; ++g) {
    Row rows[kGroup];
#pragma unroll
    for (int r = 0; r < kGroup; ++r) rows[r] = next[r];
    if (g + 1 < groups) load_group(next, raw + 2 * (i0 + (g + 1) * kGroupValues));
    code_rows<kBits1, kBits2, kTable, true, kGroup>(a, w, image, rows, i0 + g * kGroupValues, 8, lane);
    if (hashed) {
      hash.add(rows[0], rows[1]);
      if (g + 1 == groups) hash.expect_last();
      hash.add(rows[2], rows[3]);
    }
  }
#pragma unroll 1
  for (uint32_t i = groups * kGroupValues; i < n; i += kRowValues) {
    const int valid = clamp8(static_cast<int>(n) - static_cast<int>(i + i0));
    const Row rows[1] = {load_row(raw + 2 * (i + i0), valid)};
    code_rows<kBits1, kBits2, kTable, false, 1>(a, w, image, rows, i + i0, valid, lane);
  }
  __syncwarp();
}

// Moves the escapes from the top of the image, where the first is highest, to `to`.
__device__ void settle_escapes(const Image& image, uint32_t to, int lane) {
  const uint32_t count = image.escapes, from = image.top - count;
  for (uint32_t k = static_cast<uint32_t>(lane); k < count / 2; k += kLanes) {
    const std::byte low = image.at[from + k];
    image.at[from + k] = image.at[image.top - 1 - k];
    image.at[image.top - 1 - k] = low;
  }
  __syncwarp();
  for (uint32_t k = static_cast<uint32_t>(lane); k < count + static_cast<uint32_t>(lane); k += kLanes) {  // all lanes as often
    const std::byte escape = k < count ? image.at[from + k] : std::byte{0};
    __syncwarp();
    if (k < count) image.at[to + k] = escape;
    __syncwarp();
  }
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

// Counts the sample's symbols; true if the values of row 0, which is in every sample, all equal its first.
template <bool kTable>
__device__ bool sample(const EncodeArgs& a, const std::byte* raw, uint32_t n, uint32_t* histogram, int lane) {
  constexpr int kAhead = 4;
  const uint32_t i0 = 8 * static_cast<uint32_t>(lane), rows = (n + kRowValues - 1) / kRowValues;
  const auto row_at = [](uint32_t k) { return 8 * k + k % 8; };  // row_is_sampled()
  bool equal = true;
  for (uint32_t k0 = 0; row_at(k0) < rows; k0 += kAhead) {
    Row row[kAhead];
    int valid[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      const uint32_t i = row_at(k0 + k) * kRowValues + i0;
      valid[k] = clamp8(static_cast<int>(n) - static_cast<int>(i));
      row[k] = load_row(raw + 2 * i, valid[k]);
    }
    if (k0 == 0) {
      const uint32_t leader = both_halves(__shfl_sync(kAll, row[0].word[0], 0));
      uint32_t differs = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) differs |= (row[0].word[i] ^ leader) & (valid[0] > 2 * i + 1 ? kAll : valid[0] > 2 * i ? 0xFFFFu : 0u);
      equal = !__any_sync(kAll, differs != 0);
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; ++k) {
      if (valid[k] == 0) continue;
      const Row t = symbols_of<kTable>(row[k], a, row_at(k0 + k) * kRowValues + i0);
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (e < valid[k]) atomicAdd(&histogram[t.word[e / 2] >> (e % 2 == 0 ? 8 : 24) & 255], 1u);
    }
  }
  return equal;
}

// Whether all values equal the first. Asked of few blocks.
__device__ bool all_equal(const std::byte* raw, uint32_t n, int lane) {
  const auto* const values = reinterpret_cast<const uint16_t*>(raw);
  const uint32_t leader = values[0];
  for (uint32_t i = 0; i < n; i += kRowValues) {
    const uint32_t i0 = i + 8 * static_cast<uint32_t>(lane);
    bool differs = false;
#pragma unroll
    for (uint32_t e = 0; e < 8; ++e) differs = differs || (i0 + e < n && values[i0 + e] != leader);
    if (__any_sync(kAll, differs)) return false;
  }
  return true;
}

// Shared memory for a block: the image, or before it a histogram and its sums.
__host__ __device__ constexpr uint32_t image_bytes(uint32_t block_values) { return round_up16(2 * block_values); }
constexpr uint32_t kChooserBytes = 4 * (256 + kSums);

template <bool kTable, bool kBalanced>
__global__ void __launch_bounds__(kLanes, kCtas) encode_bf16(const EncodeArgs a) {
  extern __shared__ __align__(16) std::byte memory[];
  const int lane = static_cast<int>(threadIdx.x);
  const uint32_t block = blockIdx.x;
  const uint32_t n = a.valid != nullptr ? a.valid[block] : block + 1 == a.from.blocks ? a.last_values : a.from.block_values;
  const auto* raw = reinterpret_cast<const std::byte*>(a.from.base + (a.from.page != nullptr ? a.from.page[block] : block) * a.from.stride);
  const uint32_t groups = n % 8 == 0 ? n / kGroupValues : 0;
  const bool hashed = a.hashes && n % kGroupValues == 0;  // by the coder of rows

  auto* const histogram = reinterpret_cast<uint32_t*>(memory);
#pragma unroll
  for (int i = 0; i < 2; ++i) reinterpret_cast<uint4*>(histogram)[2 * lane + i] = make_uint4(0, 0, 0, 0);
  __syncwarp();
  const bool constant = sample<kTable>(a, raw, n, histogram, lane) && all_equal(raw, n, lane);
  Row first[kGroup];
  if (groups != 0) load_group(first, raw + 16 * lane);
  __syncwarp();

  WarpHash hash(lane);
  Image image = {memory, image_bytes(a.from.block_values), n, 0, 0, 0};
  Choice choice = {Mode::kConst, 0, 0};
  uint32_t exact = 2, at3 = 0;
  const uint32_t raw_size = round_up16(2 * n);
  if (!constant) {
    choice = choose_by_warp<kBalanced>(histogram, histogram + 256, lane);
    __syncwarp();
    const auto code = [&]<int kBits1, int kBits2>() { code_block<kBits1, kBits2, kTable>(a, choice, image, raw, groups, hashed, first, hash, lane); };
    if (!kBalanced || choice.mode == Mode::kW4) code.template operator()<4, 0>();
    else if (choice.mode == Mode::kT23) code.template operator()<2, 3>();
    else if (choice.mode == Mode::kT33) code.template operator()<3, 3>();
    else if (choice.mode == Mode::kT22) code.template operator()<2, 2>();
    else code.template operator()<3, 0>();
    at3 = image.second / 8 + string_bytes(image.opened, windows_of(choice.mode).bits2);
    exact = at3 + image.escapes;
  }
  uint32_t size = round_up16(exact);
  if (!constant && size >= raw_size) choice = {Mode::kRaw, 0, 0}, size = raw_size, image.escapes = 0;
  if (lane == 0) publish(a.places + block, (block == 0 ? kTotal : kOwn) | size / 16);

  if (constant) {
    const uint32_t value = *reinterpret_cast<const uint16_t*>(raw);
    if (lane < 16) memory[lane] = static_cast<std::byte>(lane < 2 ? value >> (8 * lane) : 0);
  } else if (choice.mode != Mode::kRaw) {
    if (image.escapes != 0) settle_escapes(image, at3, lane);
    if (lane < 16 && exact + static_cast<uint32_t>(lane) < size) memory[exact + static_cast<uint32_t>(lane)] = std::byte{0};
  }
  uint64_t digest = 0;
  if (a.hashes) digest = hashed && !constant ? hash.finish(2 * n) : hash_memory(raw, 2 * n, lane);
  __syncwarp();
  const uint64_t place = block == 0 ? 0 : look_back(a.places, block, size / 16, lane);

  std::byte* const payload = a.frame + a.payloads + place * kAlign;
  if (choice.mode == Mode::kRaw) {
    for (uint32_t i = 8 * static_cast<uint32_t>(lane); i < n; i += kRowValues) {
      const int valid = clamp8(static_cast<int>(n) - static_cast<int>(i));
      store_row(load_row(raw + 2 * i, valid), payload + 2 * i, valid);
    }
    for (uint32_t at = 2 * n + static_cast<uint32_t>(lane); at < size; at += kLanes) payload[at] = std::byte{0};
  } else {
#pragma unroll 4
    for (uint32_t i = static_cast<uint32_t>(lane); i < size / 16; i += kLanes) __stcs(reinterpret_cast<uint4*>(payload) + i, reinterpret_cast<const uint4*>(memory)[i]);
  }
  if (lane == 0) {
    auto* const entry = reinterpret_cast<uint32_t*>(a.frame + a.directory + uint64_t{kEntryBytes} * block);
    entry[0] = static_cast<uint32_t>(place);
    entry[1] = size / 16 | (n - 1) << 16;
    entry[2] = image.escapes | static_cast<uint32_t>(choice.mode) << 16 | static_cast<uint32_t>(choice.shift) << 20 | static_cast<uint32_t>(choice.base) << 24;
    entry[3] = static_cast<uint32_t>(digest);
    entry[4] = static_cast<uint32_t>(digest >> 32);
    if (block + 1 == a.from.blocks) write_header(a, (place + size / 16) * kAlign);
  }
  if (block == 0)
    for (uint32_t i = static_cast<uint32_t>(lane); i < round_up16(a.period); i += kLanes) a.frame[kHeaderBytes + i] = static_cast<std::byte>(i < a.period ? a.table[i] : 0);
}

__global__ void encode_empty(const EncodeArgs a) { write_header(a, 0); }

template <bool kTable, bool kBalanced>
cudaError_t launch(const EncodeArgs& a, cudaStream_t stream) {
  if (a.from.blocks == 0) {
    encode_empty<<<1, 1, 0, stream>>>(a);
    return cudaGetLastError();
  }
  const uint32_t image = image_bytes(a.from.block_values);
  return launch_warps(encode_bf16<kTable, kBalanced>, a, a.from.blocks, image > kChooserBytes ? image : kChooserBytes, stream);
}

}  // namespace

const char* launch_encode(const EncodeArgs& a, bool balanced, device::StreamHandle stream) {
  if (const cudaError_t error = cudaMemsetAsync(a.places, 0, sizeof(*a.places) * a.from.blocks, stream); error != cudaSuccess) return error_name(error);
  if (a.period != 0) return error_name(balanced ? launch<true, true>(a, stream) : launch<true, false>(a, stream));
  return error_name(balanced ? launch<false, true>(a, stream) : launch<false, false>(a, stream));
}

}  // namespace zeroulp::codec::cuda
