// The codec on the GPU: GB of uncompressed values per second, placement, directory and hashes inside. Answers are compared with the CPU's
// before and after each batch. bench_codec_cuda [--mib N] [--large] [--bf16] [FILE...]: each FILE is BF16 values, repeated up to the size; Gaussian
// data always come first, and of the other types last. --large leaves out the small sizes, --bf16 the other types.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench_data.h"
#include "codec/cuda/cuda.h"
#include "codec/sample_data.h"
#include "device/device.h"

namespace {

using namespace zeroulp;
using codec::FrameOptions;
using codec::Level;
using device::Buffer;

struct Times {
  double median, best;
};

template <class Work>
Times measure(const device::Stream& stream, int repeats, Work work) {
  const auto timer = must(device::Timer::create());
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> ms;
  for (int i = 0; i < repeats; ++i) {
    timer.start(stream);
    for (int k = 0; k < 4; ++k) work();
    timer.stop(stream);
    ms.push_back(must(timer.milliseconds()) / 4);
  }
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms[0]};
}

// One data set at one size and level.
void run(const device::Stream& stream, const std::string& name, codec::Type type, std::span<const std::byte> tile, uint64_t bytes, Level level, uint32_t period, uint32_t block) {
  const std::vector<std::byte> raw = repeated(tile, bytes);
  std::vector<uint8_t> table;
  FrameOptions o;
  o.type = type;
  o.block_bytes = block;
  o.level = level;
  if (period != 0) {
    table = codec::calibrate_table(o.type, tile, period);
    o.table = table;
  }
  const uint32_t blocks = static_cast<uint32_t>(codec::blocks_of(o, bytes));
  const uint64_t bound = codec::frame_bound(o, bytes, blocks);
  const Buffer from = must(Buffer::allocate(static_cast<int64_t>(bytes), "data")), frame = must(Buffer::allocate(static_cast<int64_t>(bound), "the frame")),
               to = must(Buffer::allocate(static_cast<int64_t>(bytes), "the result")), words = must(Buffer::allocate(4096 + period, "status and table")),
               workspace = must(Buffer::allocate(static_cast<int64_t>(codec::cuda::encode_workspace_bytes(blocks)), "work"));
  stream.to_device(from.data(), raw.data(), static_cast<int64_t>(bytes));
  stream.to_device(words.data() + 4096, table.data(), static_cast<int64_t>(table.size()));
  stream.fill(to.data(), 0, static_cast<int64_t>(bytes));

  codec::cuda::EncodeCall e;
  e.options = o;
  e.table = words.as<uint8_t>() + 4096;
  e.base = from.data();
  e.stride = block;
  e.blocks = blocks;
  e.raw_bytes = bytes;
  e.frame = frame.data();
  e.frame_capacity = bound;
  e.frame_bytes = words.as<uint64_t>() + 1;
  e.workspace = workspace.data();
  codec::cuda::DecodeCall d;
  d.type = type;
  d.block_bytes = block;
  d.blocks = blocks;
  d.period = period;
  d.raw_bytes = bytes;
  d.frame = frame.data();
  d.frame_capacity = bound;
  d.base = to.data();
  d.stride = block;
  d.status = words.as<uint64_t>();

  const int repeats = bytes > (64u << 20) ? 9 : 25;
  const Times encode = measure(stream, repeats, [&] { must(codec::cuda::encode(e, stream.handle())); });
  const Times decode = measure(stream, repeats, [&] { must(codec::cuda::decode(d, stream.handle())); });
  uint64_t state[2];
  stream.to_host(state, words.data(), 16);
  std::vector<std::byte> back(bytes);
  stream.to_host(back.data(), to.data(), static_cast<int64_t>(bytes));
  must(stream.synchronize());
  const bool same = back == raw && state[0] == 0;
  // The CPU's frame of the first 4 MiB, in whole blocks, holds the same payloads.
  const uint64_t part = std::min<uint64_t>(bytes, 4u << 20) / block * block;
  std::vector<std::byte> cpu(codec::frame_bound(o, part, static_cast<uint32_t>(codec::blocks_of(o, part))));
  cpu.resize(must(codec::encode_frame(codec::kReference, o, std::span(raw).first(part), cpu)));
  const uint64_t begin = codec::payload_offset(period, static_cast<uint32_t>(codec::blocks_of(o, part)));
  std::vector<std::byte> gpu(cpu.size() - begin);
  stream.to_host(gpu.data(), frame.data() + codec::payload_offset(period, blocks), static_cast<int64_t>(gpu.size()));
  must(stream.synchronize());
  const bool twin = std::equal(gpu.begin(), gpu.end(), cpu.begin() + static_cast<ptrdiff_t>(begin));
  const double gb = static_cast<double>(bytes) / 1e6;
  fmt::print("{{\"data\":\"{}\",\"type\":\"{}\",\"mib\":{},\"level\":\"{}\",\"period\":{},\"block\":{},\"ratio\":{:.4f},\"encode_gbs\":{:.1f},\"encode_best\":{:.1f},\"decode_gbs\":{:.1f},\"decode_best\":{:.1f},"
             "\"round_trip\":{},\"equals_cpu\":{}}}\n",
             name, codec::type_info(type).name, bytes >> 20, codec::kLevelNames[static_cast<int>(level)], period, block, static_cast<double>(bytes) / static_cast<double>(state[1]), gb / encode.median, gb / encode.best, gb / decode.median,
             gb / decode.best, same, twin);
  std::fflush(stdout);
  if (!same || !twin) std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mib = 512;
  bool large = false, bf16 = false;
  std::vector<DataSet> sets = {{"gaussian", codec::gaussian_bf16(4 << 20)}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--large" || word == "--bf16") {
      (word == "--large" ? large : bf16) = true;
      continue;
    }
    if (word == "--mib" && i + 1 < argc) {
      mib = std::strtoull(argv[++i], nullptr, 10);
      continue;
    }
    sets.push_back(read_values(word));
  }
  must(device::use(0));
  const auto stream = must(device::Stream::create());
  const int64_t bytes = static_cast<int64_t>(mib << 20);
  {
    const Buffer a = must(Buffer::allocate(bytes, "copy")), b = must(Buffer::allocate(bytes, "copy"));
    const Times copy = measure(stream, 9, [&] { stream.on_device(b.data(), a.data(), bytes); });
    fmt::print("{{\"copy_gbs\":{:.1f},\"device\":\"{}\"}}\n", 2 * static_cast<double>(bytes) / 1e6 / copy.median, must(device::properties(0)).name);
  }
  for (const auto& [name, values] : sets) {
    // A file whose name ends in -cNNN has rows of NNN channels: tried with a table too.
    const size_t c = name.rfind("-c");
    const uint32_t period = c == std::string::npos ? 0 : static_cast<uint32_t>(std::strtoul(name.c_str() + c + 2, nullptr, 10));
    for (const Level level : {Level::kFast, Level::kBalanced}) {
      run(stream, name, codec::Type::kBF16, std::as_bytes(std::span(values)), mib << 20, level, 0, 16384);
      if (period != 0) run(stream, name, codec::Type::kBF16, std::as_bytes(std::span(values)), mib << 20, level, period, period % 128 == 0 ? 16384 : 18432);
    }
  }
  if (!bf16) {
    for (const codec::TypeInfo& t : codec::kTypes) {
      if (t.type == codec::Type::kBF16) continue;
      const std::vector<std::byte> values = codec::gaussian_of(t, 4 << 20);
      for (const Level level : {Level::kFast, Level::kBalanced}) run(stream, "gaussian", t.type, values, mib << 20, level, 0, 16384);
    }
  }
  if (large) return 0;
  for (const uint64_t small : {1u, 2u, 4u, 8u, 16u, 64u})
    for (const Level level : {Level::kFast, Level::kBalanced}) run(stream, "gaussian", codec::Type::kBF16, std::as_bytes(std::span(sets[0].values)), small << 20, level, 0, 16384);
  return 0;
}
