#include "peaks.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/cpu.h"
#include "base/threads.h"
#include "ops/op.h"
#include "ops/simd_amx.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zeroulp::bench {

namespace {
double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
}  // namespace

double seconds_of(const std::function<void()>& call, double budget) {
  const double start = thread_seconds();
  call();
  const double first = std::max(thread_seconds() - start, 1e-9);
  const int64_t batch = std::max<int64_t>(1, static_cast<int64_t>(0.001 / first));
  double best = first;
  do {
    const double t = thread_seconds();
    for (int64_t i = 0; i < batch; ++i) call();
    best = std::min(best, (thread_seconds() - t) / static_cast<double>(batch));
  } while (thread_seconds() - start < budget);
  return best;
}

namespace {

volatile int64_t sink;  // keeps results alive

#if defined(__x86_64__)
constexpr int kSteps = 100000, kAccumulators = 12;

// The empty asm statements keep the compiler from folding the additions of a loop into one.
ZU_TARGET_AVX512 void vnni_steps() {
  __m512i acc[kAccumulators], w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5);
  ZU_UNROLL for (int a = 0; a < kAccumulators; ++a) acc[a] = _mm512_setzero_si512();
  for (int i = 0; i < kSteps; ++i) {
    ZU_UNROLL for (int a = 0; a < kAccumulators; ++a) acc[a] = _mm512_dpbusd_epi32(acc[a], w, x);
    asm volatile("" : "+v"(w), "+v"(x));
  }
  __m512i sum = acc[0];
  for (int a = 1; a < kAccumulators; ++a) sum = _mm512_add_epi32(sum, acc[a]);
  sink = _mm_cvtsi128_si32(_mm512_castsi512_si128(sum));
}

ZU_TARGET_AMX void amx_steps() {
  const ops::amx::Tiles tiles;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int i = 0; i < kSteps / 16; ++i) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
}

ZU_TARGET_AVX2 void maddwd_steps() {
  __m256i acc[kAccumulators], w = _mm256_set1_epi16(3), x = _mm256_set1_epi16(5);
  ZU_UNROLL for (int a = 0; a < kAccumulators; ++a) acc[a] = _mm256_setzero_si256();
  for (int i = 0; i < kSteps; ++i) {
    ZU_UNROLL for (int a = 0; a < kAccumulators; ++a) {
      acc[a] = _mm256_add_epi32(acc[a], _mm256_madd_epi16(w, x));
      asm volatile("" : "+x"(w), "+x"(x));
    }
  }
  __m256i sum = acc[0];
  for (int a = 1; a < kAccumulators; ++a) sum = _mm256_add_epi32(sum, acc[a]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(sum));
}

ZU_TARGET_AVX512 uint64_t read_quarters_avx512(const int8_t* p, size_t count) {
  const size_t quarter = count / 4 / 128 * 128;
  __m512i acc[8];
  ZU_UNROLL for (int a = 0; a < 8; ++a) acc[a] = _mm512_setzero_si512();
  for (size_t i = 0; i < quarter; i += 128) {
    ZU_UNROLL for (int a = 0; a < 8; ++a) {
      const int8_t* at = p + static_cast<size_t>(a / 2) * quarter + i + static_cast<size_t>(a % 2) * 64;
      _mm_prefetch(at + 2048, _MM_HINT_T0);
      acc[a] = _mm512_xor_si512(acc[a], _mm512_loadu_si512(at));
    }
  }
  for (int a = 1; a < 8; ++a) acc[0] = _mm512_xor_si512(acc[0], acc[a]);
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(acc[0]));
}

ZU_TARGET_AVX2 void read_all(const int8_t* p, size_t count) {
  __m256i acc[8];
  ZU_UNROLL for (int a = 0; a < 8; ++a) acc[a] = _mm256_setzero_si256();
  for (size_t i = 0; i + 256 <= count; i += 256) {
    ZU_UNROLL for (int a = 0; a < 8; ++a) {
      acc[a] = _mm256_xor_si256(acc[a], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + a * 32)));
    }
  }
  for (int a = 1; a < 8; ++a) acc[0] = _mm256_xor_si256(acc[0], acc[a]);
  sink = _mm_cvtsi128_si32(_mm256_castsi256_si128(acc[0]));
}
#endif

}  // namespace

double peak_amx_gmacs() {
#if defined(__x86_64__)
  if (cpu_features().amx_int8) return 16384e-9 * (kSteps / 16) * 4 / seconds_of(amx_steps);
#endif
  return 0;
}
double peak_vnni_gmacs() {
#if defined(__x86_64__)
  if (cpu_features().avx512_vnni) return 64e-9 * kSteps * kAccumulators / seconds_of(vnni_steps);
#endif
  return 0;
}
double peak_maddwd_gmacs() {
#if defined(__x86_64__)
  if (cpu_features().avx2) return 16e-9 * kSteps * kAccumulators / seconds_of(maddwd_steps);
#endif
  return 0;
}
double read_bandwidth(std::span<const int8_t> bytes) {
#if defined(__x86_64__)
  if (cpu_features().avx2) return static_cast<double>(bytes.size()) / seconds_of([&] { read_all(bytes.data(), bytes.size()); });
#endif
  return static_cast<double>(bytes.size()) / seconds_of([&] {
           uint64_t sum = 0;
           for (int8_t b : bytes) sum += static_cast<uint8_t>(b);
           sink = static_cast<int64_t>(sum);
         });
}


namespace {
// Four quarters side by side: what memory gives to one thread that asks well.
uint64_t read_quarters(const int8_t* p, size_t count) {
#if defined(__x86_64__)
  if (cpu_features().avx512_vnni) return read_quarters_avx512(p, count);
#endif
  uint64_t sum = 0;
  const size_t quarter = count / 4 / 64 * 64;
  for (size_t i = 0; i < quarter; i += 8)
    for (size_t q = 0; q < 4; ++q) {
      uint64_t word;
      std::memcpy(&word, p + q * quarter + i, 8);
      sum ^= word;
    }
  return sum;
}
}  // namespace

double read_bandwidth(std::span<const int8_t> bytes, int threads) {
  ThreadPool pool(threads);
  double best = 1e9;
  for (int pass = 0; pass < 15; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(static_cast<int64_t>(bytes.size()), 4096, [&](int64_t begin, int64_t end, int) {
      sink = static_cast<int64_t>(read_quarters(bytes.data() + begin, static_cast<size_t>(end - begin)));
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return static_cast<double>(bytes.size()) / best;
}

}  // namespace zeroulp::bench
