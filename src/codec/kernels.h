// The inner loops of the block codec, one table per instruction set. Every entry gives the reference's bytes.
//
// Arrays of symbols and codes (`left` too) have a byte per value and kSlack readable and writable bytes behind their end; payloads and raw
// values have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "base/result.h"
#include "codec/format.h"

namespace zeroulp::codec {

inline constexpr size_t kSlack = 64;

// One level of codes: symbols in [begin, begin + width), without those in [hole, hole + hole_width), are numbered from 0 upwards.
struct Window {
  uint8_t begin, width;       // width counts the symbols that have a code
  uint8_t hole, hole_width;   // hole_width 0: none
};

// What a kernel asks memory for while it computes, a line of 64 bytes after every few values: one core waits too long for it otherwise. What is not there is
// not touched.
struct Soon {
  const std::byte* from = nullptr;
  uint32_t lines = 0;
};
// kInto: 3 the first-level cache, 2 the second.
template <int kInto = 2>
inline __attribute__((always_inline)) void ask(Soon& s) {
  if (s.lines == 0) return;
  __builtin_prefetch(s.from, 0, kInto);
  s.from += 64, --s.lines;
}

enum class Needs { kNothing, kAvx2, kAvx512Vbmi };
// Empty when this processor can run it; otherwise why not.
std::string why_unavailable(Needs needs, const CpuFeatures& cpu);

struct Kernels {
  std::string_view name;
  Needs needs;

  // BF16 rotated left by one bit: the high byte is the symbol (exponent), the low byte the rest.
  void (*split_bf16)(const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols);
  void (*merge_bf16)(const std::byte* rest, const uint8_t* symbols, uint32_t n, std::byte* raw);
  // W4 of BF16 in one pass: split_bf16, code in the window of 15 symbols from `begin` on, and pack; and back. `codes` are strings. Both return
  // how many values are outside the window; the inverse reads so many of `left`, which has n readable bytes.
  uint32_t (*encode_w4)(const std::byte* raw, uint32_t n, uint8_t begin, std::byte* rest, std::byte* codes, uint8_t* left, Soon&);
  uint32_t (*decode_w4)(const std::byte* rest, const std::byte* codes, uint32_t n, uint8_t begin, const uint8_t* left, std::byte* raw, Soon&);
  // codes[i] = number in the window, or w.width; what has no number goes to `left` in order. Returns how many.
  uint32_t (*code)(const uint8_t* symbols, uint32_t n, Window w, uint8_t* codes, uint8_t* left);
  // The inverse; `left` must hold as many symbols as there are codes equal to w.width.
  void (*decode)(const uint8_t* codes, uint32_t n, Window w, const uint8_t* left, uint8_t* symbols);
  uint32_t (*count)(const uint8_t* codes, uint32_t n, uint8_t value);
  // counts[256]: how often each symbol occurs.
  void (*histogram)(const uint8_t* symbols, uint32_t n, uint32_t* counts, Soon&);
  // Strings of codes of 2, 3 or 4 bits, the first code in the lowest bits; unused bits of the last byte are 0.
  void (*pack)(const uint8_t* codes, uint32_t n, int bits, std::byte* to);
  void (*unpack)(const std::byte* from, uint32_t n, int bits, uint8_t* codes);
  uint64_t (*hash)(const std::byte* bytes, size_t count, Soon&);  // XXH3-64, seed 0
  // A copy to memory that is not read soon: past the caches where that can be, so that memory need not be read first. end_copies() before other
  // threads read it. Null: there is no such way.
  void (*copy_out)(const std::byte* from, size_t bytes, std::byte* to);
  void (*end_copies)();
};

// Where, seen from a code of W4, the next block of 16 KiB has its like: a kernel whose stores wait for memory asks for that too.
inline constexpr uint32_t kNextPayload = 12352;
inline __attribute__((always_inline)) void will_write(const std::byte* to) { __builtin_prefetch(to, 1, 3); }

extern const Kernels kReference;
#if defined(__x86_64__)
extern const Kernels kAvx2, kAvx512;
#endif

// Slowest first.
std::span<const Kernels* const> kernel_table();
// The table called `wanted`, or the fastest that runs here when empty.
Result<const Kernels*> select_kernels(std::string_view wanted, const CpuFeatures& cpu);

}  // namespace zeroulp::codec
