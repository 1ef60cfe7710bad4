#include "io/gguf.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <set>

#include "base/text.h"

namespace zeroulp::io {
namespace {

constexpr uint64_t kKeyLimit = 65535;
constexpr uint64_t kNameLimit = 63;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr auto kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// Bytes of a scalar; 0 for strings, arrays and numbers that are no kind.
uint64_t kind_bytes(uint32_t kind) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kind < std::size(kBytes) ? kBytes[kind] : 0;
}

// Walks the file from its front; every read is checked against what is left.
class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view name) : file_(file), name_(name) {}

  Error error(std::string_view text) const { return bad_input(fmt::format("{}: byte {}: {}", name_, position_, text)); }
  uint64_t left() const { return file_.size() - position_; }
  uint64_t position() const { return position_; }

  Result<std::span<const std::byte>> take(uint64_t bytes, std::string_view what) {
    if (bytes > left()) return error(fmt::format("{} needs {} bytes, but only {} are left", what, bytes, left()));
    const auto out = file_.subspan(position_, bytes);
    position_ += bytes;
    return out;
  }
  template <class T>
  Result<T> number(std::string_view what) {
    ZU_TRY_ASSIGN(const auto raw, take(sizeof(T), what));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  Result<std::string_view> string(uint64_t limit, std::string_view what) {
    ZU_TRY_ASSIGN(const auto length, number<uint64_t>(what));
    if (length > limit) return error(fmt::format("{} is {} bytes long, above the limit of {}", what, length, limit));
    ZU_TRY_ASSIGN(const auto raw, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  // A count of things that take at least `least` bytes each.
  Result<uint64_t> count(uint64_t value, uint64_t least, uint64_t limit, std::string_view what) const {
    if (value > limit) return error(fmt::format("{} {}, above the limit of {}", value, what, limit));
    if (value > left() / least)
      return error(fmt::format("{} {} do not fit into the {} bytes that are left", value, what, left()));
    return value;
  }

 private:
  std::span<const std::byte> file_;
  std::string_view name_;
  uint64_t position_ = 0;
};

Status check_bools(const Reader& r, std::span<const std::byte> raw, std::string_view what) {
  for (const std::byte b : raw)
    if (b > std::byte{1}) return r.error(fmt::format("{}: {} is not a boolean, which is 0 or 1", what, static_cast<int>(b)));
  return {};
}

Result<GgufValue> read_array(Reader& r, const std::string& what) {
  GgufValue v;
  v.kind = GgufKind::kArray;
  ZU_TRY_ASSIGN(const auto element, r.number<uint32_t>(what));
  ZU_TRY_ASSIGN(const auto count, r.number<uint64_t>(what));
  if (element == static_cast<uint32_t>(GgufKind::kArray))
    return r.error(fmt::format("{}: arrays of arrays are not supported", what));
  v.element = static_cast<GgufKind>(element);
  if (v.element != GgufKind::kString) {
    const uint64_t bytes = kind_bytes(element);
    if (bytes == 0) return r.error(fmt::format("{}: an array of the unknown type {}", what, element));
    ZU_TRY_ASSIGN(v.count, r.count(count, bytes, kGgufArrayLimit / bytes, fmt::format("elements of {}", what)));
    ZU_TRY_ASSIGN(v.raw, r.take(v.count * bytes, what));
    if (v.element == GgufKind::kBool) ZU_TRY(check_bools(r, v.raw, what));
    return v;
  }
  ZU_TRY_ASSIGN(v.count, r.count(count, 8, kGgufArrayLimit / 8, fmt::format("strings of {}", what)));
  const uint64_t begin = r.position();
  v.texts.reserve(v.count);
  for (uint64_t i = 0; i < v.count; ++i) {
    ZU_TRY_ASSIGN(const auto text, r.string(kGgufStringLimit, what));
    v.texts.push_back(text);
    if (r.position() - begin > kGgufArrayLimit)
      return r.error(fmt::format("{} is above the limit of {} bytes", what, kGgufArrayLimit));
  }
  return v;
}

Result<GgufValue> read_value(Reader& r, const std::string& key) {
  const std::string what = fmt::format("the value of {}", in_quotes(key));
  ZU_TRY_ASSIGN(const auto kind, r.number<uint32_t>(what));
  if (kind == static_cast<uint32_t>(GgufKind::kArray)) return read_array(r, what);
  GgufValue v;
  v.kind = static_cast<GgufKind>(kind);
  if (v.kind == GgufKind::kString) {
    ZU_TRY_ASSIGN(v.text, r.string(kGgufStringLimit, what));
    return v;
  }
  const uint64_t bytes = kind_bytes(kind);
  if (bytes == 0) return r.error(fmt::format("{} has the unknown type {}", what, kind));
  ZU_TRY_ASSIGN(v.raw, r.take(bytes, what));
  if (v.kind == GgufKind::kBool) ZU_TRY(check_bools(r, v.raw, what));
  return v;
}

Status read_metadata(Reader& r, uint64_t count, GgufMetadata& out) {
  for (uint64_t i = 0; i < count; ++i) {
    ZU_TRY_ASSIGN(const auto key, r.string(kKeyLimit, fmt::format("key {}", i)));
    if (key.empty() || !is_utf8(key)) return r.error(fmt::format("key {} is empty or not UTF-8", i));
    ZU_TRY_ASSIGN(GgufValue value, read_value(r, std::string(key)));
    if (!out.emplace(key, std::move(value)).second) return r.error(fmt::format("the key {} stands twice", in_quotes(key)));
  }
  return {};
}

struct TensorEntry {
  GgufTensor tensor;
  uint64_t offset, bytes;
};

Result<uint64_t> entry_bytes(const Reader& r, const GgufTensor& t, const std::string& what) {
  uint64_t elements = 1;
  bool empty = false;
  for (const int64_t d : t.shape) {
    empty |= d == 0;
    if (d != 0 && (__builtin_mul_overflow(elements, static_cast<uint64_t>(d), &elements) || elements > kMaxInt64 / 8))
      return r.error(fmt::format("{}: the size of [{}] overflows", what, fmt::join(t.shape, ", ")));
  }
  if (t.row_elements() % t.type->block_elements != 0)
    return r.error(fmt::format("{}: rows of {} are not whole blocks of {} ({})", what, t.row_elements(), t.type->block_elements,
                               t.type->name));
  return empty ? uint64_t{0} : elements / t.type->block_elements * t.type->block_bytes;
}

Result<TensorEntry> read_entry(Reader& r, uint64_t index) {
  TensorEntry e{};
  ZU_TRY_ASSIGN(const auto name, r.string(kNameLimit, fmt::format("the name of tensor {}", index)));
  if (name.empty() || !is_utf8(name)) return r.error(fmt::format("the name of tensor {} is empty or not UTF-8", index));
  e.tensor.name = name;
  const std::string what = fmt::format("tensor {}", in_quotes(name));
  ZU_TRY_ASSIGN(const auto dims, r.number<uint32_t>(what));
  if (dims > kMaxDims) return r.error(fmt::format("{}: {} dimensions, above the limit of {}", what, dims, kMaxDims));
  e.tensor.shape.resize(dims);
  for (uint32_t i = 0; i < dims; ++i) {
    ZU_TRY_ASSIGN(const auto d, r.number<uint64_t>(what));
    if (d > kMaxInt64) return r.error(fmt::format("{}: a dimension of {} overflows", what, d));
    e.tensor.shape[dims - 1 - i] = static_cast<int64_t>(d);
  }
  ZU_TRY_ASSIGN(const auto type, r.number<uint32_t>(what));
  e.tensor.type = gguf_type_info(type);
  if (e.tensor.type == nullptr)
    return r.error(fmt::format("{}: {}; F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are read", what,
                               gguf_type_text(type)));
  ZU_TRY_ASSIGN(e.bytes, entry_bytes(r, e.tensor, what));
  ZU_TRY_ASSIGN(e.offset, r.number<uint64_t>(what));
  return e;
}

Result<uint64_t> read_alignment(const GgufMetadata& metadata, std::string_view name) {
  const auto it = metadata.find("general.alignment");
  if (it == metadata.end()) return kDefaultAlignment;
  const auto value = it->second.kind == GgufKind::kU32 ? it->second.integer() : std::nullopt;
  const auto alignment = static_cast<uint64_t>(value.value_or(0));
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kGgufAlignmentLimit)
    return bad_input(fmt::format("{}: general.alignment is not a u32 power of two up to {}", name, kGgufAlignmentLimit));
  return alignment;
}

// Gives every tensor its bytes, after proving that they follow one another, padded to the alignment, up to the end of the file.
Status place_tensors(std::vector<TensorEntry>& entries, std::span<const std::byte> file, uint64_t header_end,
                     uint64_t alignment, std::string_view name) {
  const auto pad = [&](uint64_t n) { return (alignment - n % alignment) % alignment; };
  const uint64_t begin = header_end + pad(header_end);
  if (entries.empty() && file.size() >= header_end && file.size() <= begin) return {};
  if (begin > file.size()) return bad_input(fmt::format("{}: ends before its tensor data (truncated?)", name));
  const auto data = file.subspan(begin);
  uint64_t due = 0;
  for (TensorEntry& e : entries) {
    const std::string what = fmt::format("{}: tensor {}", name, in_quotes(e.tensor.name));
    if (e.offset != due)
      return bad_input(fmt::format("{}: begins at byte {} of the data, but {} was due", what, e.offset, due));
    if (due > data.size() || e.bytes > data.size() - due)
      return bad_input(
          fmt::format("{}: needs {} bytes at {}, but the data has {} (truncated?)", what, e.bytes, due, data.size()));
    e.tensor.data = data.subspan(due, e.bytes);
    due += e.bytes + pad(e.bytes);  // both below 2^63, so the sum does not wrap
  }
  if (data.size() > due) return bad_input(fmt::format("{}: {} bytes follow the last tensor", name, data.size() - due));
  return {};
}

Status check_start(Reader& r, uint32_t& version) {
  ZU_TRY_ASSIGN(const auto magic, r.take(4, "the magic"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) return r.error("is not a GGUF file");
  ZU_TRY_ASSIGN(version, r.number<uint32_t>("the version"));
  if (version == 0x02000000u || version == 0x03000000u)
    return r.error("is a big-endian GGUF file; only little-endian ones are read");
  if (version != 2 && version != 3) return r.error(fmt::format("GGUF version {} is not supported; 2 and 3 are", version));
  return {};
}

}  // namespace

Result<GgufContent> parse_gguf(std::span<const std::byte> file, std::string_view name) {
  Reader r(file, name);
  GgufContent out;
  ZU_TRY(check_start(r, out.version));
  ZU_TRY_ASSIGN(const auto tensor_count, r.number<uint64_t>("the tensor count"));
  ZU_TRY_ASSIGN(const auto key_count, r.number<uint64_t>("the key count"));
  ZU_TRY_ASSIGN(const auto keys, r.count(key_count, 8 + 1 + 4 + 1, kGgufCountLimit, "keys"));
  ZU_TRY_ASSIGN(const auto tensors, r.count(tensor_count, 8 + 1 + 4 + 4 + 8, kGgufCountLimit, "tensors"));
  ZU_TRY(read_metadata(r, keys, out.metadata));
  ZU_TRY_ASSIGN(const uint64_t alignment, read_alignment(out.metadata, name));

  std::vector<TensorEntry> entries;
  std::set<std::string> names;
  for (uint64_t i = 0; i < tensors; ++i) {
    ZU_TRY_ASSIGN(TensorEntry e, read_entry(r, i));
    if (!names.insert(e.tensor.name).second) return r.error(fmt::format("two tensors are named {}", in_quotes(e.tensor.name)));
    entries.push_back(std::move(e));
  }
  ZU_TRY(place_tensors(entries, file, r.position(), alignment, name));
  for (TensorEntry& e : entries) out.tensors.push_back(std::move(e.tensor));
  return out;
}

std::string_view gguf_kind_name(GgufKind kind) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(kind)];
}

namespace {

template <class T>
T load(std::span<const std::byte> raw, uint64_t i) {
  T value;
  std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::optional<int64_t> integer_of(GgufKind kind, std::span<const std::byte> raw, uint64_t i) {
  switch (kind) {
    case GgufKind::kU8:
      return load<uint8_t>(raw, i);
    case GgufKind::kI8:
      return load<int8_t>(raw, i);
    case GgufKind::kU16:
      return load<uint16_t>(raw, i);
    case GgufKind::kI16:
      return load<int16_t>(raw, i);
    case GgufKind::kU32:
      return load<uint32_t>(raw, i);
    case GgufKind::kI32:
      return load<int32_t>(raw, i);
    case GgufKind::kI64:
      return load<int64_t>(raw, i);
    case GgufKind::kU64: {
      const auto v = load<uint64_t>(raw, i);
      if (v > kMaxInt64) return std::nullopt;
      return static_cast<int64_t>(v);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

bool GgufValue::is_integer() const { return kind <= GgufKind::kI32 || kind == GgufKind::kU64 || kind == GgufKind::kI64; }
std::optional<int64_t> GgufValue::integer() const { return integer_of(kind, raw, 0); }
std::optional<int64_t> GgufValue::integer_at(uint64_t i) const {
  return kind == GgufKind::kArray && i < count ? integer_of(element, raw, i) : std::nullopt;
}
std::optional<double> GgufValue::number() const {
  if (kind == GgufKind::kF32) return load<float>(raw, 0);
  if (kind == GgufKind::kF64) return load<double>(raw, 0);
  return std::nullopt;
}
std::optional<bool> GgufValue::boolean() const {
  if (kind != GgufKind::kBool) return std::nullopt;
  return raw[0] == std::byte{1};
}

int64_t GgufTensor::elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

}  // namespace zeroulp::io
