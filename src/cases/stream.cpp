#include "cases/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/fields.h"

namespace zeroulp::cases {
namespace {

constexpr std::string_view kMagic("\x89ZUCAS\r\n", 8);
constexpr std::string_view kContract = "ZNC-1";
constexpr size_t kAlign = 8, kFramePrefix = 16, kFixedHeader = 16;

class Writer {
 public:
  template <class T>
  void number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian, as num/digest.h asserts
  }
  // u32 length, the bytes, zeros up to a multiple of 8.
  void text(std::string_view s) {
    number(static_cast<uint32_t>(s.size()));
    out_ += s;
    pad();
  }
  void bytes(std::span<const std::byte> b) {
    number(static_cast<uint64_t>(b.size()));
    out_.append(reinterpret_cast<const char*>(b.data()), b.size());
    pad();
  }
  void spec(const Spec& s) {
    text(s.name);
    number(wire_number(s.dtype));
    number(static_cast<uint32_t>(s.shape.size()));
    for (const int64_t d : s.shape) number(d);
  }
  void tensor(const Tensor& t) {
    spec(t);
    bytes(t.data);
  }
  void pad() { out_.append((kAlign - out_.size() % kAlign) % kAlign, '\0'); }
  void append(std::string_view s) { out_ += s; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Takes fields off a payload. The first failure is kept, and every later field is empty.
class Reader {
 public:
  explicit Reader(std::string_view payload) : left_(payload), size_(payload.size()) {}

  template <class T>
  T number(std::string_view what) {
    T value{};
    const std::string_view bytes = take(sizeof value, what);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string text(std::string_view what) {
    const auto length = number<uint32_t>(what);
    if (length > kMaxText) fail(fmt::format("{} of {} bytes; at most {} can be", what, length, kMaxText));
    const std::string s(take(failed() ? 0 : length, what));
    pad(what);
    if (!failed() && (!is_utf8(s) || s.find('\0') != std::string::npos || std::any_of(s.begin(), s.end(), [](unsigned char c) { return c < 0x20; })))
      fail(fmt::format("{} is not one line of UTF-8", what));
    return s;
  }
  uint32_t count(std::string_view what) {
    const auto n = number<uint32_t>(what);
    if (n > kMaxEntries) fail(fmt::format("{} {}; at most {} can be", n, what, kMaxEntries));
    return failed() ? 0 : n;
  }
  Spec spec(std::string_view what) {
    Spec s;
    s.name = text(what);
    const auto dtype = number<uint32_t>(what), rank = number<uint32_t>(what);
    const auto known = dtype_of_wire(dtype);
    if (!failed() && !known) fail(fmt::format("{} '{}' has the unknown type {}", what, s.name, dtype));
    if (!failed() && (rank == 0 || rank > kMaxRank)) fail(fmt::format("{} '{}' has {} dimensions; 1 to {} can be", what, s.name, rank, kMaxRank));
    if (failed()) return s;
    s.dtype = *known;
    for (uint32_t i = 0; i < rank; ++i) s.shape.push_back(number<int64_t>(what));
    return s;
  }
  Tensor tensor(std::string_view what) {
    Tensor t{spec(what), {}};
    const auto bytes = number<uint64_t>(what);
    if (!failed() && bytes > left_.size()) fail(fmt::format("{} '{}' is cut off", what, t.name));
    const std::string_view data = take(failed() ? 0 : bytes, what);
    const auto* from = reinterpret_cast<const std::byte*>(data.data());
    t.data.assign(from, from + data.size());
    pad(what);
    return t;
  }
  void fail(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }
  bool failed() const { return !error_.empty(); }
  Status finish() {
    if (!failed() && !left_.empty()) fail(fmt::format("{} bytes too many", left_.size()));
    return failed() ? Status(bad_input(error_)) : Status();
  }

 private:
  std::string_view take(uint64_t count, std::string_view what) {
    if (failed()) return {};
    if (count > left_.size()) {
      fail(fmt::format("{} is cut off", what));
      return {};
    }
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  void pad(std::string_view what) {
    const size_t at = size_ - left_.size();
    const std::string_view zeros = take((kAlign - at % kAlign) % kAlign, what);
    if (zeros.find_first_not_of('\0') != std::string_view::npos) fail(fmt::format("padding behind {} is not zero", what));
  }

  std::string_view left_;
  size_t size_;
  std::string error_;
};

// A tensor's bytes must be those of its type and shape before anybody computes with the shape.
Status check_sizes(const Tensor& t) {
  int64_t count = dtype_bits(t.dtype) / 8;
  for (const int64_t d : t.shape)
    if (d < 1 || __builtin_mul_overflow(count, d, &count)) return bad_input(fmt::format("tensor '{}' has a dimension of {}, or its size overflows", t.name, d));
  if (static_cast<uint64_t>(count) == t.data.size()) return {};
  return bad_input(fmt::format("tensor '{}' has {} bytes; its type and shape give {}", t.name, t.data.size(), count));
}

}  // namespace

std::string encode_header(const StreamHeader& h) {
  io::Json kinds = io::Json::array();
  for (const Kind k : h.kinds) kinds.push_back(kind_name(k));
  const std::string json = io::Json{{"contract", kContract}, {"count", h.count}, {"first", h.first}, {"kinds", kinds}, {"model", h.model}, {"op", h.op}}.dump();
  Writer w;
  w.append(kMagic);
  w.number(kStreamVersion);
  w.number(uint16_t{0});
  w.number(static_cast<uint32_t>((json.size() + kAlign - 1) / kAlign * kAlign));
  w.append(json);
  w.append(std::string((kAlign - json.size() % kAlign) % kAlign, ' '));
  return w.take();
}

std::string encode_case(const Case& c) {
  Writer w;
  w.number(c.index);
  w.number(static_cast<uint32_t>(c.kind));
  w.number(static_cast<uint32_t>(c.attributes.size()));
  w.number(static_cast<uint32_t>(c.inputs.size()));
  w.number(static_cast<uint32_t>(c.outputs.size()));
  w.text(c.op);
  w.text(c.name);
  w.text(c.catches);
  for (const Attribute& a : c.attributes) {
    w.text(a.name);
    w.number(static_cast<uint32_t>(a.value.index() + 1));
    w.number(uint32_t{0});
    if (const auto* i = std::get_if<int64_t>(&a.value)) w.number(*i);
    if (const auto* d = std::get_if<double>(&a.value)) w.number(*d);
    if (const auto* s = std::get_if<std::string>(&a.value)) w.text(*s);
  }
  for (const Tensor& t : c.inputs) w.tensor(t);
  for (const Spec& s : c.outputs) w.spec(s);
  return w.take();
}

std::string encode_answer(const Answer& a) {
  Writer w;
  w.number(a.index);
  w.number(static_cast<uint32_t>(a.outputs.size()));
  w.number(uint32_t{0});
  for (const Tensor& t : a.outputs) w.tensor(t);
  return w.take();
}

std::string encode_end(const End& e) {
  Writer w;
  w.number(e.cases);
  w.append(e.digest);
  return w.take();
}

std::string encode_frame(FrameType type, std::string_view payload) {
  Writer w;
  w.number(static_cast<uint32_t>(type));
  w.number(uint32_t{0});
  w.number(static_cast<uint64_t>(payload.size()));
  w.append(payload);
  return w.take();
}

Result<Case> decode_case(std::string_view payload) {
  Reader r(payload);
  Case c;
  c.index = r.number<int64_t>("the case's index");
  const auto kind = r.number<uint32_t>("the case's kind");
  if (!r.failed() && (kind < 1 || kind > 4)) r.fail(fmt::format("the case's kind is {}", kind));
  c.kind = static_cast<Kind>(r.failed() ? 1 : kind);
  const uint32_t attributes = r.count("attributes"), inputs = r.count("inputs"), outputs = r.count("outputs");
  c.op = r.text("the op");
  c.name = r.text("the case's name");
  c.catches = r.text("what the case catches");
  for (uint32_t i = 0; i < attributes && !r.failed(); ++i) {
    Attribute a{r.text("an attribute"), {}};
    const auto type = r.number<uint32_t>("an attribute's type"), reserved = r.number<uint32_t>("an attribute's type");
    if (type < 1 || type > 3 || reserved != 0) r.fail(fmt::format("attribute '{}' has the unknown type {}", a.name, type));
    if (type == 1) a.value = r.number<int64_t>("an attribute");
    if (type == 2) a.value = r.number<double>("an attribute");
    if (type == 3) a.value = r.text("an attribute");
    c.attributes.push_back(std::move(a));
  }
  for (uint32_t i = 0; i < inputs && !r.failed(); ++i) c.inputs.push_back(r.tensor("input"));
  for (uint32_t i = 0; i < outputs && !r.failed(); ++i) c.outputs.push_back(r.spec("output"));
  ZU_TRY(r.finish());
  if (c.index < 0) return bad_input(fmt::format("the case's index is {}", c.index));
  for (const Tensor& t : c.inputs) ZU_TRY(check_sizes(t));
  return c;
}

Result<Answer> decode_answer(std::string_view payload) {
  Reader r(payload);
  Answer a;
  a.index = r.number<int64_t>("the answer's index");
  const uint32_t outputs = r.count("outputs");
  if (r.number<uint32_t>("the answer") != 0) r.fail("the answer's reserved field is not 0");
  for (uint32_t i = 0; i < outputs && !r.failed(); ++i) a.outputs.push_back(r.tensor("output"));
  ZU_TRY(r.finish());
  for (const Tensor& t : a.outputs) ZU_TRY(check_sizes(t));
  return a;
}

Result<End> decode_end(std::string_view payload) {
  if (payload.size() != 8 + 32) return bad_input("the end frame has another length than 40 bytes");
  End e;
  std::memcpy(&e.cases, payload.data(), 8);
  e.digest = payload.substr(8);
  return e;
}

Error StreamReader::wrong(std::string_view what) const { return bad_input(fmt::format("{}: {}", name_, what)); }

Result<std::string> StreamReader::take(uint64_t count, bool may_end) {
  constexpr uint64_t kPiece = 1 << 20;
  std::string out;
  while (out.size() < count) {
    const size_t had = out.size(), piece = std::min(kPiece, count - had);
    out.resize(had + piece);
    ZU_TRY_ASSIGN(const size_t got, read_(reinterpret_cast<std::byte*>(out.data()) + had, piece));
    out.resize(had + got);
    if (got == 0) break;
  }
  if (out.size() < count && !(may_end && out.empty())) return wrong("is cut off");
  return out;
}

Result<StreamReader> StreamReader::open(ReadFn read, std::string name) {
  StreamReader r(std::move(read), std::move(name));
  ZU_TRY_ASSIGN(r.header_bytes_, r.take(kFixedHeader, true));
  if (r.header_bytes_.empty()) return r.wrong("is empty; zeroulp cases emit OP | ./kernel | zeroulp cases check");
  if (!std::string_view(r.header_bytes_).starts_with(kMagic)) return r.wrong("is not a stream of cases (zeroulp cases emit writes one)");
  uint16_t version = 0, flags = 0;
  uint32_t length = 0;
  std::memcpy(&version, r.header_bytes_.data() + 8, 2);
  std::memcpy(&flags, r.header_bytes_.data() + 10, 2);
  std::memcpy(&length, r.header_bytes_.data() + 12, 4);
  if (version != kStreamVersion) return r.wrong(fmt::format("is of version {}; this build reads {}", version, kStreamVersion));
  if (flags != 0) return r.wrong(fmt::format("has reserved flags set (0x{:04x})", flags));
  if (length > kMaxHeaderBytes || length % kAlign != 0) return r.wrong(fmt::format("has a header of {} bytes; a multiple of 8 up to {} can be", length, kMaxHeaderBytes));
  ZU_TRY_ASSIGN(const std::string text, r.take(length, false));
  r.header_bytes_ += text;
  ZU_TRY_ASSIGN(const io::Json json, io::parse_json(text, r.name_, {.max_depth = 4, .max_bytes = kMaxHeaderBytes}));
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, r.name_));
  ZU_TRY_ASSIGN(const std::string contract, fields.string("contract"));
  if (contract != kContract) return r.wrong(fmt::format("is for the contract {}; this build has {}", in_quotes(contract), kContract));
  ZU_TRY_ASSIGN(r.header_.op, fields.string("op"));
  if (find_form(r.header_.op) == nullptr) return r.wrong(fmt::format("is of op {}, which is none of the contract's", in_quotes(r.header_.op)));
  ZU_TRY_ASSIGN(r.header_.first, fields.integer("first", 0, INT64_MAX));
  ZU_TRY_ASSIGN(r.header_.count, fields.integer("count", 0, INT64_MAX));
  ZU_TRY_ASSIGN(r.header_.model, fields.string("model"));
  ZU_TRY_ASSIGN(const std::vector<std::string> kinds, fields.strings("kinds"));
  for (const std::string& kind : kinds) {
    const auto* at = std::find(std::begin(kKindNames) + 1, std::end(kKindNames), kind);
    if (at == std::end(kKindNames)) return fields.error("kinds", fmt::format("{} is none of exhaustive, hard, random, captured", in_quotes(kind)));
    r.header_.kinds.push_back(static_cast<Kind>(at - std::begin(kKindNames)));
  }
  const bool captured = std::find(r.header_.kinds.begin(), r.header_.kinds.end(), Kind::kCaptured) != r.header_.kinds.end();
  if (r.header_.kinds.empty() || (captured && r.header_.kinds.size() > 1)) return fields.error("kinds", "must name one at least, and captured alone");
  if (captured == r.header_.model.empty()) return fields.error("model", captured ? "must be the identity of the model that the cases were captured from" : "is for captured cases");
  return r;
}

Result<std::optional<StreamReader::Frame>> StreamReader::next() {
  ZU_TRY_ASSIGN(const std::string prefix, take(kFramePrefix, true));
  if (prefix.empty()) return std::optional<Frame>();
  uint32_t type = 0, reserved = 0;
  uint64_t length = 0;
  std::memcpy(&type, prefix.data(), 4);
  std::memcpy(&reserved, prefix.data() + 4, 4);
  std::memcpy(&length, prefix.data() + 8, 8);
  if (type < 1 || type > 3 || reserved != 0) return wrong(fmt::format("has a frame of the unknown type {}; is the stream out of step?", type));
  if (length > kMaxFrameBytes || length % kAlign != 0) return wrong(fmt::format("has a frame of {} bytes; a multiple of 8 up to {} can be", length, kMaxFrameBytes));
  ZU_TRY_ASSIGN(std::string payload, take(length, false));
  return std::optional<Frame>(Frame{static_cast<FrameType>(type), std::move(payload)});
}

void CaseDigest::add(std::string_view payload) {
  ++cases_;
  sha_.update(payload);
}

End CaseDigest::end() {
  const std::string hex = sha_.hex();
  End e{cases_, {}};
  for (size_t i = 0; i < hex.size(); i += 2) e.digest += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return e;
}

}  // namespace zeroulp::cases
