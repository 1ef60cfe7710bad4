#include "verify/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "model/quantized_model.h"
#include "num/bf16.h"
#include "num/bits.h"
#include "num/fp16.h"
#include "verify/replay.h"

namespace zeroulp::verify {
namespace fs = std::filesystem;
namespace {

using model::TensorFiles;

constexpr size_t kSignOfZero = 0, kNanInOne = kDistanceNames.size() - 1;

size_t distance_bucket(uint64_t distance) {
  constexpr uint64_t kLargest[] = {0, 1, 2, 4, 8, 16, 32, 64, 256, 65536};
  size_t i = 0;
  while (i < std::size(kLargest) && distance > kLargest[i]) ++i;
  return i;
}

// How the elements of a type are compared and shown. Types without a row are compared and shown as raw bytes.
struct ElementKind {
  Dtype dtype;
  int bytes;
  bool is_float, is_signed;
  uint64_t infinity;  // floats: bits above this, without the sign, are NaN
};
constexpr ElementKind kElementKinds[] = {
    {Dtype::kF16, 2, true, true, 0x7C00},     {Dtype::kBF16, 2, true, true, 0x7F80},
    {Dtype::kF32, 4, true, true, 0x7F800000}, {Dtype::kF64, 8, true, true, 0x7FF0000000000000},
    {Dtype::kF8E5M2, 1, true, true, 0x7C},    {Dtype::kF8E4M3, 1, true, true, 0x7E},
    {Dtype::kI8, 1, false, true, 0},          {Dtype::kI16, 2, false, true, 0},
    {Dtype::kI32, 4, false, true, 0},         {Dtype::kI64, 8, false, true, 0},
    {Dtype::kU16, 2, false, false, 0},        {Dtype::kU32, 4, false, false, 0},
    {Dtype::kU64, 8, false, false, 0},
};
constexpr ElementKind kRawBytes = {Dtype::kU8, 1, false, false, 0};

const ElementKind& kind_of(Dtype dtype) {
  for (const ElementKind& k : kElementKinds)
    if (k.dtype == dtype) return k;
  return kRawBytes;
}

uint64_t load(const std::byte* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(at[i]) << (8 * i);
  return value;
}

int64_t sign_extended(uint64_t bits, int bytes) {
  const int shift = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << shift) >> shift;
}

std::string value_text(uint64_t bits, const ElementKind& kind) {
  const std::string hex = fmt::format("0x{:0{}x}", bits, 2 * kind.bytes);
  switch (kind.dtype) {
    case Dtype::kF16:
      return fmt::format("{} ({})", num::fp16_to_float(static_cast<uint16_t>(bits)), hex);
    case Dtype::kBF16:
      return fmt::format("{} ({})", num::bf16_to_float(static_cast<uint16_t>(bits)), hex);
    case Dtype::kF32:
      return fmt::format("{} ({})", num::float_of(static_cast<uint32_t>(bits)), hex);
    case Dtype::kF64:
      return fmt::format("{} ({})", std::bit_cast<double>(bits), hex);
    case Dtype::kF8E5M2:
    case Dtype::kF8E4M3:
      return hex;
    default:
      break;
  }
  return kind.is_signed ? fmt::format("{} ({})", sign_extended(bits, kind.bytes), hex) : fmt::format("{} ({})", bits, hex);
}

// Which bucket two unequal elements fall into, and how far they are apart (0 where that means nothing).
size_t compare_element(uint64_t a, uint64_t b, const ElementKind& kind, uint64_t& distance) {
  distance = 0;
  if (kind.is_float) {
    const uint64_t magnitude = (uint64_t{1} << (8 * kind.bytes - 1)) - 1;
    if ((a & magnitude) > kind.infinity || (b & magnitude) > kind.infinity) return kNanInOne;
    distance = num::ulp_gap(a, b, 8 * kind.bytes);
  } else if (kind.is_signed) {
    const int64_t x = sign_extended(a, kind.bytes), y = sign_extended(b, kind.bytes);
    distance =
        x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y) : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
  } else {
    distance = a > b ? a - b : b - a;
  }
  return distance == 0 ? kSignOfZero : distance_bucket(distance);
}

std::vector<int64_t> index_of(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; flat /= shape[i]) index[i] = flat % shape[i];
  return index;
}

void compare_elements(const std::byte* a, const std::byte* b, size_t bytes, TensorDiff& out) {
  const ElementKind& kind = kind_of(out.dtype_a);
  const bool whole_elements = kind.dtype == out.dtype_a || dtype_bits(out.dtype_a) == 8;
  for (size_t at = 0; at < bytes; at += static_cast<size_t>(kind.bytes)) {
    const uint64_t x = load(a + at, kind.bytes), y = load(b + at, kind.bytes);
    if (x == y) continue;
    uint64_t distance;
    ++out.distances[compare_element(x, y, kind, distance)];
    out.largest_distance = std::max(out.largest_distance, distance);
    if (out.differing++ > 0) continue;
    const int64_t flat = static_cast<int64_t>(at) / kind.bytes;
    // Packed types: the byte, since an element has no address.
    out.first = whole_elements ? index_of(flat, out.shape_a) : std::vector<int64_t>{flat};
    out.first_a = value_text(x, kind);
    out.first_b = value_text(y, kind);
  }
}

// Embedding, then layers by number, then the rest: the order in which a model computes. Numbers compare as numbers.
struct ModelOrder {
  static int rank(std::string_view name) {
    if (name.find("embed") != name.npos) return 0;
    return name.find("layers.") != name.npos ? 1 : 2;
  }
  bool operator()(const std::string& a, const std::string& b) const {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
      if (digit(a[i]) && digit(b[j])) {
        const auto number = [&](const std::string& s, size_t& at) {
          const size_t start = std::min(s.find_first_not_of('0', at), s.size());
          at = start;
          while (at < s.size() && digit(s[at])) ++at;
          return std::string_view(s).substr(start, at - start);
        };
        const std::string_view x = number(a, i), y = number(b, j);
        if (x.size() != y.size()) return x.size() < y.size();
        if (x != y) return x < y;
      } else if (a[i] != b[j]) {
        return a[i] < b[j];
      } else {
        ++i, ++j;
      }
    }
    if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
    return a < b;  // "7" and "07"
  }
};

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

Result<TensorFiles> open_tensors(const fs::path& path) {
  return is_folder(path) ? TensorFiles::open(path) : TensorFiles::open_file(path);
}

TensorDiff compare_tensor(const std::string& name, const std::optional<TensorFiles::Place>& a,
                          const std::optional<TensorFiles::Place>& b) {
  TensorDiff out;
  out.name = name;
  if (a) out.dtype_a = a->tensor->dtype, out.shape_a = a->tensor->shape;
  if (b) out.dtype_b = b->tensor->dtype, out.shape_b = b->tensor->shape;
  if (!a || !b) {
    out.state = a ? TensorState::kOnlyInA : TensorState::kOnlyInB;
  } else if (out.dtype_a != out.dtype_b) {
    out.state = TensorState::kTypeDiffers;
  } else if (out.shape_a != out.shape_b) {
    out.state = TensorState::kShapeDiffers;
  } else {
    out.elements = a->tensor->elements();
    const auto x = a->file->data(*a->tensor), y = b->file->data(*b->tensor);
    if (std::memcmp(x.data(), y.data(), x.size()) != 0) {
      out.state = TensorState::kDiffers;
      compare_elements(x.data(), y.data(), x.size(), out);
    }
  }
  return out;
}

// The JSON files beside the weights: their content, not their spelling.
Result<std::vector<std::string>> compare_json_files(const fs::path& a, const fs::path& b) {
  std::set<std::string> names;
  for (const fs::path& folder : {a, b})
    for (const auto& entry : fs::directory_iterator(folder))
      // How tensors are spread over files is not part of a model.
      if (entry.path().extension() == ".json" && entry.path().filename() != "model.safetensors.index.json")
        names.insert(entry.path().filename().string());
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (!fs::exists(a / name) || !fs::exists(b / name)) {
      out.push_back(fmt::format("{} is only in {}", in_quotes(name), fs::exists(a / name) ? "A" : "B"));
      continue;
    }
    ZU_TRY_ASSIGN(const io::Json x, io::read_json_file(a / name));
    ZU_TRY_ASSIGN(const io::Json y, io::read_json_file(b / name));
    if (x == y) continue;
    const io::Json changes = io::Json::diff(x, y);
    out.push_back(
        fmt::format("{} differs, first at {}", in_quotes(name), in_quotes(changes.at(0).at("path").get<std::string>())));
  }
  return out;
}

void note_identity(const fs::path& path, std::vector<std::string>& notes) {
  if (!is_folder(path) || !model::is_quantized_folder(path)) return;
  const auto model = model::QuantizedModel::open(path);
  const Status status = model ? model->verify_identity() : Status(model.error());
  if (!status) notes.push_back(status.error().text);
}

Result<CheckpointDiff> diff_checkpoints(const fs::path& path_a, const fs::path& path_b, const DiffProgress& progress) {
  ZU_TRY_ASSIGN(const TensorFiles a, open_tensors(path_a));
  ZU_TRY_ASSIGN(const TensorFiles b, open_tensors(path_b));
  CheckpointDiff out;
  for (const fs::path& path : {path_a, path_b}) note_identity(path, out.notes);
  if (is_folder(path_a) && is_folder(path_b)) {
    ZU_TRY_ASSIGN(out.differing_json, compare_json_files(path_a, path_b));
  }
  std::set<std::string, ModelOrder> names;
  uint64_t total = 0, done = 0;
  for (const auto& [name, place] : a.tensors()) {
    names.insert(name);
    total += place.tensor->bytes;
  }
  for (const auto& [name, place] : b.tensors()) names.insert(name);
  for (const std::string& name : names) {
    if (interrupt_requested()) return interrupted();
    const auto place = a.find(name);
    TensorDiff t = compare_tensor(name, place, b.find(name));
    out.elements += t.elements;
    out.differing += t.differing;
    for (size_t i = 0; i < t.distances.size(); ++i) out.distances[i] += t.distances[i];
    out.tensors.push_back(std::move(t));
    if (place) done += place->tensor->bytes;
    if (progress) progress(done, total);
  }
  return out;
}

using Sequences = std::map<int64_t, std::map<int64_t, num::Digest>>;  // [sequence][position]

// A run log; one without a workload for JSON, which holds digests alone.
Result<RunLog> read_any_log(const fs::path& path, const std::optional<std::string>& key) {
  constexpr uint64_t kMaxLog = 4ull << 30;
  ZU_TRY_ASSIGN(const std::string text, read_text_file(path, kMaxLog));
  if (path.extension() == ".zlog" || looks_like_run_log(text)) return decode_run_log(text, key, path.string());
  if (key) return bad_input(fmt::format("{}: is a digest log, which has no seal; --key is for run logs", path.string()));
  ZU_TRY_ASSIGN(const io::Json json, io::parse_json(text, path.string()));
  RunLog run;
  if (json.is_object() && json.contains("model") && json["model"].is_object()) {
    const io::Json identity = json["model"].value("identity", io::Json());
    if (identity.is_string()) run.model_identity = identity.get<std::string>();
  }
  ZU_TRY_ASSIGN(run.log, DigestLog::from_json(json.is_array() ? io::Json{{"digests", json}} : json, path.string()));
  return run;
}

Sequences by_sequence(const DigestLog& log) {
  Sequences out;
  for (const auto& [key, digest] : log.digests) out[key.first][key.second] = digest;
  return out;
}

SequenceDiff compare_sequence(int64_t sequence, const std::map<int64_t, num::Digest>& a, const std::map<int64_t, num::Digest>& b) {
  SequenceDiff out;
  out.sequence = sequence;
  for (const auto& [position, digest] : a) {
    const auto other = b.find(position);
    if (other == b.end()) {
      ++out.only_in_a;
      continue;
    }
    ++out.compared;
    if (digest == other->second) continue;
    if (out.differing++ > 0) continue;
    out.first_position = position;
    out.first_a = digest.hex();
    out.first_b = other->second.hex();
  }
  out.only_in_b = static_cast<int64_t>(b.size()) - out.compared;
  return out;
}

std::string first_token_difference(const std::vector<std::vector<int32_t>>& a, const std::vector<std::vector<int32_t>>& b) {
  for (size_t s = 0; s < std::min(a.size(), b.size()); ++s)
    for (size_t i = 0; i < std::min(a[s].size(), b[s].size()); ++i)
      if (a[s][i] != b[s][i]) return fmt::format("sequence {}, generated token {}: {} in A, {} in B", s, i, a[s][i], b[s][i]);
  return "";
}

std::string sampling_text(const ops::sample::Settings& s) {
  return fmt::format("temperature {}, top-k {}, top-p {}, seed {}", s.temperature, s.top_k, s.top_p, s.seed);
}

Result<DigestLogDiff> diff_digest_logs(const fs::path& path_a, const fs::path& path_b, const std::optional<std::string>& key) {
  ZU_TRY_ASSIGN(const RunLog log_a, read_any_log(path_a, key));
  ZU_TRY_ASSIGN(const RunLog log_b, read_any_log(path_b, key));
  Sequences a = by_sequence(log_a.log), b = by_sequence(log_b.log);
  std::set<int64_t> sequences;
  for (const auto& log : {&a, &b})
    for (const auto& [sequence, digests] : *log) sequences.insert(sequence);
  DigestLogDiff out;
  for (const int64_t s : sequences) out.sequences.push_back(compare_sequence(s, a[s], b[s]));
  out.first_token = first_token_difference(log_a.log.tokens, log_b.log.tokens);
  const auto note = [&](std::string_view what, std::string_view of_a, std::string_view of_b) {
    if (!of_a.empty() && !of_b.empty() && of_a != of_b) out.notes.push_back(fmt::format("{}: {} in A, {} in B", what, of_a, of_b));
  };
  note("the logs are of two models", log_a.model_identity, log_b.model_identity);
  if (!log_a.workload.prompts.empty() && !log_b.workload.prompts.empty()) {
    if (log_a.workload.prompts != log_b.workload.prompts) out.notes.push_back("the prompts differ");
    note("the sampling differs", sampling_text(log_a.workload.sampling), sampling_text(log_b.workload.sampling));
  }
  if (log_a.workload.prompts == log_b.workload.prompts)
    if (const auto layer = first_layer_difference(log_a, log_b)) out.first_layer = layer->text();
  return out;
}

bool is_digest_log(const fs::path& path) { return !is_folder(path) && (path.extension() == ".json" || path.extension() == ".zlog"); }

}  // namespace

std::string_view state_name(TensorState state) {
  constexpr std::string_view kNames[] = {"equal", "differs", "type differs", "shape differs", "only in A", "only in B"};
  return kNames[static_cast<int>(state)];
}

const TensorDiff* CheckpointDiff::first_difference() const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [](const TensorDiff& t) { return t.state != TensorState::kEqual; });
  return found == tensors.end() ? nullptr : &*found;
}

bool CheckpointDiff::equal() const { return first_difference() == nullptr && differing_json.empty(); }

bool DigestLogDiff::equal() const {
  return first_token.empty() && std::all_of(sequences.begin(), sequences.end(), [&](const SequenceDiff& s) { return equal(s); });
}

bool DigestLogDiff::equal(const SequenceDiff& s) const { return s.differing == 0 && (common || (s.only_in_a == 0 && s.only_in_b == 0)); }

bool DigestLogDiff::any_differs() const {
  return !first_token.empty() || std::any_of(sequences.begin(), sequences.end(), [](const SequenceDiff& s) { return s.differing > 0; });
}

int64_t DigestLogDiff::compared() const {
  int64_t n = 0;
  for (const SequenceDiff& s : sequences) n += s.compared;
  return n;
}

Result<Diff> diff_paths(const fs::path& a, const fs::path& b, const DiffProgress& progress, bool common, const std::optional<std::string>& key) {
  Diff out;
  if (is_digest_log(a) != is_digest_log(b))
    return bad_input(
        fmt::format("{} and {} are of different kinds: compare two checkpoints or two digest logs", a.string(), b.string()));
  if (is_digest_log(a)) {
    out.kind = DiffKind::kDigestLogs;
    ZU_TRY_ASSIGN(out.digests, diff_digest_logs(a, b, key));
    out.digests.common = common;
  } else {
    if (key) return usage_error("--key is for run logs: checkpoints have no seal");
    if (common) return usage_error("--common is for digest logs: of two checkpoints every tensor is compared");
    ZU_TRY_ASSIGN(out.checkpoints, diff_checkpoints(a, b, progress));
  }
  return out;
}

}  // namespace zeroulp::verify
