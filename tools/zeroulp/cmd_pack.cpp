// pack and unpack: one does what the other undoes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "args.h"
#include "codec/packed.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/table.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

using codec::PackReport;

struct Common {
  std::string source, target, json;
  codec::PackOptions options;
  int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool tensors = false;

  void bind(Args& args, const std::string& what) {
    args.positional("SOURCE", source, what);
    args.output_like("TARGET", target, source, "the folder or file to write");
    args.option("--threads", threads, "worker threads; the result does not depend on them", 1, 1024);
    args.option("--kernel", options.kernel, "reference, avx2 or avx512_vbmi; the result does not depend on it");
    args.flag("--tensors", tensors, "a line per tensor");
    args.output("--json", json, "write the outcome as JSON, every tensor listed; - for standard output");
    args.force(options.force, "replace what exists");
  }
};

double ratio(uint64_t raw, uint64_t packed) { return packed == 0 ? 1 : static_cast<double>(raw) / static_cast<double>(packed); }

std::string modes_of(const uint64_t* blocks) {
  std::string text;
  for (int m = 0; m < codec::kModes; ++m)
    if (blocks[m] != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", codec::kModeNames[m], blocks[m]);
  return text;
}

report::Json to_json(const PackReport& r) {
  report::Json out;
  out["files"] = r.files;
  out["copied"] = r.copied;
  out["bytes_in"] = r.bytes_in;
  out["bytes_out"] = r.bytes_out;
  for (const auto& t : r.tensors) {
    report::Json row = {{"file", t.file}, {"name", t.name}, {"dtype", dtype_name(t.dtype)}, {"raw_bytes", t.raw_bytes}, {"packed_bytes", t.packed_bytes}};
    for (int m = 0; m < codec::kModes; ++m)
      if (t.blocks[m] != 0) row["blocks"][std::string(codec::kModeNames[m])] = t.blocks[m];
    out["tensors"].push_back(std::move(row));
  }
  return out;
}

void print_table(const PackReport& r, bool by_tensor) {
  struct Sum {
    uint64_t count = 0, raw = 0, packed = 0, blocks[codec::kModes] = {};
  };
  std::map<std::string, Sum> sums;
  for (const auto& t : r.tensors) {
    Sum& s = sums[by_tensor ? t.name : std::string(dtype_name(t.dtype))];
    ++s.count;
    s.raw += t.raw_bytes;
    s.packed += t.packed_bytes;
    for (int m = 0; m < codec::kModes; ++m) s.blocks[m] += t.blocks[m];
  }
  using report::Align;
  report::Table table({{by_tensor ? "tensor" : "type"}, {"tensors", Align::kRight}, {"bytes", Align::kRight}, {"packed", Align::kRight}, {"ratio", Align::kRight}, {"blocks by mode"}});
  for (const auto& [name, s] : sums)
    table.row({name, fmt::format("{}", s.count), fmt::format("{}", s.raw), fmt::format("{}", s.packed), fmt::format("{:.4f}", ratio(s.raw, s.packed)), modes_of(s.blocks)});
  fmt::print("{}", table.text());
}

// Runs one direction and prints its report.
int run(const std::string& verb, Common& c, Result<PackReport> (*work)(const std::filesystem::path&, const std::filesystem::path&, const codec::PackOptions&)) {
  report::Report report(verb);
  std::unique_ptr<report::Progress> line;
  c.options.threads = static_cast<int>(c.threads);
  c.options.progress = [&](uint64_t done, uint64_t total) {
    if (!line) line = std::make_unique<report::Progress>(verb, total, "B");
    line->set(done);
  };
  const auto done = work(c.source, c.target, c.options);
  line.reset();
  if (!done) return fail(verb, done.error());
  if (!c.json.empty()) {
    report.body["source"] = c.source;
    report.body["target"] = c.target;
    report.body[verb] = to_json(*done);
    if (const Status s = report.write(c.json, c.options.force); !s) return fail(verb, s.error());
    if (c.json == "-") return 0;
  }
  if (verb == "pack") print_table(*done, c.tensors);
  const uint64_t in = done->bytes_in, out = done->bytes_out;
  tell(fmt::format("{}: {} file{}, {} copied, {} to {} bytes ({:.4f}), {:.2f} s", c.target, done->files, done->files == 1 ? "" : "s", done->copied, in, out,
             verb == "pack" ? ratio(in, out) : ratio(out, in), report.elapsed_s()));
  if (verb == "pack" && out > in) tell(fmt::format("{}: is larger than its source, which has nothing to save, as codes of 8 bits have no exponents (docs/codec.md); keep the source", c.target));
  return 0;
}

}  // namespace

int cmd_pack(int argc, char** argv) {
  Common c;
  std::string level = "balanced";
  int64_t block = 16384;
  Args args("pack",
            "Packs a safetensors file, or those of a folder, without loss (docs/codec.md). Other files of a folder are copied. A packed folder opens "
            "wherever a model folder does.",
            {"zeroulp pack models/smollm2 packed", "zeroulp pack cache.safetensors small.safetensors --channels --level rest --block 65536", "zeroulp quantize packed models/again --profile w8a15-free"});
  c.bind(args, "a model folder or a .safetensors file");
  args.choice("--level", level, {"fast", "balanced", "rest"}, "fast: 4-bit exponent codes; balanced: the best of five codes per block; rest: entropy coding too, slower");
  args.option("--block", block, "bytes per block, the unit of random access", 256, 262144);
  args.flag("--channels", c.options.channels, "also try an exponent table per channel of the last dimension, for caches; the smaller result is kept");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  c.options.level = *codec::level_from_name(level);
  c.options.block_bytes = static_cast<uint32_t>(block);
  return run("pack", c, codec::pack);
}

int cmd_unpack(int argc, char** argv) {
  Common c;
  Args args("unpack", "The original bytes of what pack wrote; the SHA-256 of every file is checked before it appears.",
            {"zeroulp unpack packed models/again", "zeroulp unpack small.safetensors model.safetensors"});
  c.bind(args, "a packed folder or .safetensors file");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  return run("unpack", c, codec::unpack);
}

}  // namespace zeroulp::cli
