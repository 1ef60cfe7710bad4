#include "codec/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "codec/samples.h"

namespace zeroulp::codec {
namespace {

void expect_back(const FrameOptions& o, const ByteVector& raw, ThreadPool* pool = nullptr) {
  const ByteVector frame = frame_of(kReference, o, raw, pool);
  ASSERT_FALSE(frame.empty());
  ByteVector back;
  EXPECT_EQ(decode_to(kReference, frame, back, pool), "");
  EXPECT_EQ(back, raw);
}

TEST(Frame, EveryLengthAndBlockSizeComesBack) {
  for (const Type type : kAllTypes)
    for (const uint32_t block : {4u, 48u, 4096u, 16384u, 18432u, 65536u})
      for (const uint32_t n : {0u, 1u, 2u, 1023u, 9216u, 20001u}) {
        FrameOptions o;
        o.type = type;
        o.block_bytes = block;
        expect_back(o, exponent_data(type, n, 12, 6, 10, n + block));
      }
}

TEST(Frame, BytesAreTheSameForAnyNumberOfThreadsAndAnyKernels) {
  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = 4096;
  const ByteVector raw = exponent_data(Type::kBF16, 700'001, 120, 9, 12, 3);
  const ByteVector one = frame_of(kReference, o, raw);
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const Kernels* k : kernel_table()) {
      if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
      EXPECT_EQ(frame_of(*k, o, raw, &pool), one) << k->name << ' ' << threads;
      ByteVector back;
      EXPECT_EQ(decode_to(*k, one, back, &pool), "");
      EXPECT_EQ(back, raw);
    }
  }
}

// From 8 MiB on kernels copy past the caches, whole lines of 64 bytes: payloads and values begin anywhere between lines here.
TEST(Frame, BytesOfLargeTensorsAreTheSameForAnyNumberOfThreadsAndAnyKernels) {
  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = 18432;
  const ByteVector raw = exponent_data(Type::kBF16, (4 << 20) + 1001, 120, 9, 12, 3);
  const ByteVector one = frame_of(kReference, o, raw);
  ByteVector memory(raw.size() + 70);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const Kernels* k : kernel_table()) {
      if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
      EXPECT_EQ(frame_of(*k, o, raw, &pool) == one, true) << k->name << ' ' << threads;
      for (const size_t shift : {size_t{0}, size_t{2}, size_t{66}}) {
        std::fill(memory.begin(), memory.end(), std::byte{0x5A});
        auto frame = Frame::open(one, "frame");
        ASSERT_TRUE(frame);
        ASSERT_TRUE(decode_frame(*k, *frame, std::span(memory).subspan(shift, raw.size()), "frame", &pool));
        EXPECT_EQ(std::equal(raw.begin(), raw.end(), memory.begin() + static_cast<std::ptrdiff_t>(shift)), true) << k->name << ' ' << threads << ' ' << shift;
        EXPECT_EQ(std::count(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(shift), std::byte{0x5A}), static_cast<std::ptrdiff_t>(shift));
        EXPECT_EQ(std::count(memory.end() - static_cast<std::ptrdiff_t>(70 - shift), memory.end(), std::byte{0x5A}), static_cast<std::ptrdiff_t>(70 - shift));
      }
    }
  }
}

TEST(Frame, NeverExceedsItsBound) {
  for (const uint32_t block : {16u, 4096u, 18432u}) {
    FrameOptions o;
    o.type = Type::kBF16;
    o.block_bytes = block;
    for (const uint32_t blocks : {0u, 1u, 2u, 17u}) {
      const ByteVector raw = random_bytes(size_t{blocks} * block, blocks);
      EXPECT_LE(frame_bound(o, raw.size(), blocks), raw.size() + 64 + 20 * blocks);
      EXPECT_LE(frame_of(kReference, o, raw).size(), frame_bound(o, raw.size(), blocks));
    }
  }
}

TEST(Frame, OutputsThatAreTooSmallAreRefused) {
  FrameOptions o;
  o.type = Type::kBF16;
  const ByteVector raw = random_bytes(40000, 1);
  ByteVector to(frame_bound(o, raw.size(), 3) - 1);
  auto r = encode_frame(kReference, o, raw, to);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().text.find("frame_bound"), std::string::npos);
}

TEST(Frame, OptionsOutsideTheFormatAreRefused) {
  const std::vector<uint8_t> table(100);
  FrameOptions o;
  o.type = Type::kBF16;
  for (const uint32_t block : {0u, 3u, 131074u}) {
    o.block_bytes = block;
    EXPECT_FALSE(check_options(o)) << block;
  }
  o.block_bytes = 16384;
  o.table = table;
  EXPECT_FALSE(check_options(o)) << "100 channels do not divide 8192 values";
  o.type = Type::kBytes;
  o.block_bytes = 1600;
  EXPECT_FALSE(check_options(o)) << "bytes have no exponents";
  o.type = Type::kF16;
  EXPECT_TRUE(check_options(o));
}

TEST(Frame, TablesTravelWithIt) {
  const ByteVector raw = exponent_data(Type::kBF16, 64 * 300, 99, 5, 4, 1);
  const std::vector<uint8_t> table = calibrate_table(Type::kBF16, raw, 64);
  for (const uint8_t entry : table) EXPECT_NEAR(entry + 128 - 256 * (entry > 128), 99, 1);
  FrameOptions o;
  o.type = Type::kBF16;
  o.table = table;
  expect_back(o, raw);
}

TEST(Frame, PagesAreGatheredAndScattered) {
  const uint32_t page_bytes = 18432, pages = 37, element = 2;
  const ByteVector pool_memory = exponent_data(Type::kBF16, page_bytes / element * pages, 125, 7, 8, 9);
  std::vector<uint32_t> order(pages), valid;
  std::iota(order.begin(), order.end(), 0u);
  Random random{4};
  for (uint32_t i = pages; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  order.resize(20);
  for (uint32_t i = 0; i < 20; ++i) valid.push_back(i % 3 == 0 ? 1 + random.below(9216) : 9216);

  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = page_bytes;
  uint64_t raw_bytes = 0;
  for (const uint32_t n : valid) raw_bytes += uint64_t{n} * element;
  ByteVector frame(frame_bound(o, raw_bytes, 20, true));
  auto used = encode_pages(kReference, o, {pool_memory.data(), page_bytes, order, valid}, 20, frame);
  ASSERT_TRUE(used) << used.error().text;
  frame.resize(*used);
  auto f = Frame::open(frame, "f");
  ASSERT_TRUE(f) << f.error().text;

  ByteVector to(pool_memory.size(), std::byte{0xCC}), expected(to);
  std::vector<uint32_t> target(order.rbegin(), order.rend());
  for (uint32_t i = 0; i < 20; ++i)
    std::memcpy(expected.data() + size_t{target[i]} * page_bytes, pool_memory.data() + size_t{order[i]} * page_bytes, size_t{valid[i]} * element);
  const auto scatter = [&](std::span<const uint32_t> page) { return decode_pages(kReference, *f, {to.data(), page_bytes, page, {}}, pages, "f"); };
  auto status = scatter(target);
  ASSERT_TRUE(status) << status.error().text;
  EXPECT_EQ(to, expected) << "values beyond the valid ones and other pages are left alone";

  std::vector<uint32_t> twice(target), outside(target);
  twice[3] = twice[7];
  outside[3] = pages;
  EXPECT_NE(scatter(twice).error().text.find("twice"), std::string::npos);
  EXPECT_NE(scatter(outside).error().text.find("no page 37"), std::string::npos);
  EXPECT_FALSE(scatter(std::span(target).first(19)));
  ByteVector tensor(raw_bytes);
  EXPECT_FALSE(decode_frame(kReference, *f, tensor, "f")) << "a ragged frame is no tensor";
}

TEST(Frame, OneBlockIsReadWithoutTheOthers) {
  FrameOptions o;
  o.type = Type::kBF16;
  o.block_bytes = 1024;
  const ByteVector raw = exponent_data(Type::kBF16, 5000, 120, 9, 12, 3);
  ByteVector frame = frame_of(kReference, o, raw);
  frame.back() ^= std::byte{1};  // damages the last block only
  auto f = Frame::open(frame, "f");
  ASSERT_TRUE(f);
  Scratch scratch(f->block_values());
  ByteVector block(1024);
  ASSERT_EQ(f->decode(kReference, 3, block.data(), scratch), Fault::kNone);
  EXPECT_EQ(0, std::memcmp(block.data(), raw.data() + 3 * 1024, 1024));
  EXPECT_NE(f->decode(kReference, f->header().blocks - 1, block.data(), scratch), Fault::kNone);
}

}  // namespace
}  // namespace zeroulp::codec
