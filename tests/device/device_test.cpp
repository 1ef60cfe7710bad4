// The device layer itself: what it says without a GPU, and memory, graphs and errors with one.
#include "device/device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/gpu.h"
#include "device/nccl.h"
#include "ops/linear_s8/contract.h"
#include "ops/silu_mul/contract.h"

namespace zeroulp::device {
namespace {

TEST(Device, NamesAreParsed) {
  EXPECT_EQ(parse_device("cpu").value(), -1);
  EXPECT_EQ(parse_device("cuda").value(), 0);
  EXPECT_EQ(parse_device("cuda:3").value(), 3);
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "CUDA", "cuda:99999999999"})
    EXPECT_EQ(parse_device(wrong).error().code, ExitCode::kUsage) << wrong;
}

TEST(Device, SizesAreCheckedIn64Bits) {
  EXPECT_EQ(checked_bytes(int64_t{1} << 40, 4, "x").value(), int64_t{1} << 42);
  EXPECT_FALSE(checked_bytes(int64_t{1} << 61, 4, "x"));
  EXPECT_FALSE(checked_bytes(-1, 4, "x"));
}

TEST(Device, WithoutAGpuEverythingSaysSo) {
  if (count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(why_unavailable(0).empty());
  EXPECT_EQ(use(0).error().code, ExitCode::kUnavailable);
  EXPECT_EQ(properties(0).error().code, ExitCode::kUnavailable);
}

TEST(Gpu, AnIndexThatDoesNotExistIsNamed) {
  ZU_NEEDS_GPU();
  EXPECT_NE(why_unavailable(count()).find("there is no GPU"), std::string::npos);
}

TEST(Gpu, TooMuchMemoryIsOneLineWithNumbers) {
  ZU_NEEDS_GPU();
  const auto buffer = Buffer::allocate(int64_t{1} << 45, "a test");
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ExitCode::kUnavailable);
  EXPECT_NE(buffer.error().text.find("32768.00 GiB"), std::string::npos) << buffer.error().text;
  EXPECT_NE(buffer.error().text.find("are free"), std::string::npos) << buffer.error().text;
  EXPECT_TRUE(Buffer::allocate(1024, "after a failure"));
}

TEST(Gpu, AGraphRunsAndNamesItsNodes) {
  ZU_NEEDS_GPU();
  Bench b;
  const std::vector<uint16_t> gate(1000, 0x3F80), up(1000, 0x4000);
  uint16_t *g = b.put(gate), *u = b.put(up), *y = b.put(std::vector<uint16_t>(1000, 0));
  const Graph graph = must(Graph::capture(b.stream, [&] {
    b.stream.fill(y, 0xFF, 2000);
    ops::silu_mul::device_variants().back().run({g, u, 1000, y}, b.launch);
  }));
  EXPECT_EQ(b.get(y, 1)[0], 0) << "recording must not run anything";
  graph.launch(b.stream);
  EXPECT_EQ(b.get(y, 1000), std::vector<uint16_t>(1000, ops::silu_mul::value(0x3F80, 0x4000)));
  ASSERT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.nodes()[0], "memset");
  EXPECT_NE(graph.nodes()[1].find("silu_mul_kernel"), std::string::npos) << graph.nodes()[1];
}

TEST(Gpu, EveryLinearVariantIsSeenInAGraph) {
  ZU_NEEDS_GPU();
  Bench b;
  const std::vector<int16_t> codes(256, 3);
  const std::vector<int8_t> weights(64 * 256, 2);
  const std::vector<float> scales(64, 1.0f);
  int16_t* c = b.put(codes);
  int8_t* w = b.put(weights);
  float* s = b.put(scales);
  float* y = b.put(std::vector<float>(64, 0.0f));
  for (const auto& v : ops::linear_s8::device_variants()) {
    if (v.why_not != nullptr && !v.why_not().empty()) continue;
    const ops::linear_s8::Args args{c, 256, s, 1, 256, 8, w, 256, 64, s, nullptr, ops::linear_s8::Output::kF32, y, 64};
    const Buffer workspace = must(Buffer::allocate(v.workspace ? std::max<int64_t>(v.workspace(args), 16) : 16, "a test"));
    b.launch.workspace = workspace.data();
    b.launch.workspace_bytes = workspace.bytes();
    const Graph graph = must(Graph::capture(b.stream, [&] { v.run(args, b.launch); }));
    EXPECT_TRUE(std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const std::string& n) { return n.find("memset") == std::string::npos; })) << v.name;
    graph.launch(b.stream);
    EXPECT_EQ(b.get(y, 64), std::vector<float>(64, 1536.0f)) << v.name;
  }
}

// Two ranks need two GPUs; one rank shows that the library is found and called as it wants to be.
TEST(Gpu, NcclReducesInPlace) {
  ZU_NEEDS_GPU();
  const auto id = Nccl::make_id();
  if (!id) GTEST_SKIP() << id.error().text;
  Bench b;
  const auto nccl = must(Nccl::create(*id, 0, 1));
  const std::vector<int64_t> sums = {-1, int64_t{1} << 40, 0, 7};
  const std::vector<int32_t> tops = {0, 0x7FC0, 3};
  int64_t* s = b.put(sums);
  int32_t* t = b.put(tops);
  must(nccl->sum(s, 4, b.stream.handle()));
  must(nccl->max(t, 3, b.stream.handle()));
  EXPECT_EQ(b.get(s, 4), sums);
  EXPECT_EQ(b.get(t, 3), tops);
}

TEST(Gpu, ReadBandwidthIsThatOfAGpu) {
  ZU_NEEDS_GPU();
  const double bytes_per_second = must(read_bandwidth(int64_t{1} << 30, 5));
  EXPECT_GT(bytes_per_second, 5e10);
  EXPECT_LT(bytes_per_second, 1e14);
}

}  // namespace
}  // namespace zeroulp::device
