// Data for the codec's tests: by recipe, the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "codec/frame.h"

namespace zeroulp::codec {

using ByteVector = std::vector<std::byte>;

struct Random {  // splitmix64
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(next() % n); }
};

enum class Shape {
  kHalving,  // exponent middle - k with probability 2^-(k+1), k up to spread
  kBell,     // k = number of ones among `spread` random bits, like weights and caches
  kFlat,     // k below spread, equally often
};

// Values of a type with exponents middle - k; with probability wild / 4096 the exponent is any. Exact on every machine.
inline ByteVector exponent_data(Type type, uint32_t n, int middle, int spread, uint32_t wild, uint64_t seed, Shape shape = Shape::kHalving) {
  const TypeInfo& t = type_info(type);
  const uint32_t symbols = 1u << t.exponent_bits, width = static_cast<uint32_t>(8 * t.bytes);
  Random random{seed};
  ByteVector bytes(size_t{n} * static_cast<uint32_t>(t.bytes));
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t r = random.next();
    int k = 0;
    if (shape == Shape::kFlat) k = static_cast<int>(r % static_cast<uint32_t>(spread));
    if (shape == Shape::kBell) k = __builtin_popcountll(r & ((1u << spread) - 1));
    while (shape == Shape::kHalving && k < spread && ((r >> k) & 1) != 0) ++k;
    uint32_t exponent = static_cast<uint32_t>(middle - k);
    if ((r >> 20) % 4096 < wild) exponent = static_cast<uint32_t>(r >> 40);
    if (t.exponent_bits == 0) exponent = 0;
    const uint32_t rest = static_cast<uint32_t>(random.next());
    uint32_t rotated = t.exponent_bits == 0 ? rest : (exponent % symbols) << rest_bits(t) | (rest & ((1u << rest_bits(t)) - 1));
    const uint32_t value = rotated >> 1 | (rotated & 1) << (width - 1);
    std::memcpy(bytes.data() + size_t{i} * static_cast<uint32_t>(t.bytes), &value, static_cast<size_t>(t.bytes));
  }
  return bytes;
}

inline constexpr Type kAllTypes[] = {Type::kBF16, Type::kF16, Type::kF32, Type::kF8E4M3, Type::kF8E5M2, Type::kBytes};

inline ByteVector random_bytes(size_t n, uint64_t seed) {
  Random random{seed};
  ByteVector bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() >> 17);
  return bytes;
}

// Encodes to a frame of exact length; fails the test (empty frame) on an error.
inline ByteVector frame_of(const Kernels& kernels, const FrameOptions& o, const ByteVector& raw, ThreadPool* pool = nullptr) {
  ByteVector to(frame_bound(o, raw.size(), static_cast<uint32_t>(blocks_of(o, raw.size()))));
  auto used = encode_frame(kernels, o, raw, to, pool);
  to.resize(used ? *used : 0);
  return to;
}

// Decodes a frame as a tensor; the error's text instead if there is one.
inline std::string decode_to(const Kernels& kernels, const ByteVector& frame, ByteVector& raw, ThreadPool* pool = nullptr) {
  auto f = Frame::open(frame, "f");
  if (!f) return f.error().text;
  raw.assign(f->header().raw_bytes, std::byte{0xEE});
  auto status = decode_frame(kernels, *f, raw, "f", pool);
  return status ? "" : status.error().text;
}

}  // namespace zeroulp::codec
