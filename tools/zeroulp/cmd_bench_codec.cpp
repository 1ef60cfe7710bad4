#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "args.h"
#include "base/interrupt.h"
#include "codec/packed.h"
#include "codec/sample_data.h"
#include "report/json.h"
#include "report/table.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

using codec::FrameOptions;
using codec::Kernels;
using codec::Level;

struct Options {
  std::string file, json;
  std::vector<std::string> levels;
  int64_t mib = 256, threads = std::max(1u, std::thread::hardware_concurrency()), repeats = 5;
  bool force = false;
};

double median_seconds(int64_t repeats, const auto& work) {
  std::vector<double> seconds;
  work();
  for (int64_t i = 0; i < repeats && !interrupt_requested(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

// The BF16 tensors of the file, or Gaussian values, over and over.
Result<std::vector<std::byte>> data_of(const Options& o) {
  std::vector<std::byte> tile;
  if (o.file.empty()) {
    const std::vector<uint16_t> values = codec::gaussian_bf16(4 << 20);
    tile.assign(std::as_bytes(std::span(values)).begin(), std::as_bytes(std::span(values)).end());
  } else {
    ZU_TRY_ASSIGN(tile, codec::bf16_tensors(o.file));
  }
  std::vector<std::byte> raw(static_cast<size_t>(o.mib) << 20);
  for (size_t at = 0; at < raw.size(); at += tile.size()) std::memcpy(raw.data() + at, tile.data(), std::min(tile.size(), raw.size() - at));
  return raw;
}

// One level by every kernel that runs here. Frames are compared with the reference's and values with the source before a figure stands.
Status measure(const Options& o, Level level, std::span<const std::byte> raw, ThreadPool& pool, report::Report& report, report::Table& table) {
  FrameOptions frame;
  frame.type = codec::Type::kBF16;
  frame.level = level;
  frame.block_bytes = level == Level::kRest ? 65536 : 16384;
  std::vector<std::byte> coded(codec::frame_bound(frame, raw.size(), static_cast<uint32_t>(codec::blocks_of(frame, raw.size())))), back(raw.size()), expected;
  const double gb = static_cast<double>(raw.size()) / 1e9;
  for (const Kernels* k : codec::kernel_table()) {
    if (!codec::why_unavailable(k->needs, cpu_features()).empty()) continue;
    const int64_t repeats = k == &codec::kReference ? 1 : o.repeats;
    // A copy beside every kernel: what else this machine does changes from minute to minute.
    const double copied = median_seconds(o.repeats, [&] {
      pool.parallel_for(static_cast<int64_t>(raw.size()), 4096, [&](int64_t begin, int64_t end, int) { std::memcpy(back.data() + begin, raw.data() + begin, static_cast<size_t>(end - begin)); });
    });
    if (interrupt_requested()) return interrupted();
    Result<uint64_t> used = uint64_t{0};
    const double encode = median_seconds(repeats, [&] { used = codec::encode_frame(*k, frame, raw, coded, &pool); });
    ZU_TRY_ASSIGN(const uint64_t bytes, std::move(used));
    const std::span<const std::byte> made = std::span(coded).first(bytes);
    if (expected.empty()) expected.assign(made.begin(), made.end());
    if (!std::equal(made.begin(), made.end(), expected.begin(), expected.end())) return answer_is_no(fmt::format("{} writes another frame than the reference", k->name));
    ZU_TRY_ASSIGN(const codec::Frame f, codec::Frame::open(made, "frame"));
    Status status;
    const double decode = median_seconds(repeats, [&] { status = codec::decode_frame(*k, f, back, "frame", &pool); });
    ZU_TRY(std::move(status));
    if (!std::equal(raw.begin(), raw.end(), back.begin())) return answer_is_no(fmt::format("{} does not give back what went in", k->name));
    const double ratio = static_cast<double>(raw.size()) / static_cast<double>(bytes);
    const std::string_view name = codec::kLevelNames[static_cast<int>(level)];
    table.row({std::string(name), std::string(k->name), fmt::format("{:.4f}", ratio), fmt::format("{:.2f}", gb / encode), fmt::format("{:.0f} %", 100 * copied / encode), fmt::format("{:.2f}", gb / decode),
               fmt::format("{:.0f} %", 100 * copied / decode), fmt::format("{:.2f}", gb / copied)});
    report.body["runs"].push_back({{"level", name}, {"kernel", k->name}, {"ratio", ratio}, {"encode_gb_per_s", gb / encode}, {"decode_gb_per_s", gb / decode}, {"copy_gb_per_s", gb / copied}});
  }
  return {};
}

}  // namespace

int cmd_bench_codec(int argc, char** argv) {
  Options o;
  Args args("bench codec",
            "Speed and ratio of the lossless codec on this processor: GB of BF16 a second by every kernel that runs here, beside a copy of the same bytes. All kernels' "
            "frames are compared, and what comes back.",
            {"zeroulp bench codec", "zeroulp bench codec cache.safetensors --mib 512 --threads 1 --level fast"});
  args.positional("FILE", o.file, "a .safetensors file whose BF16 tensors are repeated up to the size; without one: Gaussian values", false);
  args.option("--mib", o.mib, "MiB of values", 1, 65536);
  args.option("--threads", o.threads, "worker threads", 1, 1024);
  args.option("--level", o.levels, "fast, balanced or rest; may be repeated (all)");
  args.option("--repeats", o.repeats, "runs of which the median counts", 1, 1000);
  args.output("--json", o.json, "write the figures as JSON; - for standard output");
  args.force(o.force, "replace an existing JSON file");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (o.levels.empty()) o.levels = {"fast", "balanced", "rest"};

  report::Report report("bench codec");
  const auto raw = data_of(o);
  if (!raw) return fail("bench codec", raw.error());
  ThreadPool pool(static_cast<int>(o.threads));
  using report::Align;
  report::Table table({{"level"}, {"kernel"}, {"ratio", Align::kRight}, {"encode GB/s", Align::kRight}, {"of copy", Align::kRight}, {"decode GB/s", Align::kRight}, {"of copy", Align::kRight}, {"copy GB/s", Align::kRight}});
  report.body["data"] = o.file.empty() ? "gaussian" : o.file;
  report.body["mib"] = o.mib;
  report.body["threads"] = o.threads;
  report.body["cpu"] = cpu_features().model;
  for (const std::string& name : o.levels) {
    const auto level = codec::level_from_name(name);
    if (!level) return fail("bench codec", usage_error(fmt::format("--level {}: fast, balanced or rest", name)));
    if (const Status s = measure(o, *level, *raw, pool, report, table); !s) return fail("bench codec", s.error());
  }
  if (o.json != "-") fmt::print("{}{} MiB of {}, {} thread{}, {}\n", table.text(), o.mib, o.file.empty() ? "Gaussian BF16" : o.file, o.threads, o.threads == 1 ? "" : "s", cpu_features().model);
  if (!o.json.empty())
    if (const Status s = report.write(o.json, o.force); !s) return fail("bench codec", s.error());
  return 0;
}

}  // namespace zeroulp::cli
