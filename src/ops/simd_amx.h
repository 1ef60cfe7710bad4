// AMX tile registers: tiles of 16 rows of 64 bytes. TDPBSSD adds, to a tile C of 16 x 16 int32, the products of a tile A (16 rows of 64 signed
// bytes) and a tile B: [16 quads of k][16 columns][4].
#pragma once

#include "ops/op.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace zeroulp::ops::amx {

inline constexpr int64_t kSide = 16;       // rows of A, columns of B
inline constexpr int64_t kDepth = 64;      // bytes of k
inline constexpr int64_t kRowBytes = 64;   // of every tile
inline constexpr int64_t kTileBytes = kSide * kRowBytes;

// All eight tile registers at full size; given back at the end, so that nothing has to be saved when threads are switched.
class Tiles {
 public:
  ZU_TARGET_AMX Tiles() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, zero[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  ZU_TARGET_AMX ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// g++'s tile loads do not say that they read memory.
inline void stores_before_tile_loads() { asm volatile("" ::: "memory"); }

}  // namespace zeroulp::ops::amx
#endif
