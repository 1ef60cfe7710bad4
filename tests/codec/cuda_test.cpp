// The GPU's frames equal the CPU's byte for byte; its decoder reads them and refuses damage without writing outside the pages.
#include "codec/cuda/cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "codec/samples.h"
#include "device/device.h"

namespace zeroulp::codec {
namespace {

using device::Buffer;

// Calls for a tensor's frame, but for what lies where.
cuda::EncodeCall encode_call(const FrameOptions& o, uint64_t raw_bytes) {
  cuda::EncodeCall c;
  c.options = o;
  c.stride = o.block_bytes;
  c.blocks = static_cast<uint32_t>(blocks_of(o, raw_bytes));
  c.raw_bytes = raw_bytes;
  c.frame_capacity = frame_bound(o, raw_bytes, c.blocks);
  return c;
}
cuda::DecodeCall decode_call(const FrameOptions& o, uint64_t raw_bytes, uint64_t frame_bytes) {
  cuda::DecodeCall c;
  c.type = o.type;
  c.block_bytes = o.block_bytes;
  c.blocks = static_cast<uint32_t>(blocks_of(o, raw_bytes));
  c.period = static_cast<uint32_t>(o.table.size());
  c.raw_bytes = raw_bytes;
  c.frame_capacity = frame_bytes;
  c.stride = o.block_bytes;
  return c;
}

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = device::why_unavailable(0); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(device::use(0));
    stream_.emplace(std::move(device::Stream::create()).value());
  }
  Buffer upload(const void* from, size_t bytes) {
    Buffer b = std::move(Buffer::allocate(static_cast<int64_t>(round_up16(bytes) + 64), "a test")).value();
    stream_->to_device(b.data(), from, static_cast<int64_t>(bytes));
    EXPECT_TRUE(stream_->synchronize());
    return b;
  }
  ByteVector download(const Buffer& from, size_t bytes) {
    ByteVector to(bytes);
    stream_->to_host(to.data(), from.data(), static_cast<int64_t>(bytes));
    EXPECT_TRUE(stream_->synchronize());
    return to;
  }
  // The frame of `raw` as the GPU makes it.
  ByteVector encode(const FrameOptions& o, const ByteVector& raw) {
    cuda::EncodeCall c = encode_call(o, raw.size());
    const uint64_t bound = c.frame_capacity;
    const Buffer from = upload(raw.data(), raw.size()), table = upload(o.table.data(), o.table.size());
    const Buffer frame = upload(ByteVector(bound, std::byte{0xEE}).data(), bound), work = upload(raw.data(), 0), length = upload("12345678", 8);
    Buffer workspace = std::move(Buffer::allocate(static_cast<int64_t>(cuda::encode_workspace_bytes(c.blocks)), "a test")).value();
    c.table = table.as<uint8_t>();
    c.base = from.data();
    c.frame = frame.data();
    c.frame_bytes = length.as<uint64_t>();
    c.workspace = workspace.data();
    const Status status = cuda::encode(c, stream_->handle());
    EXPECT_TRUE(status) << status.error().text;
    uint64_t bytes = 0;
    std::memcpy(&bytes, download(length, 8).data(), 8);
    EXPECT_LE(bytes, bound);
    return download(frame, std::min(bytes, bound));
  }
  // Decodes on the GPU between guards; compares what came out unless there was a fault.
  cuda::DecodeStatus decode(const FrameOptions& o, const ByteVector& frame, const ByteVector& raw) {
    constexpr size_t kGuard = 4096;
    const Buffer from = upload(frame.data(), frame.size()), status = upload("12345678", 8);
    const ByteVector blank(raw.size() + 2 * kGuard + 64, std::byte{0xA5});
    const Buffer to = upload(blank.data(), blank.size());
    cuda::DecodeCall c = decode_call(o, raw.size(), frame.size());
    c.frame = from.data();
    c.base = to.data() + kGuard;
    c.status = status.as<uint64_t>();
    const Status call = cuda::decode(c, stream_->handle());
    EXPECT_TRUE(call) << call.error().text;
    const ByteVector out = download(to, blank.size());
    uint64_t word = 0;
    std::memcpy(&word, download(status, 8).data(), 8);
    const auto same = [&](size_t begin, size_t end) { return std::equal(out.begin() + static_cast<ptrdiff_t>(begin), out.begin() + static_cast<ptrdiff_t>(end), blank.begin() + static_cast<ptrdiff_t>(begin)); };
    EXPECT_TRUE(same(0, kGuard) && same(kGuard + raw.size(), blank.size())) << "wrote outside";
    const cuda::DecodeStatus result = cuda::decode_status(word);
    if (result.fault != Fault::kNone) return result;
    EXPECT_TRUE(std::equal(raw.begin(), raw.end(), out.begin() + kGuard));
    return result;
  }
  void expect_twin(const FrameOptions& o, const ByteVector& raw) {
    const ByteVector cpu = frame_of(kReference, o, raw), gpu = encode(o, raw);
    if (cpu != gpu) {
      size_t at = 0;
      while (at < std::min(cpu.size(), gpu.size()) && cpu[at] == gpu[at]) ++at;
      ADD_FAILURE() << type_info(o.type).name << ": frames of " << cpu.size() << " and " << gpu.size() << " bytes differ from byte " << at << " on; " << raw.size() << " bytes in blocks of " << o.block_bytes << ", level "
                    << kLevelNames[static_cast<int>(o.level)] << ", payloads begin at " << payload_offset(static_cast<uint32_t>(o.table.size()), static_cast<uint32_t>(blocks_of(o, raw.size())));
    }
    const cuda::DecodeStatus status = decode(o, cpu, raw);
    EXPECT_EQ(status.fault, Fault::kNone) << fault_text(status.fault) << " in block " << status.block << "; " << type_info(o.type).name << ", " << raw.size() << " bytes in blocks of " << o.block_bytes;
  }
  std::optional<device::Stream> stream_;
};

FrameOptions options(Level level, uint32_t block_bytes, Type type = Type::kBF16) {
  FrameOptions o;
  o.type = type;
  o.level = level;
  o.block_bytes = block_bytes;
  return o;
}

TEST_F(Cuda, FramesEqualTheCpusAtEveryShapeAndSize) {
  uint64_t seed = 1;
  for (const Level level : {Level::kFast, Level::kBalanced})
    for (const uint32_t block : {512u, 4096u, 16384u, 18432u, 32768u, 65536u})
      for (const uint32_t n : {1u, 3u, 8u, 120u, 121u, 255u, 256u, 777u, 8192u, 9216u, 12345u, 100'001u})
        for (const Shape shape : {Shape::kHalving, Shape::kBell, Shape::kFlat})
          for (const uint32_t wild : {0u, 10u, 300u}) {
            const int spread = 3 + static_cast<int>(++seed % 9);
            expect_twin(options(level, block), exponent_data(Type::kBF16, n, 127, spread, wild, seed, shape));
            if (HasFailure()) return;
          }
}

// Where the exponents of ordinary values lie.
int middle_of(Type type) { return type_info(type).exponent_bits == 8 ? 127 : type_info(type).exponent_bits == 5 ? 15 : 9; }

TEST_F(Cuda, FramesOfEveryTypeEqualTheCpusWithAndWithoutATable) {
  uint64_t seed = 500;
  for (const Type type : kAllTypes) {
    const TypeInfo& t = type_info(type);
    std::vector<uint8_t> table(16);
    for (const Level level : {Level::kFast, Level::kBalanced})
      for (const uint32_t block : {512u, 4096u, 16384u, 18432u, 65536u})
        for (const uint32_t n : {1u, 3u, 8u, 121u, 256u, 777u, 2048u, 8192u, 9216u, 12345u, 40'001u, 140'000u})
          for (const Shape shape : {Shape::kHalving, Shape::kBell, Shape::kFlat}) {
            const int spread = ++seed % 2 == 0 ? 2 + static_cast<int>(seed / 2 % 7) : 9 + static_cast<int>(seed / 2 % 9);
            const ByteVector raw = exponent_data(type, n, middle_of(type), spread, seed % 4 == 0 ? 0 : seed % 4 == 1 ? 10 : 300, seed, shape);
            FrameOptions o = options(level, block, type);
            expect_twin(o, raw);
            if (t.exponent_bits != 0) {
              for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(7 * seed + 50 * i);
              o.table = table;
              expect_twin(o, raw);
            }
            if (HasFailure()) return;
          }
  }
}

TEST_F(Cuda, RawConstantAndMixedBlocksOfEveryTypeEqualTheCpus) {
  for (const Type type : kAllTypes)
    for (const uint32_t block : {4096u, 16384u}) {
      const uint32_t element = static_cast<uint32_t>(type_info(type).bytes);
      expect_twin(options(Level::kBalanced, block, type), random_bytes(5 * block + 12, 3));
      expect_twin(options(Level::kBalanced, block, type), ByteVector(5 * block + 12));
      ByteVector mixed = exponent_data(type, 40 * block / element, middle_of(type), 8, 9, 4, Shape::kBell);
      const ByteVector noise = random_bytes(block, 5);
      for (const uint32_t b : {0u, 7u, 8u, 33u}) std::copy(noise.begin(), noise.end(), mixed.begin() + b * block);
      for (const uint32_t b : {3u, 9u, 39u}) std::fill_n(mixed.begin() + b * block, block, std::byte{0x42});
      mixed[3 * block + block - 1] = std::byte{0x43};  // all but the last value are equal
      expect_twin(options(Level::kBalanced, block, type), mixed);
      expect_twin(options(Level::kFast, block, type), mixed);
      expect_twin(options(Level::kFast, block, type), {});
    }
}

TEST_F(Cuda, FastFramesWithManyEscapesEqualTheCpus) {
  uint64_t seed = 70;
  for (const uint32_t block : {1024u, 4096u, 16384u, 18432u, 65536u})
    for (const uint32_t n : {500u, 8192u, 9216u, 12345u, 100'001u})
      for (const int spread : {17, 19}) {  // 12 and 21 % escapes
        FrameOptions o = options(Level::kFast, block);
        expect_twin(o, exponent_data(Type::kBF16, n, 127, spread, 0, ++seed, Shape::kFlat));
        const std::vector<uint8_t> table(16, 5);
        o.table = table;
        expect_twin(o, exponent_data(Type::kBF16, n, 127, spread, 0, ++seed, Shape::kFlat));
      }
}

TEST_F(Cuda, AllPatternsAndBothEndsOfTheRange) {
  ByteVector raw(131072), bytes(256 * 64), words;
  for (uint32_t i = 0; i < 65536; ++i) std::memcpy(raw.data() + 2 * i, &i, 2);
  for (uint32_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 >> (i / 4096));
  for (uint32_t i = 0; i < 65536; ++i) {  // F32: every exponent and sign, mantissas at both ends and between
    const uint32_t value = i << 16 | (i % 3 == 0 ? 0u : i % 3 == 1 ? 0xFFFFu : i * 40503u >> 8 & 0xFFFFu);
    words.insert(words.end(), reinterpret_cast<const std::byte*>(&value), reinterpret_cast<const std::byte*>(&value + 1));
  }
  for (const Level level : {Level::kFast, Level::kBalanced}) {
    expect_twin(options(level, 16384), raw);
    expect_twin(options(level, 16384, Type::kF16), raw);
    expect_twin(options(level, 16384, Type::kF32), words);
    for (const Type type : {Type::kF8E4M3, Type::kF8E5M2, Type::kBytes}) expect_twin(options(level, 4096, type), bytes);
    for (const Type type : {Type::kF16, Type::kF8E5M2})
      for (const int middle : {0, 1, 3, 15, 29, 30, 31}) expect_twin(options(level, 4096, type), exponent_data(type, 9000, middle, 7, 40, static_cast<uint64_t>(middle), Shape::kBell));
    for (const int middle : {0, 1, 3, 8, 14, 15}) expect_twin(options(level, 4096, Type::kF8E4M3), exponent_data(Type::kF8E4M3, 9000, middle, 7, 40, static_cast<uint64_t>(middle), Shape::kBell));
    for (const int middle : {0, 1, 2, 3, 7, 252, 253, 254, 255}) expect_twin(options(level, 4096), exponent_data(Type::kBF16, 9000, middle, 7, 40, static_cast<uint64_t>(middle), Shape::kBell));
  }
}

TEST_F(Cuda, TablesOfEveryPeriodEqualTheCpus) {
  for (const uint32_t period : {1u, 2u, 12u, 64u, 96u, 192u, 576u, 1152u}) {
    FrameOptions o = options(Level::kBalanced, 18432 / 2);
    std::vector<uint8_t> table(period);
    for (uint32_t c = 0; c < period; ++c) table[c] = static_cast<uint8_t>(250 + 7 * c);
    o.table = table;
    if (!check_options(o)) continue;
    expect_twin(o, exponent_data(Type::kBF16, 50'000, 100, 8, 20, period, Shape::kBell));
    o.level = Level::kFast;
    expect_twin(o, exponent_data(Type::kBF16, 50'000, 100, 8, 20, period, Shape::kBell));
  }
}

TEST_F(Cuda, PagesAreGatheredAndScatteredAndShortBlocksKept) {
  const uint32_t page_bytes = 18432, pages = 64, used = 40;
  const ByteVector memory = exponent_data(Type::kBF16, page_bytes / 2 * pages, 125, 9, 8, 9, Shape::kBell);
  std::vector<uint32_t> order(pages), valid;
  std::iota(order.begin(), order.end(), 0u);
  Random random{4};
  for (uint32_t i = pages; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  order.resize(used);
  uint64_t raw_bytes = 0;
  for (uint32_t i = 0; i < used; ++i) valid.push_back(i % 3 == 0 ? 1 + random.below(9216) : 9216), raw_bytes += 2 * valid.back();
  const FrameOptions o = options(Level::kBalanced, page_bytes);
  ByteVector expected(frame_bound(o, raw_bytes, used, true));
  expected.resize(*encode_pages(kReference, o, {memory.data(), page_bytes, order, valid}, used, expected));

  const Buffer from = upload(memory.data(), memory.size()), page = upload(order.data(), 4 * used), counts = upload(valid.data(), 4 * used);
  const Buffer frame = upload(memory.data(), frame_bound(o, raw_bytes, used, true)), workspace = upload(memory.data(), cuda::encode_workspace_bytes(used)), status = upload("12345678", 8);
  cuda::EncodeCall c;
  c.options = o;
  c.base = from.data();
  c.stride = page_bytes;
  c.page = page.as<uint32_t>();
  c.valid = counts.as<uint32_t>();
  c.blocks = used;
  c.raw_bytes = raw_bytes;
  c.frame = frame.data();
  c.frame_capacity = frame_bound(o, raw_bytes, used, true);
  c.workspace = workspace.data();
  ASSERT_TRUE(cuda::encode(c, stream_->handle()));
  EXPECT_EQ(download(frame, expected.size()), expected);

  std::vector<uint32_t> target(order.rbegin(), order.rend());
  ByteVector blank(memory.size(), std::byte{0xCC}), wanted(blank);
  for (uint32_t i = 0; i < used; ++i)
    std::memcpy(wanted.data() + size_t{target[i]} * page_bytes, memory.data() + size_t{order[i]} * page_bytes, 2 * valid[i]);
  const Buffer to = upload(blank.data(), blank.size()), places = upload(target.data(), 4 * used);
  cuda::DecodeCall d;
  d.block_bytes = page_bytes;
  d.blocks = used;
  d.raw_bytes = raw_bytes;
  d.ragged = true;
  d.frame = frame.data();
  d.frame_capacity = c.frame_capacity;
  d.base = to.data();
  d.stride = page_bytes;
  d.page = places.as<uint32_t>();
  d.page_count = pages;
  d.status = status.as<uint64_t>();
  ASSERT_TRUE(cuda::decode(d, stream_->handle()));
  EXPECT_EQ(download(to, blank.size()), wanted);
  uint64_t word = 1;
  std::memcpy(&word, download(status, 8).data(), 8);
  EXPECT_EQ(word, 0u);
  d.page_count = 10;
  ASSERT_TRUE(cuda::decode(d, stream_->handle()));
  std::memcpy(&word, download(status, 8).data(), 8);
  EXPECT_EQ(cuda::decode_status(word).fault, Fault::kGeometry) << "pages that do not exist";
}

TEST_F(Cuda, BothCallsCanBeCapturedInAGraph) {
  const FrameOptions o = options(Level::kBalanced, 16384);
  const ByteVector raw = exponent_data(Type::kBF16, 300'000, 127, 8, 9, 4, Shape::kBell), other = exponent_data(Type::kBF16, 300'000, 120, 6, 90, 5, Shape::kBell);
  cuda::EncodeCall c = encode_call(o, raw.size());
  const uint32_t blocks = c.blocks;
  const uint64_t bound = c.frame_capacity;
  const Buffer from = upload(raw.data(), raw.size()), frame = upload(ByteVector(bound).data(), bound), to = upload(ByteVector(raw.size()).data(), raw.size()), status = upload("12345678", 8);
  const Buffer workspace = upload(ByteVector(cuda::encode_workspace_bytes(blocks)).data(), cuda::encode_workspace_bytes(blocks));
  c.base = from.data();
  c.frame = frame.data();
  c.workspace = workspace.data();
  cuda::DecodeCall d = decode_call(o, raw.size(), bound);
  d.frame = frame.data();
  d.base = to.data();
  d.status = status.as<uint64_t>();
  ASSERT_TRUE(cuda::encode(c, stream_->handle()));  // loads the kernels before the capture
  ASSERT_TRUE(cuda::decode(d, stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  bool ok = true;
  auto graph = device::Graph::capture(*stream_, [&] { ok = cuda::encode(c, stream_->handle()).has_value() && cuda::decode(d, stream_->handle()).has_value(); });
  ASSERT_TRUE(graph && ok) << (graph ? "" : graph.error().text);
  for (const ByteVector* data : {&other, &raw}) {
    stream_->to_device(from.data(), data->data(), static_cast<int64_t>(data->size()));
    graph->launch(*stream_);
    EXPECT_EQ(download(to, raw.size()), *data);
    const ByteVector cpu = frame_of(kReference, o, *data);
    EXPECT_EQ(download(frame, cpu.size()), cpu);
  }
}

TEST_F(Cuda, EverySingleFlippedBitOfASmallFrameIsRefused) {
  for (const Type type : kAllTypes)
    for (const Level level : {Level::kFast, Level::kBalanced}) {
      FrameOptions o = options(level, 1024, type);
      std::vector<uint8_t> table(8, 3);
      if (level == Level::kBalanced && type_info(type).exponent_bits != 0) o.table = table;
      ByteVector raw = exponent_data(type, 2400 / static_cast<uint32_t>(type_info(type).bytes), middle_of(type), 8, 60, 4, Shape::kBell);
      raw.resize(raw.size() + 512);  // a constant tail
      const ByteVector good = frame_of(kReference, o, raw);
      ASSERT_EQ(decode(o, good, raw).fault, Fault::kNone);

      const size_t flips = 8 * good.size();
      const Buffer from = upload(good.data(), good.size()), words = upload(ByteVector(8 * flips).data(), 8 * flips);
      const ByteVector blank(raw.size() + 8192, std::byte{0xA5});
      const Buffer to = upload(blank.data(), blank.size());
      ByteVector bad(good);
      const Buffer frames = std::move(Buffer::allocate(static_cast<int64_t>(flips * round_up16(good.size())), "the damaged frames")).value();
      ByteVector all(flips * round_up16(good.size()));
      for (size_t bit = 0; bit < flips; ++bit) {
        std::byte* at = all.data() + bit * round_up16(good.size());
        std::copy(good.begin(), good.end(), at);
        at[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      }
      stream_->to_device(frames.data(), all.data(), frames.bytes());
      cuda::DecodeCall d = decode_call(o, raw.size(), good.size());
      d.base = to.data() + 4096;
      for (size_t bit = 0; bit < flips; ++bit) {
        d.frame = frames.data() + bit * round_up16(good.size());
        d.status = words.as<uint64_t>() + bit;
        ASSERT_TRUE(cuda::decode(d, stream_->handle()));
      }
      const ByteVector result = download(words, 8 * flips), out = download(to, blank.size());
      for (size_t bit = 0; bit < flips; ++bit) {
        uint64_t word = 0;
        std::memcpy(&word, result.data() + 8 * bit, 8);
        EXPECT_NE(word, 0u) << type_info(type).name << ": bit " << bit % 8 << " of byte " << bit / 8 << " of " << good.size();
      }
      for (size_t i = 0; i < blank.size(); ++i)
        if ((i < 4096 || i >= 4096 + raw.size()) && out[i] != blank[i]) FAIL() << "wrote at " << i;
    }
}

TEST_F(Cuda, AMillionRandomCorruptionsWriteNothingOutside) {
  // Without hashes, so that damage reaches the codes; 64 KiB of frames at a time are damaged on the host.
  for (const Type type : kAllTypes) {
    FrameOptions o = options(Level::kBalanced, 1024, type);
    o.hashes = false;
    const ByteVector raw = exponent_data(type, 2400 / static_cast<uint32_t>(type_info(type).bytes), middle_of(type), 8, 60, 4, Shape::kBell), good = frame_of(kReference, o, raw);
    constexpr size_t kBatch = 4096;
    const size_t stride = round_up16(good.size());
    const char* wanted = std::getenv("ZEROULP_CORRUPTIONS");
    const size_t total = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : type == Type::kBF16 ? 600'000 : 80'000;
    const ByteVector blank(raw.size() + 8192, std::byte{0xA5});
    const Buffer to = upload(blank.data(), blank.size()), words = upload(ByteVector(8 * kBatch).data(), 8 * kBatch);
    const Buffer frames = std::move(Buffer::allocate(static_cast<int64_t>(kBatch * stride), "the damaged frames")).value();
    Random random{7};
    ByteVector all(kBatch * stride);
    cuda::DecodeCall d = decode_call(o, raw.size(), good.size());
    d.base = to.data() + 4096;
    size_t refused = 0;
    for (size_t done = 0; done < total; done += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) {
        std::byte* at = all.data() + i * stride;
        std::copy(good.begin(), good.end(), at);
        for (uint32_t k = 0, changes = 1 + random.below(6); k < changes; ++k) {
          const size_t where = i % 2 == 0 ? 48 + random.below(60) : random.below(static_cast<uint32_t>(good.size()));
          at[where] = static_cast<std::byte>(random.next());
        }
      }
      stream_->to_device(frames.data(), all.data(), frames.bytes());
      for (size_t i = 0; i < kBatch; ++i) {
        d.frame = frames.data() + i * stride;
        d.status = words.as<uint64_t>() + i;
        ASSERT_TRUE(cuda::decode(d, stream_->handle()));
      }
      const ByteVector result = download(words, 8 * kBatch);
      for (size_t i = 0; i < kBatch; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, result.data() + 8 * i, 8);
        refused += word != 0;
      }
    }
    const ByteVector out = download(to, blank.size());
    for (size_t i = 0; i < blank.size(); ++i)
      if ((i < 4096 || i >= 4096 + raw.size()) && out[i] != blank[i]) FAIL() << "wrote at " << i;
    EXPECT_GT(refused, total / 2) << type_info(type).name;
  }
}

TEST_F(Cuda, WhatOnlyTheCpuCodesIsRefused) {
  for (const Type type : kAllTypes) {
    const FrameOptions rest = options(Level::kRest, 65536, type);
    const ByteVector raw = exponent_data(type, 65536, middle_of(type), 3, 0, 4, Shape::kHalving);
    cuda::EncodeCall c = encode_call(rest, raw.size());
    const Status status = cuda::encode(c, stream_->handle());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().text, "codec: level rest is coded on the CPU");
    ByteVector constant(raw);
    if (type == Type::kBytes)
      for (std::byte& b : constant) b &= std::byte{7};  // what entropy coding is good for
    const ByteVector frame = frame_of(kReference, rest, constant);
    const auto opened = Frame::open(frame, "f");
    ASSERT_TRUE(opened);
    if (std::ranges::any_of(opened->entries(), [](const Entry& e) { return e.mode == Mode::kRans; })) EXPECT_EQ(decode(rest, frame, constant).fault, Fault::kMode);
    else ADD_FAILURE() << type_info(type).name << ": no block is entropy-coded, so nothing is shown";
  }
}

}  // namespace
}  // namespace zeroulp::codec
