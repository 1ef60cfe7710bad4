#include "codec/block.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "codec/choose.h"
#include "codec/rans.h"
#include "codec/samples.h"
#include "codec/symbols.h"

namespace zeroulp::codec {
namespace {

// Encodes and decodes one block with every kernel that runs here; all payloads must be equal, and the values come back.
Entry round_trip(const Coding& coding, Level level, const ByteVector& raw) {
  const uint32_t n = static_cast<uint32_t>(raw.size()) / static_cast<uint32_t>(type_info(coding.type).bytes);
  ByteVector first;
  Entry entry;
  int kernels_run = 0;
  for (const Kernels* k : kernel_table()) {
    if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
    ++kernels_run;
    // One guard byte behind everything: the kernels must not touch it.
    ByteVector payload(round_up16(raw.size()) + 1, std::byte{0xA5}), back(raw.size() + 1, std::byte{0x5A});
    ByteVector exact(raw);
    Scratch scratch(n);
    const Entry e = encode_block(*k, coding, level, exact.data(), n, payload.data(), scratch);
    EXPECT_LE(e.size, round_up16(raw.size()));
    EXPECT_EQ(payload.back(), std::byte{0xA5});
    ByteVector used(payload.begin(), payload.begin() + e.size);
    if (first.empty()) first = used, entry = e;
    EXPECT_EQ(used, first) << k->name;
    EXPECT_EQ(e.mode, entry.mode) << k->name;
    EXPECT_EQ(decode_block(*k, coding, e, used.data(), back.data(), scratch), Fault::kNone) << k->name;
    EXPECT_EQ(back.back(), std::byte{0x5A});
    back.pop_back();
    EXPECT_EQ(back, raw) << k->name << ' ' << kModeNames[static_cast<int>(e.mode)];
  }
  EXPECT_GE(kernels_run, 1);
  return entry;
}

TEST(Block, EveryTypeComesBackAtEveryLevelAndSize) {
  uint64_t seed = 1;
  std::set<Mode> modes;
  for (const Type type : kAllTypes)
    for (const Level level : {Level::kFast, Level::kBalanced, Level::kRest})
      for (const uint32_t n : {1u, 2u, 3u, 7u, 31u, 64u, 65u, 255u, 256u, 257u, 1000u, 4096u, 9216u, 65536u})
        for (const Shape shape : {Shape::kHalving, Shape::kBell, Shape::kFlat})
          for (const int spread : {1, 4, 7, 12})
            modes.insert(round_trip({type, {}}, level, exponent_data(type, n, (1 << type_info(type).exponent_bits) / 2, spread, 20, ++seed, shape)).mode);
  for (uint8_t m = 0; m < kModes; ++m) EXPECT_TRUE(modes.count(static_cast<Mode>(m))) << kModeNames[m] << " was never chosen";
}

TEST(Block, AllPatternsOf16BitTypesComeBack) {
  for (const Type type : {Type::kBF16, Type::kF16}) {
    ByteVector raw(131072);
    for (uint32_t i = 0; i < 65536; ++i) std::memcpy(raw.data() + 2 * i, &i, 2);
    round_trip({type, {}}, Level::kRest, raw);
    // With one exponent in most places the windows are used, and every pattern still occurs: 64 blocks.
    for (uint32_t part = 0; part < 64; ++part) {
      ByteVector mixed = exponent_data(type, 65536, 14, 3, 0, part);
      for (uint32_t i = 0; i < 1024; ++i) {
        const uint32_t value = part * 1024 + i;
        std::memcpy(mixed.data() + 128 * i + 2, &value, 2);
      }
      EXPECT_TRUE(has_windows(round_trip({type, {}}, Level::kBalanced, mixed).mode));
    }
  }
}

TEST(Block, AllPatternsOf8BitTypesComeBack) {
  for (const Type type : {Type::kF8E4M3, Type::kF8E5M2, Type::kBytes}) {
    ByteVector raw(256);
    for (uint32_t i = 0; i < 256; ++i) raw[i] = static_cast<std::byte>(i);
    for (const Level level : {Level::kFast, Level::kRest}) EXPECT_EQ(round_trip({type, {}}, level, raw).mode, Mode::kRaw);
  }
}

TEST(Block, WindowsReachBothEndsOfTheRange) {
  for (const Type type : {Type::kBF16, Type::kF16, Type::kF32, Type::kF8E4M3, Type::kF8E5M2}) {
    const int symbols = 1 << type_info(type).exponent_bits;
    for (const Level level : {Level::kFast, Level::kBalanced})
      for (const int middle : {0, 1, 3, symbols / 2, symbols - 2, symbols - 1}) {
        // Exponents below 0 wrap to the top: two clusters at the ends.
        round_trip({type, {}}, level, exponent_data(type, 5000, middle, 6, 5, static_cast<uint64_t>(middle)));
      }
  }
}

TEST(Block, ConstantsTakeSixteenBytes) {
  for (const Type type : kAllTypes)
    for (const uint32_t n : {1u, 5u, 8192u, 65536u}) {
      ByteVector raw(size_t{n} * static_cast<uint32_t>(type_info(type).bytes));
      EXPECT_EQ(round_trip({type, {}}, Level::kBalanced, raw).size, 16u);
      for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::byte>(0x81 + i % static_cast<size_t>(type_info(type).bytes));
      const Entry e = round_trip({type, {}}, Level::kFast, raw);
      EXPECT_EQ(e.mode, Mode::kConst);
      if (n > 1) {  // one other value, at the very end
        raw.back() ^= std::byte{1};
        EXPECT_NE(round_trip({type, {}}, Level::kFast, raw).mode, Mode::kConst);
      }
    }
}

TEST(Block, RandomBitsStayRawAndDoNotGrow) {
  for (const Type type : kAllTypes) {
    const ByteVector raw = random_bytes(16384, 7);
    const Entry e = round_trip({type, {}}, Level::kRest, raw);
    EXPECT_EQ(e.mode, Mode::kRaw);
    EXPECT_EQ(e.size, raw.size());
  }
}

TEST(Block, SizesAreThoseOfTheFormula) {
  // The size follows from the counts of codes; checked against a histogram of the symbols.
  const uint32_t n = 8192;
  for (const uint32_t wild : {0u, 2u, 8u, 40u, 123u, 290u, 1000u, 4096u})
    for (const Level level : {Level::kFast, Level::kBalanced}) {
      const ByteVector raw = exponent_data(Type::kBF16, n, 127, 9, wild, wild + 1);
      const Entry e = round_trip({Type::kBF16, {}}, level, raw);
      if (!has_windows(e.mode)) continue;
      const Windows w = windows_of(e.mode);
      uint32_t opened = 0, escapes = 0;
      for (uint32_t i = 0; i < n; ++i) {
        const int s = (static_cast<int>(raw[2 * i + 1]) & 127) << 1 | static_cast<int>(raw[2 * i]) >> 7;
        opened += s < e.base + e.shift || s >= e.base + e.shift + w.width1;
        escapes += s < e.base || s >= e.base + w.width1 + w.width2;
      }
      EXPECT_EQ(e.escapes, escapes);
      EXPECT_EQ(e.size, round_up16(n + string_bytes(n, w.bits1) + string_bytes(opened, w.bits2) + escapes));
    }
}

TEST(Block, ATableBringsChannelsOfDifferentScaleTogether) {
  const uint32_t channels = 64, rows = 128;
  std::vector<uint8_t> table(channels);
  ByteVector raw(size_t{channels} * rows * 2);
  for (uint32_t c = 0; c < channels; ++c) {
    table[c] = static_cast<uint8_t>(3 * c + 100);  // wraps past 255
    const ByteVector column = exponent_data(Type::kBF16, rows, static_cast<uint8_t>(table[c] + 127), 4, 0, c);
    for (uint32_t r = 0; r < rows; ++r) std::memcpy(raw.data() + 2 * (r * channels + c), column.data() + 2 * r, 2);
  }
  const Entry with = round_trip({Type::kBF16, table}, Level::kBalanced, raw), without = round_trip({Type::kBF16, {}}, Level::kBalanced, raw);
  EXPECT_LT(with.size * 5, without.size * 4);
  round_trip({Type::kBF16, table}, Level::kRest, raw);
}

TEST(Block, TheEntropyCodedModeIsWithinAPerCentOfTheEntropy) {
  const uint32_t n = 32768;
  const ByteVector raw = exponent_data(Type::kBF16, n, 127, 12, 0, 3);
  Scratch scratch(n);
  ByteVector to(raw.size());
  const Entry e = encode_block(kReference, {Type::kBF16, {}}, Level::kRest, raw.data(), n, to.data(), scratch);
  ASSERT_EQ(e.mode, Mode::kRans);
  double counts[256] = {}, bits = 8.0 * n;
  for (uint32_t i = 0; i < n; ++i) counts[(static_cast<int>(raw[2 * i + 1]) & 127) << 1 | static_cast<int>(raw[2 * i]) >> 7] += 1;
  for (const double c : counts)
    if (c > 0) bits -= c * std::log2(c / n);
  EXPECT_LT(8.0 * e.size, 1.01 * bits);
}

TEST(Choose, IsTheBestByExhaustiveSearchOverTheSameRule) {
  Random random{5};
  for (int round = 0; round < 200; ++round) {
    const int bits = round % 3 == 0 ? 4 : round % 3 == 1 ? 5 : 8, symbols = 1 << bits;
    uint32_t h[256] = {}, samples = 0;
    for (int i = 0; i < 1024; ++i) {
      const uint32_t s = (random.below(static_cast<uint32_t>(symbols)) & random.below(static_cast<uint32_t>(symbols)));
      ++h[s];
      ++samples;
    }
    const Choice c = choose(h, samples, bits, Level::kBalanced);
    const Windows w = windows_of(c.mode);
    const auto inside = [&](int begin, int width) {
      uint32_t sum = 0;
      for (int s = begin; s < begin + width; ++s) sum += h[s];
      return sum;
    };
    EXPECT_LT(c.base + w.width1 + w.width2, symbols);
    EXPECT_LE(c.shift, w.width2);
    for (int b = 0; b + w.width1 < symbols; ++b) EXPECT_LE(inside(b, w.width1), inside(c.base + c.shift, w.width1));
  }
}

TEST(Sample, HistogramsAreTheReferences) {
  for (const Kernels* k : kernel_table()) {
    if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
    for (const uint32_t n : {0u, 1u, 31u, 32u, 33u, 64u, 100u, 1024u, 8192u, 8448u})
      for (const int low : {0, 1, 100, 255})
        for (const int span : {1, 2, 17, 39, 40, 47, 48, 49, 256}) {
          std::vector<uint8_t> symbols(n + kSlack, 3);
          const ByteVector random = random_bytes(n, n + static_cast<uint32_t>(span));
          for (uint32_t i = 0; i < n; ++i) symbols[i] = static_cast<uint8_t>(std::min(255, low + static_cast<int>(random[i]) % span));
          uint32_t counts[256], want[256] = {};
          std::fill_n(counts, 256, 77u);
          for (uint32_t i = 0; i < n; ++i) ++want[symbols[i]];
          Soon soon;
          k->histogram(symbols.data(), n, counts, soon);
          EXPECT_EQ(std::equal(counts, counts + 256, want), true) << k->name << ' ' << n << ' ' << low << ' ' << span;
        }
  }
}

TEST(Sample, TakesOneRowInEight) {
  uint32_t histogram[256];
  Soon soon;
  EXPECT_EQ(sample(kReference, {Type::kBF16, {}}, random_bytes(16384, 1).data(), 8192, histogram, soon), 1024u);
  EXPECT_EQ(sample(kReference, {Type::kBF16, {}}, random_bytes(16384, 1).data(), 100, histogram, soon), 100u);
  EXPECT_EQ(sample(kReference, {Type::kF32, {}}, random_bytes(262144, 1).data(), 65536, histogram, soon), 8192u);
}

}  // namespace
}  // namespace zeroulp::codec
