#include <fmt/format.h>

#include <map>
#include <optional>

#include "args.h"
#include "base/text.h"
#include "device/device.h"
#include "model/describe.h"
#include "model/quantized_model.h"
#include "ops/kv_cache/contract.h"
#include "report/json.h"
#include "report/table.h"
#include "tokenizer/tokenizer.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

struct TypeTotal {
  uint64_t tensors = 0, elements = 0, bytes = 0;
};

uint64_t elements_of(const model::TensorLine& t) {
  uint64_t n = 1;
  for (const int64_t d : t.shape) n *= static_cast<uint64_t>(d);
  return n;
}

std::map<std::string, TypeTotal> totals_by_type(const model::Description& d) {
  std::map<std::string, TypeTotal> out;
  for (const model::TensorLine& t : d.tensors) {
    TypeTotal& total = out[t.type];
    ++total.tensors;
    total.elements += elements_of(t);
    total.bytes += t.bytes;
  }
  return out;
}

report::Json config_json(const model::ModelConfig& c) {
  int64_t windowed = 0;
  for (const auto& w : c.window) windowed += w.has_value();
  report::Json out{{"architecture", c.architecture},
                   {"layers", c.layers},
                   {"hidden", c.hidden},
                   {"intermediate", c.intermediate},
                   {"heads", c.heads},
                   {"kv_heads", c.kv_heads},
                   {"head_dim", c.head_dim},
                   {"vocab", c.vocab},
                   {"max_positions", c.max_positions},
                   {"rms_eps", c.rms_eps},
                   {"qkv_bias", c.qkv_bias},
                   {"qk_norm", c.qk_norm},
                   {"tied_head", c.tied_head},
                   {"stop_tokens", c.stop_tokens},
                   {"windowed_layers", windowed}};
  if (c.bos_token) out["bos_token"] = *c.bos_token;
  return out;
}

void add_description(const model::Description& d, report::Json& out) {
  out["kind"] = d.kind;
  out["files"] = d.files;
  out["bytes"] = d.bytes;
  out["config"] = d.config ? config_json(*d.config) : report::Json();
  out["tokenizer"] = d.tokenizer.empty() ? report::Json() : report::Json{{"kind", d.tokenizer}, {"tokens", d.tokens}};
  out["chat_template"] = d.has_chat_template;
  out["metadata"] = d.metadata;
  out["notes"] = d.notes;
  out["problem"] = d.problem ? report::Json(d.problem->text) : report::Json();
  for (const auto& [type, t] : totals_by_type(d))
    out["types"][type] = {{"tensors", t.tensors}, {"elements", t.elements}, {"bytes", t.bytes}};
  out["tensors"] = report::Json::array();
  for (const model::TensorLine& t : d.tensors)
    out["tensors"].push_back({{"name", t.name}, {"type", t.type}, {"shape", t.shape}, {"bytes", t.bytes}});
}

void print_config(const model::ModelConfig& c) {
  fmt::print("architecture   {}: {} layers, hidden {}, {} query and {} KV heads of {}, intermediate {}\n", on_one_line(c.architecture),
             c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.intermediate);
  fmt::print("vocabulary     {} rows, {} head; stop tokens {}\n", c.vocab, c.tied_head ? "tied" : "untied",
             fmt::join(c.stop_tokens, ", "));
  fmt::print("context        {} positions\n", c.max_positions);
}

void print_description(const model::Description& d, const std::string& path, bool all) {
  fmt::print("{}: {}, {} file{}, {:.1f} MB\n", on_one_line(path), d.kind, d.files, d.files == 1 ? "" : "s",
             static_cast<double>(d.bytes) / 1e6);
  if (d.config) print_config(*d.config);
  if (d.kind != "safetensors") {
    fmt::print("tokenizer      {}\n",
               d.tokenizer.empty() ? "none" : fmt::format("{}, {} tokens", on_one_line(d.tokenizer), d.tokens));
    fmt::print("chat template  {}\n", d.has_chat_template ? "present" : "none");
  }
  using report::Align;
  report::Table types({{"type"}, {"tensors", Align::kRight}, {"elements", Align::kRight}, {"bytes", Align::kRight}});
  for (const auto& [type, t] : totals_by_type(d))
    types.row({type, std::to_string(t.tensors), std::to_string(t.elements), std::to_string(t.bytes)});
  if (!types.empty()) fmt::print("\n{}", types.text());
  if (!all) return;
  report::Table tensors({{"tensor"}, {"type"}, {"shape"}, {"bytes", Align::kRight}});
  for (const model::TensorLine& t : d.tensors)
    tensors.row({t.name, t.type, fmt::format("[{}]", fmt::join(t.shape, ", ")), std::to_string(t.bytes)});
  fmt::print("\n{}", tensors.text());
}

// A quantised model on a GPU: what it takes, and the time per token that its bytes alone cost.
struct OnGpu {
  device::Properties gpu;
  int64_t weight_bytes = 0, kv_bytes_per_position = 0;
  double read_bandwidth = 0;
  double floor_ms() const { return 1e3 * static_cast<double>(weight_bytes) / read_bandwidth; }
};

Result<OnGpu> on_gpu(const std::string& path, int index) {
  OnGpu out;
  if (!model::is_quantized_folder(path)) return bad_input(fmt::format("{}: only a quantised model runs on a GPU (zeroulp quantize makes one)", path));
  ZU_TRY_ASSIGN(const model::QuantizedModel m, model::QuantizedModel::open(path));
  ZU_TRY(device::use(index));
  ZU_TRY_ASSIGN(out.gpu, device::properties(index));
  ZU_TRY_ASSIGN(out.read_bandwidth, device::read_bandwidth(int64_t{2} << 30, 9));
  out.weight_bytes = m.weight_bytes();
  for (const model::QuantizedLayer& layer : m.layers())
    out.kv_bytes_per_position += m.config().kv_heads * ops::kv_cache::Layout{m.config().head_dim, layer.key_width}.bytes() / ops::kv_cache::kBlock;
  return out;
}

void print_on_gpu(const OnGpu& g) {
  fmt::print("cuda:{}         {}: weights take {:.2f} of {:.1f} GiB, the KV cache {:.1f} KiB per position; reading the weights at {:.2f} TB/s takes {:.3f} ms per "
             "token\n",
             g.gpu.index, g.gpu.name, static_cast<double>(g.weight_bytes) / (1 << 30), static_cast<double>(g.gpu.memory_bytes) / (1 << 30),
             static_cast<double>(g.kv_bytes_per_position) / 1024, g.read_bandwidth / 1e12, g.floor_ms());
}

// A tokenizer that is there and cannot be used is a problem of the folder.
void check_tokenizer(const std::string& path, model::Description& d) {
  std::error_code ec;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(std::filesystem::path(path) / "tokenizer.json", ec));
  if (d.problem || !there || (d.kind != "hugging-face" && d.kind != "zeroulp-model")) return;
  const auto tokenizer = tokenizer::Tokenizer::load(path);
  if (!tokenizer)
    d.problem = tokenizer.error();
  else if (d.config && static_cast<int64_t>(tokenizer->size()) > d.config->vocab)
    d.problem = bad_input(fmt::format("{}: tokenizer.json has ids up to {}, the model has {} rows", path, tokenizer->size() - 1, d.config->vocab));
}

}  // namespace

int cmd_info(int argc, char** argv) {
  std::string path, device = "cpu";
  bool json = false, all = false;
  Args args("info",
            "What is in a model folder, a safetensors file or a GGUF file: configuration, tensors, tokenizer. Exit code 3 if "
            "it cannot be used.",
            {"zeroulp info models/smollm2", "zeroulp info model.gguf --tensors", "zeroulp info model.safetensors --json"});
  args.positional("PATH", path, "folder (Hugging Face or zeroulp), .safetensors or .gguf");
  args.flag("--tensors", all, "list every tensor");
  args.option("--device", device, "cuda or cuda:N: what a quantised model takes there");
  args.flag("--json", json, "everything as JSON (schema zeroulp.info/1)");
  args.excludes({"--tensors"}, {"--json"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;

  report::Report report("info");
  auto description = model::describe(path);
  if (!description) return fail("info", description.error());
  check_tokenizer(path, *description);
  const Result<int> gpu = device::parse_device(device);
  if (!gpu) return fail("info", gpu.error());
  std::optional<OnGpu> there;
  if (*gpu >= 0) {
    Result<OnGpu> found = on_gpu(path, *gpu);
    if (!found) return fail("info", found.error());
    there = *std::move(found);
  }
  if (json) {
    if (there)
      report.body["gpu"] = {{"name", there->gpu.name}, {"memory_bytes", there->gpu.memory_bytes}, {"weight_bytes", there->weight_bytes},
                            {"kv_bytes_per_position", there->kv_bytes_per_position}, {"read_bytes_per_second", there->read_bandwidth}};
    report.body["path"] = path;
    add_description(*description, report.body);
    if (const Status s = report.write("-", false); !s) return fail("info", s.error());
  } else {
    print_description(*description, path, all);
    if (there) print_on_gpu(*there);
    for (const std::string& note : description->notes) say(fmt::format("zeroulp info: {}", note));
  }
  return description->problem ? fail("info", *description->problem) : 0;
}

}  // namespace zeroulp::cli
