#include "cases/tensor_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/fields.h"
#include "io/safetensors.h"

namespace zeroulp::cases {
namespace {

constexpr std::string_view kFormat = "zeroulp-cases/1", kAnswerFormat = "zeroulp-answers/1", kCasePrefix = "case.";
constexpr uint64_t kMaxCaseJson = 64 << 10;

std::string input_name(int64_t index, std::string_view name) { return fmt::format("{}.in.{}", index, name); }
std::string output_name(int64_t index, std::string_view name) { return fmt::format("{}.out.{}", index, name); }

io::Json attributes_json(const Case& c) {
  io::Json all = io::Json::array();
  for (const Attribute& a : c.attributes) {
    io::Json j = {{"name", a.name}};
    if (const auto* i = std::get_if<int64_t>(&a.value)) j["integer"] = *i;
    if (const auto* d = std::get_if<double>(&a.value)) j["real"] = *d;
    if (const auto* s = std::get_if<std::string>(&a.value)) j["text"] = *s;
    all.push_back(std::move(j));
  }
  return all;
}

std::string case_json(const Case& c) {
  io::Json inputs = io::Json::array(), outputs = io::Json::array();
  for (const Tensor& t : c.inputs) inputs.push_back(t.name);
  for (const Spec& s : c.outputs) outputs.push_back({{"name", s.name}, {"dtype", dtype_name(s.dtype)}, {"shape", s.shape}});
  return io::Json{{"op", c.op}, {"kind", kind_name(c.kind)}, {"name", c.name}, {"catches", c.catches}, {"attributes", attributes_json(c)}, {"inputs", inputs}, {"outputs", outputs}}.dump();
}

Result<std::vector<Attribute>> read_attributes(const io::Fields& fields) {
  ZU_TRY_ASSIGN(const io::Json* list, fields.array("attributes"));
  std::vector<Attribute> out;
  for (const io::Json& item : *list) {
    ZU_TRY_ASSIGN(const io::Fields f, io::Fields::of(item, fields.name() + ": attributes"));
    Attribute a;
    ZU_TRY_ASSIGN(a.name, f.string("name"));
    if (f.has("integer")) {
      ZU_TRY_ASSIGN(a.value, f.integer("integer", INT64_MIN, INT64_MAX));
    } else if (f.has("real")) {
      ZU_TRY_ASSIGN(a.value, f.number("real", -1e300, 1e300));
    } else {
      ZU_TRY_ASSIGN(a.value, f.string("text"));
    }
    out.push_back(std::move(a));
  }
  return out;
}

Result<std::vector<Spec>> read_outputs(const io::Fields& fields) {
  ZU_TRY_ASSIGN(const io::Json* list, fields.array("outputs"));
  std::vector<Spec> out;
  for (const io::Json& item : *list) {
    ZU_TRY_ASSIGN(const io::Fields f, io::Fields::of(item, fields.name() + ": outputs"));
    Spec s;
    ZU_TRY_ASSIGN(s.name, f.string("name"));
    ZU_TRY_ASSIGN(const std::string dtype, f.string("dtype"));
    const auto known = dtype_from_name(dtype);
    if (!known || wire_number(*known) == 0) return f.error("dtype", fmt::format("is {}, which no output has", in_quotes(dtype)));
    s.dtype = *known;
    ZU_TRY_ASSIGN(s.shape, f.integers("shape", 1, INT32_MAX));
    out.push_back(std::move(s));
  }
  return out;
}

Tensor tensor_of(const io::SafetensorsFile& file, const io::TensorInfo& info, std::string name) {
  const auto data = file.data(info);
  return {{std::move(name), info.dtype, info.shape}, {data.begin(), data.end()}};
}

class CaseFile {
 public:
  static Result<CaseFile> open(const std::filesystem::path& path) {
    CaseFile f;
    ZU_TRY_ASSIGN(f.file_, io::SafetensorsFile::open(path));
    f.name_ = path.string();
    const auto& metadata = f.file_.metadata();
    const auto format = metadata.find("format"), header = metadata.find("header");
    if (format == metadata.end() || format->second != kFormat || header == metadata.end())
      return bad_input(fmt::format("{}: is not a file of cases (zeroulp cases emit OP --format safetensors -o FILE writes one)", f.name_));
    // The header is a stream's, as text.
    const std::string& bytes = header->second;
    StreamHeader read;
    {
      ZU_TRY_ASSIGN(const io::Json json, io::parse_json(bytes, f.name_, {.max_depth = 4, .max_bytes = kMaxHeaderBytes}));
      size_t at = 0;
      const std::string stream = encode_header_json(json.dump());
      ZU_TRY_ASSIGN(const StreamReader reader, StreamReader::open([&](std::byte* to, size_t count) -> Result<size_t> {
                      const size_t n = std::min(count, stream.size() - at);
                      std::memcpy(to, stream.data() + at, n);
                      at += n;
                      return n;
                    }, f.name_));
      read = reader.header();
    }
    f.header_ = std::move(read);
    for (const auto& [key, value] : metadata) {
      if (!key.starts_with(kCasePrefix)) continue;
      int64_t index = -1;
      const auto [end, error] = std::from_chars(key.data() + kCasePrefix.size(), key.data() + key.size(), index);
      if (error != std::errc() || end != key.data() + key.size() || index < 0) return bad_input(fmt::format("{}: metadata {} names no case", f.name_, in_quotes(key)));
      f.indices_.push_back(index);
    }
    std::sort(f.indices_.begin(), f.indices_.end());
    return f;
  }

  const StreamHeader& header() const { return header_; }
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& indices() const { return indices_; }

  Result<Case> read(int64_t index) const {
    const std::string key = fmt::format("{}{}", kCasePrefix, index);
    const auto at = file_.metadata().find(key);
    const std::string where = fmt::format("{}: {}", name_, key);
    if (at == file_.metadata().end()) return bad_input(fmt::format("{}: is not there", where));
    ZU_TRY_ASSIGN(const io::Json json, io::parse_json(at->second, where, {.max_depth = 6, .max_bytes = kMaxCaseJson}));
    ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, where));
    Case c;
    c.index = index;
    ZU_TRY_ASSIGN(c.op, fields.string("op"));
    ZU_TRY_ASSIGN(c.name, fields.string("name"));
    ZU_TRY_ASSIGN(c.catches, fields.string("catches"));
    ZU_TRY_ASSIGN(const std::string kind, fields.string("kind"));
    const auto* known = std::find(std::begin(kKindNames) + 1, std::end(kKindNames), kind);
    if (known == std::end(kKindNames)) return fields.error("kind", fmt::format("is {}", in_quotes(kind)));
    c.kind = static_cast<Kind>(known - std::begin(kKindNames));
    ZU_TRY_ASSIGN(c.attributes, read_attributes(fields));
    ZU_TRY_ASSIGN(c.outputs, read_outputs(fields));
    ZU_TRY_ASSIGN(const std::vector<std::string> inputs, fields.strings("inputs"));
    for (const std::string& input : inputs) {
      const io::TensorInfo* info = file_.find(input_name(index, input));
      if (info == nullptr) return bad_input(fmt::format("{}: tensor {} is not there", where, in_quotes(input_name(index, input))));
      if (wire_number(info->dtype) == 0) return bad_input(fmt::format("{}: tensor {} is of type {}, which no input has", where, in_quotes(info->name), dtype_name(info->dtype)));
      c.inputs.push_back(tensor_of(file_, *info, input));
    }
    return c;
  }

 private:
  static std::string encode_header_json(std::string json) {
    StreamHeader any;
    std::string bytes = encode_header(any).substr(0, 12);
    json.append((8 - json.size() % 8) % 8, ' ');
    const auto length = static_cast<uint32_t>(json.size());
    bytes.append(reinterpret_cast<const char*>(&length), 4);
    return bytes + json;
  }

  io::SafetensorsFile file_;
  std::string name_;
  StreamHeader header_;
  std::vector<int64_t> indices_;
};

class FilePairs : public PairSource {
 public:
  FilePairs(CaseFile cases, io::SafetensorsFile answers) : cases_(std::move(cases)), answers_(std::move(answers)) {}
  const StreamHeader& header() const override { return cases_.header(); }
  const std::string& name() const override { return cases_.name(); }

  Result<std::optional<Pair>> next() override {
    if (at_ == cases_.indices().size()) {
      if (used_ != answers_.tensors().size()) return bad_input(fmt::format("{}: has {} tensors that answer no case; names are like 17.out.y", answers_.path().string(), answers_.tensors().size() - used_));
      return std::optional<Pair>();
    }
    Pair p;
    ZU_TRY_ASSIGN(p.given, cases_.read(cases_.indices()[at_++]));
    p.payload = encode_case(p.given);
    p.answer.index = p.given.index;
    for (const Spec& s : p.given.outputs) {
      const io::TensorInfo* info = answers_.find(output_name(p.given.index, s.name));
      if (info == nullptr) continue;
      p.answer.outputs.push_back(tensor_of(answers_, *info, s.name));
      ++used_;
    }
    return std::optional<Pair>(std::move(p));
  }

 private:
  CaseFile cases_;
  io::SafetensorsFile answers_;
  size_t at_ = 0, used_ = 0;
};

}  // namespace

Status write_case_file(const std::filesystem::path& path, const StreamHeader& header, const std::function<Status(const Sink&)>& each, bool force) {
  std::vector<io::TensorSpec> specs;
  const std::string stream = encode_header(header);
  io::Metadata metadata = {{"format", std::string(kFormat)}, {"header", stream.substr(16)}};
  ZU_TRY(each([&](Case&& c) {
    metadata.emplace(fmt::format("{}{}", kCasePrefix, c.index), case_json(c));
    for (const Tensor& t : c.inputs) specs.push_back({input_name(c.index, t.name), t.dtype, t.shape});
    return true;
  }));
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(path, specs, metadata, force));
  Status status;
  ZU_TRY(each([&](Case&& c) {
    for (const Tensor& t : c.inputs)
      if (status) status = writer.write(input_name(c.index, t.name), t.data);
    return status.has_value();
  }));
  ZU_TRY(status);
  return writer.commit();
}

Result<CheckResult> check_files(const std::filesystem::path& cases, const std::filesystem::path& answers) {
  ZU_TRY_ASSIGN(CaseFile file, CaseFile::open(cases));
  ZU_TRY_ASSIGN(io::SafetensorsFile given, io::SafetensorsFile::open(answers));
  FilePairs pairs(std::move(file), std::move(given));
  return check_pairs(pairs);
}

Status answer_file(const std::filesystem::path& cases, const std::filesystem::path& answers,
                   const std::function<Result<Outputs>(const Form& form, const Bound& c)>& kernel, bool force) {
  ZU_TRY_ASSIGN(const CaseFile file, CaseFile::open(cases));
  const Form& form = *find_form(file.header().op);
  std::vector<io::TensorSpec> specs;
  for (const int64_t index : file.indices()) {
    ZU_TRY_ASSIGN(const Case c, file.read(index));
    ZU_TRY(bind(form, c));
    for (const Spec& s : c.outputs) specs.push_back({output_name(index, s.name), s.dtype, s.shape});
  }
  ZU_TRY_ASSIGN(auto writer, io::SafetensorsWriter::create(answers, specs, {{"format", std::string(kAnswerFormat)}}, force));
  for (const int64_t index : file.indices()) {
    ZU_TRY_ASSIGN(const Case c, file.read(index));
    ZU_TRY_ASSIGN(const Bound bound, bind(form, c));
    ZU_TRY_ASSIGN(const Outputs outputs, kernel(form, bound));
    for (const Tensor& t : outputs) ZU_TRY(writer.write(output_name(index, t.name), t.data));
  }
  return writer.commit();
}

}  // namespace zeroulp::cases
