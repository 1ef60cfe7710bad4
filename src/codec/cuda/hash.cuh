// XXH3-64 of a block by one warp, KiB after KiB, out of the rows that it holds anyway. xxh3.h defines the pieces.
#pragma once

#include "codec/cuda/common.cuh"
#include "codec/xxh3.h"

namespace zeroulp::codec::cuda {

// What a lane needs: it has the words 2q and 2q + 1 of stripe lane / 4 of a row (q = lane % 4), and keeps accumulator 2q, lanes from 16 on 2q + 1.
struct LaneKeys {
  uint64_t key[2][2];      // for both words, in the first and the second row of a KiB
  uint64_t last[2];        // in the second row of the last KiB, whose last stripe has keys of its own
  uint64_t merge[2];
  uint64_t before_start;   // becomes the accumulator's start by a scramble, so that the first KiB is like the others
  uint64_t scramble;
};
struct LaneKeyTable {
  LaneKeys lane[kLanes];
};

constexpr LaneKeyTable lane_keys() {
  const xxh3::Secret words = xxh3::secret_words();
  const auto secret = [&](uint32_t offset) {
    const uint32_t i = offset / 8, shift = offset % 8 * 8;
    return shift == 0 ? words.word[i] : words.word[i] >> shift | words.word[i + 1] << (64 - shift);
  };
  uint64_t inverse = xxh3::kPrime32_1;  // modulo 2^64; each step doubles the bits that are right
  for (int i = 0; i < 5; ++i) inverse *= 2 - xxh3::kPrime32_1 * inverse;
  LaneKeyTable t{};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t q = lane % 4, stripe = lane / 4, i = 2 * q + lane / 16;
    LaneKeys& k = t.lane[lane];
    for (uint32_t w = 0; w < 2; ++w) {
      for (uint32_t h = 0; h < 2; ++h) k.key[h][w] = secret(8 * (8 * h + stripe + 2 * q + w));
      k.last[w] = stripe == 7 ? secret(xxh3::kLastSecret + 16 * q + 8 * w) : k.key[1][w];
      k.merge[w] = secret(xxh3::kMergeSecret + 16 * q + 8 * w);
    }
    k.scramble = secret(xxh3::kScrambleSecret + 8 * i);
    const uint64_t mixed = (xxh3::start(i) * inverse) ^ k.scramble;
    k.before_start = mixed ^ mixed >> 47;
  }
  return t;
}
static __device__ const LaneKeyTable kLaneKeys = lane_keys();

class WarpHash {
 public:
  __device__ explicit WarpHash(int lane) : lane_(lane), sum_(keys().before_start), scramble_(keys().scramble) {
#pragma unroll
    for (int i = 0; i < 4; ++i) key_[i / 2][i % 2] = keys().key[i / 2][i % 2];
  }

  // The KiB added next is the input's last.
  __device__ void expect_last() {
    key_[1][0] = keys().last[0];
    key_[1][1] = keys().last[1];
  }

  // Adds a KiB of which this lane has 16 bytes in either half, in the order of lanes.
  __device__ void add(const uint4& first, const uint4& second) { add(sum_of(first, second)); }
  __device__ void add(uint64_t sum) { sum_ = scrambled() + sum; }
  // A KiB's part of it, which does not depend on what came before: of accumulator accumulator(lane).
  __device__ uint64_t sum_of(const uint4& first, const uint4& second) const {
    uint64_t even = 0, odd = 0;
    add_row(first, key_[0], even, odd);
    add_row(second, key_[1], even, odd);
    const bool upper = (lane_ & 16) != 0;
    uint64_t sum = (upper ? odd : even) + __shfl_xor_sync(kAll, upper ? even : odd, 16);
    sum += __shfl_xor_sync(kAll, sum, 8);
    sum += __shfl_xor_sync(kAll, sum, 4);
    return sum;
  }
  static __device__ uint32_t accumulator(int lane) { return 2 * (static_cast<uint32_t>(lane) % 4) + static_cast<uint32_t>(lane) / 16; }

  // Of `length` bytes, a whole number of KiB; in every lane.
  __device__ uint64_t finish(uint32_t length) const { return finish(sum_, length); }

  // Of `length` bytes at `bytes`, full_kib(length) KiB of which are added, and more follow.
  __device__ uint64_t finish_odd(const std::byte* bytes, uint32_t length) const {
    uint64_t sum = scrambled();
    const std::byte* at = bytes + xxh3::full_kib(length) * xxh3::kKib;
    for (uint32_t s = 0; s < xxh3::loose_stripes(length); ++s) sum = add_stripe(sum, at + s * xxh3::kStripe, 8 * s);
    return finish(add_stripe(sum, bytes + length - xxh3::kStripe, xxh3::kLastSecret), length);
  }

 private:
  __device__ const LaneKeys& keys() const { return kLaneKeys.lane[lane_]; }
  __device__ uint64_t scrambled() const { return (sum_ ^ sum_ >> 47 ^ scramble_) * xxh3::kPrime32_1; }

  __device__ static void add_row(const uint4& row, const uint64_t (&key)[2], uint64_t& even, uint64_t& odd) {
    const uint64_t a = uint64_t{row.y} << 32 | row.x, b = uint64_t{row.w} << 32 | row.z;
    even += xxh3::product(a, key[0]) + b;
    odd += xxh3::product(b, key[1]) + a;
  }

  __device__ uint64_t add_stripe(uint64_t sum, const std::byte* stripe, uint32_t offset) const {
    const uint32_t i = accumulator(lane_);
    const uint64_t word = xxh3::read64(stripe + 8 * i);
    return sum + xxh3::product(word, xxh3::secret(offset + 8 * i)) + __shfl_xor_sync(kAll, word, 16);
  }

  __device__ uint64_t finish(uint64_t sum, uint32_t length) const {
    const uint64_t other = __shfl_xor_sync(kAll, sum, 16);
    const bool upper = (lane_ & 16) != 0;
    uint64_t h = xxh3::fold((upper ? other : sum) ^ keys().merge[0], (upper ? sum : other) ^ keys().merge[1]);
    h += __shfl_xor_sync(kAll, h, 1);
    h += __shfl_xor_sync(kAll, h, 2);
    return xxh3::avalanche(length * xxh3::kPrime1 + h);
  }

  int lane_;
  uint64_t sum_, scramble_, key_[2][2];
};

// Of `length` bytes from an address that is a multiple of 16; in every lane.
__device__ __forceinline__ uint64_t hash_bytes(const std::byte* bytes, uint32_t length, int lane) {
  if (length <= xxh3::kShort) return xxh3::of_short(bytes, length);
  WarpHash hash(lane);
  const auto add = [&](uint32_t kib) {
    const std::byte* at = bytes + kib * xxh3::kKib + 16 * lane;
    hash.add(*reinterpret_cast<const uint4*>(at), *reinterpret_cast<const uint4*>(at + 512));
  };
  const uint32_t full = xxh3::full_kib(length);
#pragma unroll 2
  for (uint32_t k = 0; k < full; ++k) add(k);
  if (length % xxh3::kKib != 0) return hash.finish_odd(bytes, length);
  hash.expect_last();
  add(full);
  return hash.finish(length);
}
// The same of global memory and out of line, for what is rarely hashed.
static __device__ __noinline__ uint64_t hash_memory(const std::byte* bytes, uint32_t length, int lane) { return hash_bytes(bytes, length, lane); }

}  // namespace zeroulp::codec::cuda
