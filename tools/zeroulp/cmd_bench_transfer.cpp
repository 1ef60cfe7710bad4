#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "args.h"
#include "codec/packed.h"
#include "codec/transfer.h"
#include "report/json.h"
#include "report/table.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

constexpr double kLeastRate = 1e-6;       // GB/s
constexpr double kLongestTransfer = 600;  // seconds

using codec::FrameOptions;
using codec::Link;

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Speeds {
  double ratio, encode, decode;  // bytes of raw data per second
};

// One thread on each side, chunk by chunk as in the transfer; the second of two runs.
Result<Speeds> measure(const codec::Kernels& kernels, const codec::TransferOptions& o, std::span<const std::byte> raw) {
  Speeds s{};
  for (int i = 0; i < 2; ++i) {
    double encode = 0, decode = 0;
    uint64_t coded = 0;
    std::vector<std::byte> frame, back;
    FrameOptions options = o.frame;
    for (const auto& chunk : codec::chunks_of(o, raw)) {
      const std::span<const std::byte> part = chunk.bytes;
      options.type = chunk.type;
      frame.resize(codec::frame_bound(options, part.size(), static_cast<uint32_t>(codec::blocks_of(options, part.size()))));
      back.resize(part.size());
      Result<uint64_t> used = uint64_t{0};
      encode += seconds_of([&] { used = codec::encode_frame(kernels, options, part, frame); });
      ZU_TRY_ASSIGN(const uint64_t bytes, std::move(used));
      ZU_TRY_ASSIGN(const codec::Frame f, codec::Frame::open(std::span(frame).first(bytes), "frame"));
      Status status;
      decode += seconds_of([&] { status = codec::decode_frame(kernels, f, back, "frame"); });
      ZU_TRY(std::move(status));
      coded += bytes;
    }
    const double total = static_cast<double>(raw.size());
    s = {total / static_cast<double>(coded), total / encode, total / decode};
  }
  return s;
}

}  // namespace

int cmd_bench_transfer(int argc, char** argv) {
  std::string path, level = "balanced", kernel, json;
  std::vector<std::string> rates;
  bool force = false;
  double prefill = 0;
  Args args("bench transfer",
            "Hands the tensors of a file (a KV cache, say: one that run --save-kv wrote, or any .safetensors file) from one process to another, raw and coded, over TCP and "
            "shared memory slowed down to several rates; what arrives is compared. Says where coding pays and where it is left off.",
            {"zeroulp bench transfer cache.safetensors", "zeroulp bench transfer story.kv --rate 0.1 --level rest --prefill 1.5"});
  args.positional("FILE", path, "a .safetensors file, packed or not; integers are coded as bytes");
  args.option("--rate", rates, "GB/s of the link, 0 for unlimited; may be repeated (0.1, 0.25, 1, 0)");
  args.choice("--level", level, {"fast", "balanced", "rest"}, "as in pack");
  args.option("--kernel", kernel, "reference, avx2 or avx512_vbmi");
  args.option("--prefill", prefill, "seconds that the sender needs before the cache is there: adds the time to the first token, without the receiver's own step", 0, 1e6);
  args.output("--json", json, "write the outcome as JSON; - for standard output");
  args.force(force, "replace an existing JSON file");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (rates.empty()) rates = {"0.1", "0.25", "1", "0"};

  report::Report report("bench transfer");
  const auto kernels = codec::select_kernels(kernel, cpu_features());
  if (!kernels) return fail("bench transfer", kernels.error());
  std::vector<double> parsed;
  for (const std::string& text : rates) {
    char* end = nullptr;
    const double rate = std::strtod(text.c_str(), &end);
    const bool plain = !text.empty() && text.find_first_not_of("0123456789.e-") == text.npos && *end == '\0';
    if (!plain || !(rate == 0 || (rate >= kLeastRate && rate <= 1e6)))
      return fail("bench transfer", usage_error(fmt::format("--rate {}: give GB/s from {} to 1e6, or 0 for unlimited", text, kLeastRate)));
    parsed.push_back(rate);
  }
  auto tensors = codec::tensor_bytes(path);
  if (!tensors) return fail("bench transfer", tensors.error());
  for (size_t i = 0; i < parsed.size(); ++i)
    if (const double seconds = static_cast<double>(tensors->bytes.size()) / (parsed[i] * 1e9); parsed[i] != 0 && seconds > kLongestTransfer)
      return fail("bench transfer", usage_error(fmt::format("--rate {}: {} bytes would take {:.0f} s each of four times; {:.0f} s are the limit", rates[i], tensors->bytes.size(), seconds, kLongestTransfer)));
  const std::span<const std::byte> raw = tensors->bytes;
  codec::TransferOptions o;
  o.frame.level = *codec::level_from_name(level);
  if (o.frame.level == codec::Level::kRest) o.frame.block_bytes = 65536;
  o.runs = tensors->runs;
  const auto speeds = measure(**kernels, o, raw);
  if (!speeds) return fail("bench transfer", speeds.error());

  report::Table table({{"link"}, {"GB/s"}, {"raw s", report::Align::kRight}, {"coded s", report::Align::kRight}, {"faster", report::Align::kRight}, {"formula", report::Align::kRight}, {"first token, raw s", report::Align::kRight}, {"coded s", report::Align::kRight}, {"codec"}});
  for (size_t i = 0; i < rates.size(); ++i) {
    const std::string& text = rates[i];
    const double rate = parsed[i];
    for (const Link link : {Link::kTcp, Link::kSharedMemory}) {
      double seconds[2];
      for (const bool coded : {false, true}) {
        o.link = link;
        o.coded = coded;
        o.bytes_per_second = rate * 1e9;
        const auto r = codec::transfer(**kernels, o, raw);
        if (!r) return fail("bench transfer", r.error());
        seconds[coded] = r->seconds;
      }
      const double formula = rate == 0 ? 0 : codec::speedup(rate * 1e9, speeds->ratio, speeds->encode, speeds->decode);
      const bool on = rate != 0 && formula > 1;
      table.row({link == Link::kTcp ? "TCP" : "shared memory", rate == 0 ? "unlimited" : text, fmt::format("{:.3f}", seconds[0]), fmt::format("{:.3f}", seconds[1]),
                 fmt::format("{:.2f}", seconds[0] / seconds[1]), rate == 0 ? "" : fmt::format("{:.2f}", formula), prefill == 0 ? "" : fmt::format("{:.3f}", prefill + seconds[0]), prefill == 0 ? "" : fmt::format("{:.3f}", prefill + seconds[1]), on ? "on" : "off"});
      report.body["runs"].push_back({{"link", link == Link::kTcp ? "tcp" : "shared_memory"}, {"gb_per_s", rate}, {"raw_s", seconds[0]}, {"coded_s", seconds[1]}, {"formula", formula}, {"codec_on", on}, {"first_token_raw_s", prefill + seconds[0]}, {"first_token_coded_s", prefill + seconds[1]}});
    }
  }
  report.body["file"] = path;
  report.body["bytes"] = raw.size();
  report.body["level"] = level;
  report.body["kernel"] = (*kernels)->name;
  report.body["ratio"] = speeds->ratio;
  report.body["encode_gb_per_s"] = speeds->encode / 1e9;
  report.body["decode_gb_per_s"] = speeds->decode / 1e9;
  if (!json.empty())
    if (const Status s = report.write(json, force); !s) return fail("bench transfer", s.error());
  if (json == "-") return 0;
  fmt::print("{}\n{} bytes, ratio {:.4f}, one thread encodes {:.2f} and decodes {:.2f} GB/s ({}). Coding pays below {:.2f} GB/s; above, it is left off.\n", table.text(), raw.size(), speeds->ratio,
             speeds->encode / 1e9, speeds->decode / 1e9, (*kernels)->name, std::min(speeds->encode, speeds->decode) / 1e9);
  return 0;
}

}  // namespace zeroulp::cli
