// Frames of version 1 as they were when the format was frozen (tests/golden/codec): today's encoder must still write these bytes, and
// today's decoder read them. ZEROULP_WRITE_GOLDEN=1 writes them anew, for a new version only.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "codec/frame.h"
#include "codec/samples.h"
#include "num/digest.h"
#include "source_dir.h"

namespace zeroulp::codec {
namespace {

struct Case {
  std::string name;
  FrameOptions options;
  ByteVector raw;
  Mode mode;  // of the first block
  std::vector<uint32_t> valid = {};  // ragged: values of each block
};

const std::vector<uint8_t>& table() {
  static const std::vector<uint8_t> t = [] {
    std::vector<uint8_t> made(64);
    for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<uint8_t>(250 + 3 * i);
    return made;
  }();
  return t;
}

// Channel c has exponents around table()[c] + `middle`.
ByteVector channels(Type type = Type::kBF16, int middle = 127) {
  const uint32_t bytes = static_cast<uint32_t>(type_info(type).bytes);
  ByteVector raw(size_t{bytes} * 64 * 17);
  for (uint32_t c = 0; c < 64; ++c) {
    const ByteVector column = exponent_data(type, 17, (table()[c] + middle) & ((1 << type_info(type).exponent_bits) - 1), 4, 0, c);
    for (uint32_t r = 0; r < 17; ++r) std::memcpy(raw.data() + bytes * (r * 64 + c), column.data() + bytes * r, bytes);
  }
  return raw;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](std::string name, Type type, Level level, ByteVector raw, Mode mode, bool with_table = false) {
    FrameOptions o;
    o.type = type;
    o.block_bytes = level == Level::kRest ? 12000 : 1024;
    o.level = level;
    if (with_table) o.table = table();
    all.push_back({std::move(name), o, std::move(raw), mode});
  };
  const auto data = [](auto... recipe) { return exponent_data(recipe...); };
  add("bf16-raw", Type::kBF16, Level::kBalanced, random_bytes(1030, 1), Mode::kRaw);
  add("bf16-const", Type::kBF16, Level::kBalanced, ByteVector(1026, std::byte{0x3F}), Mode::kConst);
  add("bf16-w4", Type::kBF16, Level::kFast, data(Type::kBF16, 1100, 127, 12, 30, 2), Mode::kW4);
  add("bf16-w3", Type::kBF16, Level::kBalanced, data(Type::kBF16, 1100, 127, 7, 5, 3, Shape::kFlat), Mode::kW3);
  add("bf16-t22", Type::kBF16, Level::kBalanced, data(Type::kBF16, 1100, 127, 4, 0, 4), Mode::kT22);
  add("bf16-t23", Type::kBF16, Level::kBalanced, data(Type::kBF16, 1100, 127, 8, 30, 5, Shape::kBell), Mode::kT23);
  add("bf16-t33", Type::kBF16, Level::kBalanced, data(Type::kBF16, 1100, 127, 9, 10, 6, Shape::kFlat), Mode::kT33);
  add("bf16-rans", Type::kBF16, Level::kRest, data(Type::kBF16, 6000, 127, 9, 0, 7, Shape::kBell), Mode::kRans);
  add("bf16-table", Type::kBF16, Level::kBalanced, channels(), Mode::kT22, true);
  add("f16", Type::kF16, Level::kBalanced, data(Type::kF16, 1100, 15, 5, 40, 9), Mode::kT22);
  add("f32", Type::kF32, Level::kBalanced, data(Type::kF32, 600, 127, 8, 40, 10, Shape::kBell), Mode::kT22);
  add("f8_e4m3", Type::kF8E4M3, Level::kBalanced, data(Type::kF8E4M3, 2100, 9, 5, 0, 11), Mode::kT22);
  add("f8_e5m2", Type::kF8E5M2, Level::kBalanced, data(Type::kF8E5M2, 2100, 15, 9, 0, 12), Mode::kT23);
  add("f8_e4m3-rans", Type::kF8E4M3, Level::kRest, data(Type::kF8E4M3, 4200, 9, 1, 0, 13), Mode::kRans);
  add("bytes-rans", Type::kBytes, Level::kRest, ByteVector(exponent_data(Type::kF8E4M3, 4200, 9, 1, 0, 14)), Mode::kRans);
  add("empty", Type::kBF16, Level::kBalanced, {}, Mode::kRaw);
  return all;
}

// Frames added later; the format is the same.
std::vector<Case> more_cases() {
  const auto options = [](Type type, uint32_t block_bytes, Level level) {
    FrameOptions o;
    o.type = type;
    o.block_bytes = block_bytes;
    o.level = level;
    return o;
  };
  std::vector<Case> all;
  all.push_back({"bf16-no-hashes", options(Type::kBF16, 1024, Level::kBalanced), exponent_data(Type::kBF16, 900, 127, 8, 30, 15, Shape::kBell), Mode::kT22});
  all.back().options.hashes = false;
  all.push_back({"bf16-ragged", options(Type::kBF16, 512, Level::kBalanced), exponent_data(Type::kBF16, 1 + 256 + 100 + 255, 127, 4, 3, 16), Mode::kConst, {1, 256, 100, 255}});
  all.push_back({"f16-rans", options(Type::kF16, 12000, Level::kRest), exponent_data(Type::kF16, 6000, 15, 7, 0, 17, Shape::kBell), Mode::kRans});
  all.push_back({"f32-rans", options(Type::kF32, 24000, Level::kRest), exponent_data(Type::kF32, 6000, 127, 7, 0, 18, Shape::kBell), Mode::kRans});
  all.push_back({"f32-table", options(Type::kF32, 1024, Level::kBalanced), channels(Type::kF32), Mode::kT22});
  all.back().options.table = table();
  all.push_back({"f8_e5m2-table", options(Type::kF8E5M2, 512, Level::kBalanced), channels(Type::kF8E5M2, 15), Mode::kT22});
  all.back().options.table = table();
  return all;
}

ByteVector frame_of_case(const Case& c) {
  if (c.valid.empty()) return frame_of(kReference, c.options, c.raw);
  const uint32_t blocks = static_cast<uint32_t>(c.valid.size());
  ByteVector pages(size_t{blocks} * c.options.block_bytes);
  size_t at = 0;
  for (uint32_t b = 0; b < blocks; at += 2 * c.valid[b++]) std::memcpy(pages.data() + size_t{b} * c.options.block_bytes, c.raw.data() + at, 2 * c.valid[b]);
  ByteVector frame(frame_bound(c.options, c.raw.size(), blocks, true));
  const auto used = encode_pages(kReference, c.options, {pages.data(), c.options.block_bytes, {}, c.valid}, blocks, frame);
  EXPECT_TRUE(used);
  frame.resize(*used);
  return frame;
}

// All blocks, one behind the other.
ByteVector decoded(const ByteVector& frame) {
  auto f = Frame::open(frame, "frame");
  EXPECT_TRUE(f) << (f ? "" : f.error().text);
  ByteVector raw(f->header().raw_bytes);
  Scratch scratch(f->block_values());
  size_t at = 0;
  for (uint32_t b = 0; b < f->header().blocks; ++b) {
    EXPECT_EQ(f->decode(kReference, b, raw.data() + at, scratch), Fault::kNone);
    at += f->entries()[b].values * static_cast<size_t>(type_info(f->header().type).bytes);
  }
  return raw;
}

std::string path(const std::string& name) { return source_dir() + "/tests/golden/codec/" + name; }

ByteVector read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  ByteVector bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST(Golden, FramesOfVersion1AreWrittenAndReadUnchanged) {
  const bool write = std::getenv("ZEROULP_WRITE_GOLDEN") != nullptr;
  std::string list;
  std::vector<Case> all = cases();
  for (Case& c : more_cases()) all.push_back(std::move(c));
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    const ByteVector frame = frame_of_case(c);
    if (write) std::ofstream(path(c.name + ".zupk"), std::ios::binary).write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    num::Sha256 sha;
    sha.update(c.raw);
    list += c.name + ".zupk " + std::to_string(c.raw.size()) + " " + sha.hex() + "\n";
    const ByteVector golden = read(path(c.name + ".zupk"));
    EXPECT_EQ(golden, frame);
    EXPECT_EQ(decoded(golden), c.raw);
    auto f = Frame::open(golden, c.name);
    ASSERT_TRUE(f) << f.error().text;
    if (c.raw.empty()) continue;
    EXPECT_EQ(f->entries()[0].mode, c.mode) << kModeNames[static_cast<int>(f->entries()[0].mode)];
  }
  if (write) std::ofstream(path("frames.txt")) << list;
  const ByteVector stored = read(path("frames.txt"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(stored.data()), stored.size()), list);
}

}  // namespace
}  // namespace zeroulp::codec
