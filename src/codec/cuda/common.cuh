// What the encoder and the decoder share: a block of BF16 values in the registers of 256 threads, and its hash.
//
// A warp holds R rows of 256 consecutive values, a lane 8 consecutive values (16 bytes) of each. So loads and stores are coalesced 16-byte
// accesses, and order within a block is warp, row, lane, value.
#pragma once

#include <cstdint>

#include "codec/choose.h"
#include "codec/cuda/args.h"
#include "codec/format.h"
#include "codec/xxh3.h"

namespace zeroulp::codec::cuda {

inline constexpr int kThreads = 256, kWarps = 8;
inline constexpr unsigned kAll = 0xFFFFFFFFu;

// CTAs that must fit on a multiprocessor: enough loads in flight to keep the memory busy.
template <int R>
inline constexpr int kCtas = R <= 4 ? 5 : R <= 6 ? 3 : 1;

template <bool kValue>
struct Full {
  static constexpr bool value = kValue;
};

struct Row {
  uint32_t word[4];
};

// Of `left` values, those among the next 8. The empty instruction keeps maximum and minimum apart: ptxas of CUDA 13.0 fuses them to
// VIMNMX.RELU and then takes that instruction's predicate for "equals 8", which it is not.
__device__ inline int clamp8(int left) {
  int n = left < 0 ? 0 : left;
  asm volatile("" : "+r"(n));
  return n > 8 ? 8 : n;
}

// `valid` of 8 values; the others are 0.
__device__ inline Row load_row(const std::byte* from, int valid) {
  Row row = {{0, 0, 0, 0}};
  if (valid == 8) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{v.x, v.y, v.z, v.w}};
  }
  const auto* values = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < valid) row.word[e / 2] |= uint32_t{values[e]} << (16 * (e % 2));
  return row;
}

// The same from shared memory.
__device__ inline Row load_shared_row(const std::byte* from, int valid) {
  Row row = {{0, 0, 0, 0}};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (valid > 2 * i) row.word[i] = reinterpret_cast<const uint32_t*>(from)[i];
  if (valid % 2 != 0) row.word[valid / 2] &= 0xFFFFu;
  return row;
}

__device__ inline void store_row(const Row& row, std::byte* to, int valid) {
  if (valid == 8) {
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(row.word[0], row.word[1], row.word[2], row.word[3]));
    return;
  }
  auto* values = reinterpret_cast<uint16_t*>(to);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < valid) values[e] = static_cast<uint16_t>(row.word[e / 2] >> (16 * (e % 2)));
}

// Each 16-bit half rotated left by one: exponent in the high byte, rest in the low one.
__device__ inline uint32_t rotate_left(uint32_t w) { return ((w << 1) & 0xFFFEFFFEu) | ((w >> 15) & 0x00010001u); }
__device__ inline uint32_t rotate_right(uint32_t x) { return ((x >> 1) & 0x7FFF7FFFu) | ((x << 15) & 0x80008000u); }

// The table's bytes for 8 consecutive values from value i on, as two words. A period that is a multiple of 8 keeps them together.
__device__ inline uint2 table_at(const uint8_t* table, uint32_t period, uint32_t i) {
  if (period % 8 == 0) return *reinterpret_cast<const uint2*>(table + i % period);
  uint2 t = {0, 0};
#pragma unroll
  for (uint32_t e = 0; e < 8; ++e) (e < 4 ? t.x : t.y) |= uint32_t{table[(i + e) % period]} << (8 * (e % 4));
  return t;
}

// Two 64-bit accumulators' sums of each KiB of the block, by all warps; kib_sums[k][8] afterwards needs a barrier. R is even, so a KiB
// lies in one warp. `bytes` is the block's length; only whole KiB are right.
template <int R>
__device__ inline void hash_rows(const Row (&rows)[R], int warp, int lane, uint32_t bytes, uint64_t (*kib_sums)[8]) {
  const uint32_t q = static_cast<uint32_t>(lane) % 4, stripe = static_cast<uint32_t>(lane) / 4;
  uint64_t keys[2][2];
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h)
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) keys[h][i] = xxh3::secret(8 * (8 * h + stripe + 2 * q + i));
#pragma unroll
  for (int j = 0; j < R / 2; ++j) {
    const uint32_t kib = static_cast<uint32_t>(warp * R) / 2 + static_cast<uint32_t>(j);
    uint64_t even = 0, odd = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Row& row = rows[2 * j + h];
      const uint64_t a = uint64_t{row.word[1]} << 32 | row.word[0], b = uint64_t{row.word[3]} << 32 | row.word[2];
      uint64_t key_a = keys[h][0], key_b = keys[h][1];
      if (h == 1 && stripe == 7 && (kib + 1) * xxh3::kKib == bytes) {  // the last 64 bytes
        key_a = xxh3::secret(xxh3::kLastSecret + 16 * q);
        key_b = xxh3::secret(xxh3::kLastSecret + 16 * q + 8);
      }
      even += xxh3::product(a, key_a) + b;
      odd += xxh3::product(b, key_b) + a;
    }
    const bool upper = (lane & 16) != 0;  // keeps the odd accumulator
    uint64_t sum = (upper ? odd : even) + __shfl_xor_sync(kAll, upper ? even : odd, 16);
    sum += __shfl_xor_sync(kAll, sum, 8);
    sum += __shfl_xor_sync(kAll, sum, 4);
    if ((lane & 12) == 0) kib_sums[kib][2 * q + (upper ? 1 : 0)] = sum;
  }
}

// By one whole warp: the hash of bytes whose KiB are not summed yet, or whose length is no whole number of KiB. Kept out of line.
static __device__ __noinline__ uint64_t hash_of_odd(const uint64_t (*kib_sums)[8], const std::byte* bytes, uint32_t length, int lane);

// By one whole warp: adds a stripe in memory to the accumulator of lane % 8.
__device__ inline uint64_t add_stripe(uint64_t sum, const std::byte* stripe, uint32_t secret, uint32_t i) {
  const uint64_t word = xxh3::read64(stripe + 8 * i);
  return sum + xxh3::product(word, xxh3::secret(secret + 8 * i)) + __shfl_xor_sync(kAll, word, 1);
}

// The eight accumulators of lanes 0 to 7 to the result, in every lane.
__device__ inline uint64_t merge_lanes(uint64_t sum, uint32_t i, uint32_t length) {
  const uint64_t other = __shfl_xor_sync(kAll, sum, 1);
  uint64_t h = i % 2 == 0 ? xxh3::merged(sum, other, i / 2) : xxh3::merged(other, sum, i / 2);
  h += __shfl_xor_sync(kAll, h, 2);
  h += __shfl_xor_sync(kAll, h, 4);
  return xxh3::avalanche(length * xxh3::kPrime1 + h);
}

static __device__ __noinline__ uint64_t hash_of_odd(const uint64_t (*kib_sums)[8], const std::byte* bytes, uint32_t length, int lane) {
  if (length <= xxh3::kShort) return xxh3::of_short(bytes, length);
  const uint32_t i = static_cast<uint32_t>(lane) % 8, full = xxh3::full_kib(length);
  uint64_t sum = xxh3::start(i);
  for (uint32_t k = 0; k < full; ++k) {
    if (kib_sums != nullptr) sum += kib_sums[k][i];
    else
      for (uint32_t s = 0; s < 16; ++s) sum = add_stripe(sum, bytes + k * xxh3::kKib + s * xxh3::kStripe, 8 * s, i);
    sum = xxh3::scramble(sum, i);
  }
  for (uint32_t s = 0; s < xxh3::loose_stripes(length); ++s) sum = add_stripe(sum, bytes + full * xxh3::kKib + s * xxh3::kStripe, 8 * s, i);
  sum = add_stripe(sum, bytes + length - xxh3::kStripe, xxh3::kLastSecret, i);
  return merge_lanes(sum, i, length);
}

// By one whole warp: the hash of a block whose whole KiB are summed in kib_sums. Right in every lane.
__device__ inline uint64_t finish_hash(const uint64_t (*kib_sums)[8], const std::byte* bytes, uint32_t length, int lane) {
  if (length % xxh3::kKib != 0) return hash_of_odd(kib_sums, bytes, length, lane);
  const uint32_t i = static_cast<uint32_t>(lane) % 8, full = xxh3::full_kib(length);
  const uint64_t key = xxh3::secret(xxh3::kScrambleSecret + 8 * i);
  uint64_t sum = xxh3::start(i) + kib_sums[0][i];
  for (uint32_t k = 1; k <= full; ++k) sum = (sum ^ sum >> 47 ^ key) * xxh3::kPrime32_1 + kib_sums[k][i];
  return merge_lanes(sum, i, length);
}

// Bits i * bits of the codes that are all ones.
__device__ inline uint32_t opened_of(uint32_t string, int bits) {
  uint32_t m = string & string >> 1;
  if (bits > 2) m &= string >> 2;
  if (bits > 3) m &= string >> 3;
  return m & (bits == 2 ? 0x5555u : bits == 3 ? 0x249249u : 0x11111111u);
}

// Inclusive sum over the warp.
__device__ inline uint32_t warp_scan(uint32_t x, int lane) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t y = __shfl_up_sync(kAll, x, d);
    if (lane >= d) x += y;
  }
  return x;
}

// For rows of marked values (a bit each): how many marks come before this lane's of each row, `before` of them before the warp's.
template <int R>
__device__ inline void places_of(const uint32_t (&marks)[R], int lane, uint32_t before, uint32_t (&places)[R]) {
#pragma unroll
  for (int r = 0; r < R; r += 2) {
    const uint32_t low = static_cast<uint32_t>(__popc(marks[r])), high = static_cast<uint32_t>(__popc(marks[r + 1])), own = low | high << 16;
    const uint32_t through = __any_sync(kAll, own != 0) ? warp_scan(own, lane) : 0;  // at most 256 in each half
    const uint32_t total = __shfl_sync(kAll, through, 31);
    places[r] = before + (through & 0xFFFFu) - low;
    before += total & 0xFFFFu;
    places[r + 1] = before + (through >> 16) - high;
    before += total >> 16;
  }
}

}  // namespace zeroulp::codec::cuda
