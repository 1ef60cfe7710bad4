// Philox-4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): counter-based, the same on every target.
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"

namespace zeroulp::num {

using PhiloxCounter = std::array<uint32_t, 4>;

ZU_HD constexpr PhiloxCounter philox_4x32_10(PhiloxCounter c, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1), static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Known answers of the authors' distribution (kat_vectors).
static_assert(philox_4x32_10({0, 0, 0, 0}, 0) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox_4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~uint64_t{0}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});

// A stream for tests, seeded weights and other uses outside the contract.
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t seed, uint64_t stream = 0) : key_(seed), stream_(stream) {}
  uint32_t next() {
    if (used_ == 4) {
      block_ = philox_4x32_10({static_cast<uint32_t>(index_), static_cast<uint32_t>(index_ >> 32), static_cast<uint32_t>(stream_),
                               static_cast<uint32_t>(stream_ >> 32)},
                              key_);
      ++index_;
      used_ = 0;
    }
    return block_[used_++];
  }
  uint64_t next64() {
    const uint64_t high = next();
    return (high << 32) | next();
  }
  // [0, n), by multiplication; n <= 2^32. The bias of at most 2^-32 is of no account here.
  uint32_t below(uint64_t n) { return static_cast<uint32_t>((next() * n) >> 32); }
  // Uniform in [-1, 1), a multiple of 2^-23.
  float symmetric() { return static_cast<float>(static_cast<int32_t>(next() >> 8) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t key_, stream_, index_ = 0;
  PhiloxCounter block_{};
  size_t used_ = 4;
};

}  // namespace zeroulp::num
