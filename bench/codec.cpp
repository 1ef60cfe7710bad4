// The codec on the CPU: GB of uncompressed BF16 per second beside a copy of the same bytes in the same run. Frames are compared with the
// reference's and decoded values with the source before a time is printed. bench_codec [--mib N] [--threads N] [FILE...]: each FILE is
// BF16 values, repeated up to the size; Gaussian data come first.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "bench_data.h"
#include "codec/frame.h"

namespace {

using namespace zeroulp;
using codec::FrameOptions;
using codec::Kernels;
using codec::Level;

template <class Work>
double median_seconds(int repeats, Work work) {
  std::vector<double> seconds;
  work();
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void copy(std::byte* to, const std::byte* from, size_t bytes, ThreadPool& pool) {
  pool.parallel_for(static_cast<int64_t>(bytes), 4096, [&](int64_t begin, int64_t end, int) { std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin)); });
}

void run(const std::string& name, std::span<const std::byte> raw, int threads) {
  ThreadPool pool(threads);
  std::vector<std::byte> back(raw.size());
  const double gb = static_cast<double>(raw.size()) / 1e9;
  const double copied = gb / median_seconds(5, [&] { copy(back.data(), raw.data(), raw.size(), pool); });
  for (const Level level : {Level::kFast, Level::kBalanced, Level::kRest}) {
    FrameOptions o;
    o.type = codec::Type::kBF16;
    o.level = level;
    o.block_bytes = level == Level::kRest ? 65536 : 16384;
    const uint32_t blocks = static_cast<uint32_t>(codec::blocks_of(o, raw.size()));
    std::vector<std::byte> frame(codec::frame_bound(o, raw.size(), blocks)), expected;
    for (const Kernels* k : codec::kernel_table()) {
      if (!codec::why_unavailable(k->needs, cpu_features()).empty()) continue;
      uint64_t used = 0;
      const int repeats = k == &codec::kReference ? 1 : 5;
      const double encode = gb / median_seconds(repeats, [&] { used = must(codec::encode_frame(*k, o, raw, frame, &pool)); });
      const std::span<const std::byte> coded = std::span(frame).first(used);
      if (expected.empty()) expected.assign(coded.begin(), coded.end());
      const bool same = std::equal(coded.begin(), coded.end(), expected.begin(), expected.end());
      const codec::Frame f = must(codec::Frame::open(coded, name));
      const double decode = gb / median_seconds(repeats, [&] { must(codec::decode_frame(*k, f, back, name, &pool)); });
      const bool round_trip = std::equal(raw.begin(), raw.end(), back.begin());
      fmt::print("{{\"data\":\"{}\",\"mib\":{},\"threads\":{},\"level\":\"{}\",\"kernel\":\"{}\",\"ratio\":{:.4f},\"encode_gbs\":{:.2f},\"decode_gbs\":{:.2f},\"copy_gbs\":{:.2f},\"same_bytes\":{},\"round_trip\":{}}}\n", name,
                 raw.size() >> 20, threads, codec::kLevelNames[static_cast<int>(level)], k->name, static_cast<double>(raw.size()) / static_cast<double>(used), encode, decode, copied, same, round_trip);
      std::fflush(stdout);
      if (!same || !round_trip) std::exit(1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mib = 512;
  int most = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<DataSet> sets = {{"gaussian", gaussian(4 << 20)}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--mib" && i + 1 < argc) mib = std::strtoull(argv[++i], nullptr, 10);
    else if (word == "--threads" && i + 1 < argc) most = std::atoi(argv[++i]);
    else sets.push_back(read_values(word));
  }
  fmt::print("{{\"cpu\":\"{}\"}}\n", cpu_features().model);
  for (const DataSet& set : sets) {
    const std::vector<std::byte> raw = repeated(set.values, mib << 20);
    for (int threads = 1; threads <= most; threads *= 4) run(set.name, raw, threads);
  }
  return 0;
}
