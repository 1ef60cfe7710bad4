// Damaged and hand-made frames: refused with the right fault, and never a byte outside the destination.
#include <gtest/gtest.h>

#include <xxhash.h>

#include "codec/frame.h"
#include "codec/samples.h"

namespace zeroulp::codec {
namespace {

// Decodes whatever can be decoded, between guards. True if every block came out and passed its hash.
bool accepted(const Kernels& kernels, const ByteVector& bytes) {
  ByteVector exact(bytes);  // its own allocation, so that a sanitizer sees a read past the end
  Frame frame;
  uint32_t at = 0;
  if (Frame::parse(exact, frame, at) != Fault::kNone) return false;
  Scratch scratch(frame.block_values());
  for (uint32_t b = 0; b < frame.header().blocks; ++b) {
    const size_t size = size_t{frame.entries()[b].values} * static_cast<size_t>(type_info(frame.header().type).bytes);
    ByteVector raw(size + 32, std::byte{0xA5});
    const Fault fault = frame.decode(kernels, b, raw.data() + 16, scratch);
    for (size_t i = 0; i < 16; ++i)
      if (raw[i] != std::byte{0xA5} || raw[size + 16 + i] != std::byte{0xA5}) ADD_FAILURE() << "wrote outside the block";
    if (fault != Fault::kNone) return false;
  }
  return true;
}

// A frame with every mode that the type has: each block has its own kind of data.
ByteVector mixed_frame(Type type, std::span<const uint8_t> table = {}) {
  const TypeInfo& t = type_info(type);
  const uint32_t n = 256;
  ByteVector raw;
  const auto add = [&](const ByteVector& part) { raw.insert(raw.end(), part.begin(), part.end()); };
  const int middle = (1 << t.exponent_bits) / 2;
  add(ByteVector(size_t{n} * static_cast<size_t>(t.bytes), std::byte{7}));
  add(random_bytes(size_t{n} * static_cast<size_t>(t.bytes), 1));
  for (const int spread : {1, 2, 4, 12}) add(exponent_data(type, n, middle, spread, 60, static_cast<uint64_t>(spread)));
  add(exponent_data(type, 77, middle, 3, 0, 9));
  FrameOptions o;
  o.type = type;
  o.block_bytes = n * static_cast<uint32_t>(t.bytes);
  o.level = Level::kRest;
  o.table = table;
  return frame_of(kReference, o, raw);
}

class Damage : public testing::TestWithParam<Type> {};

TEST_P(Damage, EverySingleFlippedBitIsRefused) {
  const std::vector<uint8_t> table(64, 3);
  const bool has_table = type_info(GetParam()).exponent_bits != 0;
  const ByteVector good = mixed_frame(GetParam(), has_table ? std::span<const uint8_t>(table) : std::span<const uint8_t>());
  for (const Kernels* k : kernel_table()) {
    if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
    ASSERT_TRUE(accepted(*k, good));
    ByteVector bad = good;
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      EXPECT_FALSE(accepted(*k, bad)) << k->name << ": bit " << bit % 8 << " of byte " << bit / 8 << " of " << good.size();
      bad[bit / 8] = good[bit / 8];
    }
  }
}

TEST_P(Damage, EveryShorterOrLongerFrameIsRefused) {
  const ByteVector good = mixed_frame(GetParam());
  for (size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(accepted(kReference, ByteVector(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length))));
  ByteVector longer = good;
  longer.resize(longer.size() + 16);
  EXPECT_FALSE(accepted(kReference, longer));
}

// Damage that the hashes cannot see: the frame has none, or the attacker computes them.
TEST_P(Damage, WithoutHashesNothingIsWrittenOutside) {
  ByteVector good = mixed_frame(GetParam());
  Header h;
  ASSERT_EQ(load_header(good.data(), h), Fault::kNone);
  h.flags = 0;
  store_header(h, good.data());
  for (uint32_t b = 0; b < h.blocks; ++b) std::memset(good.data() + directory_offset(0) + kEntryBytes * b + 12, 0, 8);
  Random random{static_cast<uint64_t>(GetParam())};
  int kept = 0;
  for (const Kernels* k : kernel_table()) {
    if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
    ASSERT_TRUE(accepted(*k, good));
    for (int round = 0; round < 20000; ++round) {
      ByteVector bad = good;
      for (uint32_t i = 0, flips = 1 + random.below(8); i < flips; ++i) {
        const size_t at = round % 2 == 0 ? directory_offset(0) + random.below(kEntryBytes * h.blocks) : random.below(static_cast<uint32_t>(bad.size()));
        bad[at] = static_cast<std::byte>(random.next());
      }
      if (round % 4 >= 2) {  // a header that holds whatever was damaged
        const uint64_t hash = XXH3_64bits(bad.data(), 40);
        std::memcpy(bad.data() + 40, &hash, 8);
      }
      kept += accepted(*k, bad);
    }
  }
  EXPECT_GT(kept, 0) << "some damage to rest bits must go unseen without hashes, or this test tests nothing";
}

INSTANTIATE_TEST_SUITE_P(Types, Damage, testing::ValuesIn(kAllTypes), [](const auto& p) { return std::string(type_info(p.param).name); });

// Single faults by hand: a frame of one W4 block (256 values of BF16, 128 bytes of codes) with one field changed.
struct Crafted {
  ByteVector frame;
  std::byte* entry() { return frame.data() + directory_offset(0); }
  std::byte* payload() { return frame.data() + payload_offset(0, 1); }
  void header(void (*change)(Header&)) {
    Header h;
    EXPECT_EQ(load_header(frame.data(), h), Fault::kNone);
    change(h);
    store_header(h, frame.data());
  }
  Fault fault() {
    Frame f;
    uint32_t at = 0;
    if (const Fault parsed = Frame::parse(frame, f, at); parsed != Fault::kNone) return parsed;
    Scratch scratch(f.block_values());
    ByteVector raw(f.header().block_bytes);
    return f.decode(kReference, 0, raw.data(), scratch);
  }
};

Crafted crafted(Level level = Level::kFast, uint32_t n = 256, bool hashes = false) {
  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = 512;
  o.level = level;
  o.hashes = hashes;
  return {frame_of(kReference, o, exponent_data(Type::kBF16, n, 127, level == Level::kFast ? 4 : 6, level == Level::kFast ? 30 : 0, 2))};
}

TEST(Crafted, EachFieldHasItsFault) {
  EXPECT_EQ(crafted().fault(), Fault::kNone);
  Crafted c = crafted();
  c.frame[0] = std::byte{0};
  EXPECT_EQ(c.fault(), Fault::kBadMagic);
  c = crafted(), c.frame[4] = std::byte{2};
  EXPECT_EQ(c.fault(), Fault::kBadVersion);
  c = crafted(), c.frame[8] ^= std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kHeaderHash);
  c = crafted(), c.frame.resize(c.frame.size() - 16);
  EXPECT_EQ(c.fault(), Fault::kTruncated);
  c = crafted(), c.header([](Header& h) { h.flags = 4; });
  EXPECT_EQ(c.fault(), Fault::kHeader);
  c = crafted(), c.header([](Header& h) { h.block_bytes = 0; });
  EXPECT_EQ(c.fault(), Fault::kHeader);
  c = crafted(), c.header([](Header& h) { h.block_bytes = 511; });
  EXPECT_EQ(c.fault(), Fault::kHeader);
  c = crafted(), c.header([](Header& h) { h.blocks = 2; });
  EXPECT_EQ(c.fault(), Fault::kHeader);
  c = crafted(), c.header([](Header& h) { h.blocks = UINT32_MAX, h.raw_bytes = uint64_t{512} * UINT32_MAX; });
  EXPECT_EQ(c.fault(), Fault::kTruncated) << "nothing is allocated from a number of blocks that cannot be there";
  c = crafted(), c.header([](Header& h) { h.period = 3; });
  EXPECT_EQ(c.fault(), Fault::kHeader);
  c = crafted(), c.header([](Header& h) { h.raw_bytes = 510; });
  EXPECT_EQ(c.fault(), Fault::kCount);
  c = crafted(), c.header([](Header& h) { h.payload_bytes += 16; }), c.frame.resize(c.frame.size() + 16);
  EXPECT_EQ(c.fault(), Fault::kPlace);

  c = crafted(), c.entry()[0] = std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kPlace);
  c = crafted(), c.entry()[4] ^= std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kPlace);
  c = crafted(), c.entry()[6] = std::byte{254};
  EXPECT_EQ(c.fault(), Fault::kCount);
  c = crafted(), c.entry()[7] = std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kCount);
  c = crafted(), c.entry()[8] ^= std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kEscapes);
  for (const int mode : {8, 15}) {
    c = crafted(), c.entry()[10] = static_cast<std::byte>(mode);
    EXPECT_EQ(c.fault(), Fault::kMode);
  }
  c = crafted(), c.entry()[10] |= std::byte{0x80};
  EXPECT_EQ(c.fault(), Fault::kParameters);
  c = crafted(), c.entry()[10] |= std::byte{0x10};
  EXPECT_EQ(c.fault(), Fault::kParameters) << "W4 has no shift";
  c = crafted(), c.entry()[11] = std::byte{241};
  EXPECT_EQ(c.fault(), Fault::kParameters) << "the window must end below 255";
  c = crafted(), c.entry()[12] = std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kParameters) << "a hash in a frame without hashes";
  c = crafted(), c.frame[directory_offset(0) + kEntryBytes] = std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kPadding);
  c = crafted(), c.frame.back() = std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kPadding);
  c = crafted(Level::kFast, 256, true), c.payload()[0] ^= std::byte{1};
  EXPECT_EQ(c.fault(), Fault::kBlockHash);
  c = crafted(Level::kFast, 255), c.payload()[255 + 127] ^= std::byte{0x80};
  EXPECT_EQ(c.fault(), Fault::kPadding) << "the unused half of the last byte of codes";
}

TEST(Crafted, AnExponentThatTheTypeLacksIsRefused) {
  FrameOptions o;
  o.type = Type::kF16;
  o.block_bytes = 512;
  o.hashes = false;
  ByteVector frame = frame_of(kReference, o, exponent_data(Type::kF16, 256, 15, 3, 100, 2));
  Frame f;
  uint32_t at = 0;
  ASSERT_EQ(Frame::parse(frame, f, at), Fault::kNone);
  ASSERT_GT(f.entries()[0].escapes, 0u);
  size_t last = frame.size() - 1;
  while (frame[last] == std::byte{0}) --last;
  frame[last] = std::byte{32};
  Scratch scratch(256);
  ByteVector raw(512);
  EXPECT_EQ(f.decode(kReference, 0, raw.data(), scratch), Fault::kSymbol);
}

TEST(Crafted, EntropyCodedDamageIsSeenWithoutHashes) {
  Crafted c;
  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = 16384;
  o.level = Level::kRest;
  o.hashes = false;
  c.frame = frame_of(kReference, o, exponent_data(Type::kBF16, 8192, 127, 12, 0, 2));
  ASSERT_EQ(c.fault(), Fault::kNone);
  ASSERT_EQ(static_cast<int>(c.entry()[10]) & 15, 7);
  for (const size_t at : {0u, 1u, 2u, 3u}) {
    Crafted bad = c;
    bad.payload()[8192 + at] ^= std::byte{0x15};
    EXPECT_NE(bad.fault(), Fault::kNone) << "byte " << at << " of the table";
  }
  for (const size_t at : {60u, 400u, 900u}) {
    Crafted bad = c;
    bad.payload()[8192 + at] ^= std::byte{1};
    EXPECT_NE(bad.fault(), Fault::kNone) << "final states differ";
  }
}

}  // namespace
}  // namespace zeroulp::codec
