#include "model/describe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/checkpoint.h"
#include "model/gguf_config.h"
#include "model/gguf_tokenizer.h"
#include "model/quantized_model.h"

namespace zeroulp::model {
namespace fs = std::filesystem;
namespace {

using io::Json;

void add_files(const TensorFiles& files, Description& out) {
  for (const io::SafetensorsFile& file : files.files()) {
    ++out.files;
    out.bytes += file.file_bytes();
    for (const io::TensorInfo& t : file.tensors())
      out.tensors.push_back({t.name, std::string(dtype_name(t.dtype)), t.shape, t.bytes});
    for (const auto& [key, value] : file.metadata()) out.metadata[key] = value;
  }
}

// The file's JSON if it is there and well-formed; what is wrong with it goes to the notes.
Json optional_json(const fs::path& path, Description& out) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return Json();
  auto json = io::read_json_file(path);
  if (json && json->is_object()) return std::move(*json);
  out.notes.push_back(json ? fmt::format("{}: is not a JSON object", path.string()) : json.error().text);
  return Json();
}

void add_tokenizer_files(const fs::path& folder, Description& out) {
  const Json tokenizer = optional_json(folder / "tokenizer.json", out);
  if (tokenizer.contains("model") && tokenizer["model"].is_object()) {
    const Json& model = tokenizer["model"];
    out.tokenizer = model.contains("type") && model["type"].is_string() ? model["type"].get<std::string>() : "unknown";
    std::set<uint64_t> ids;  // added tokens may stand in the vocabulary too
    if (model.contains("vocab") && model["vocab"].is_object())
      for (const Json& id : model["vocab"])
        if (id.is_number_unsigned()) ids.insert(id.get<uint64_t>());
    if (tokenizer.contains("added_tokens") && tokenizer["added_tokens"].is_array())
      for (const Json& t : tokenizer["added_tokens"])
        if (t.is_object() && t.contains("id") && t["id"].is_number_unsigned()) ids.insert(t["id"].get<uint64_t>());
    out.tokens = ids.size();
  }
  std::error_code ec;
  const Json config = optional_json(folder / "tokenizer_config.json", out);
  out.has_chat_template = fs::exists(folder / "chat_template.jinja", ec) ||
                          (config.contains("chat_template") && !config["chat_template"].is_null());
}

Result<Description> describe_folder(const fs::path& folder) {
  Description out;
  std::error_code ec;
  const bool quantized = fs::exists(folder / "zeroulp.json", ec);
  if (!quantized && !fs::exists(folder / "config.json", ec))
    return bad_input(
        fmt::format("{}: holds neither config.json (Hugging Face) nor zeroulp.json; not a model folder", folder.string()));
  out.kind = quantized ? "zeroulp-model" : "hugging-face";
  add_tokenizer_files(folder, out);
  auto files = TensorFiles::open(folder);
  if (files) add_files(*files, out);
  if (quantized) {
    const auto model = QuantizedModel::open(folder);
    if (!model) {
      out.problem = model.error();
    } else {
      out.config = model->header().config;
      if (const Status same = model->verify_identity(); !same) out.problem = same.error();
      out.metadata["identity"] = model->identity();
      out.metadata["profile"] = model->header().profile;
    }
    return out;
  }
  const auto checkpoint = Checkpoint::open(folder);
  if (checkpoint) {
    out.config = checkpoint->config();
    out.notes.insert(out.notes.end(), checkpoint->notes().begin(), checkpoint->notes().end());
    return out;
  }
  out.problem = checkpoint.error();
  if (auto config = io::read_json_file(folder / "config.json"))
    if (auto parsed = parse_config(*config, nullptr, (folder / "config.json").string())) out.config = std::move(*parsed);
  return out;
}

Result<Description> describe_safetensors(const fs::path& path) {
  ZU_TRY_ASSIGN(const TensorFiles files, TensorFiles::open_file(path));
  Description out;
  out.kind = "safetensors";
  add_files(files, out);
  return out;
}

Json value_json(const io::GgufValue& v) {
  if (v.is_integer()) {
    const auto value = v.integer();
    return value ? Json(*value) : Json("above 2^63");
  }
  if (const auto number = v.number()) return *number;
  if (const auto boolean = v.boolean()) return *boolean;
  if (v.kind == io::GgufKind::kString) return is_utf8(v.text) ? Json(std::string(v.text)) : Json(in_quotes(v.text));
  return Json{{"array_of", gguf_kind_name(v.element)}, {"count", v.count}};
}

Result<Description> describe_gguf(const fs::path& path) {
  ZU_TRY_ASSIGN(const io::GgufModel model, io::GgufModel::open(path));
  Description out;
  out.kind = "gguf";
  out.files = model.parts();
  out.bytes = model.file_bytes();
  for (const io::GgufTensor& t : model.tensors())
    out.tensors.push_back({t.name, std::string(t.type->name), t.shape, t.data.size()});
  for (const auto& [key, value] : model.metadata()) {
    out.metadata[key] = value_json(value);
    if (key.starts_with("tokenizer.chat_template")) out.has_chat_template = true;
  }
  if (const io::GgufValue* tokens = model.value("tokenizer.ggml.tokens")) out.tokens = tokens->count;
  const auto text = [&](const char* key) {
    return model.value(key) != nullptr ? std::string(model.value(key)->text) : "(absent)";
  };
  if (model.value("tokenizer.ggml.model") != nullptr)
    out.tokenizer = fmt::format("{}, pre {}", text("tokenizer.ggml.model"), text("tokenizer.ggml.pre"));

  const auto keys = GgufKeys::of(model);
  const auto config = keys ? config_from_gguf(*keys) : Result<GgufConfig>(keys.error());
  if (!config) {
    out.problem = config.error();
    return out;
  }
  const Json config_json = config->config, generation_json = config->generation_config;
  auto parsed = parse_config(config_json, &generation_json, path.string());
  if (parsed) {
    out.config = std::move(*parsed);
  } else {
    out.problem = parsed.error();
  }
  return out;
}

}  // namespace

Result<Description> describe(const fs::path& path) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) return describe_folder(path);
  ZU_TRY_ASSIGN(const MappedFile file, MappedFile::open(path));
  const auto bytes = file.bytes();
  const bool is_gguf = bytes.size() >= 4 && std::string_view(reinterpret_cast<const char*>(bytes.data()), 4) == "GGUF";
  return is_gguf ? describe_gguf(path) : describe_safetensors(path);
}

}  // namespace zeroulp::model
