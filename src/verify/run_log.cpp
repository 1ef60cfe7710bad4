#include "verify/run_log.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/fields.h"
#include "num/seal.h"

namespace zeroulp::verify {
namespace {

constexpr std::string_view kMagic("\x89ZULOG\r\n", 8);
constexpr uint16_t kVersion = 1;
constexpr uint16_t kKeyed = 1;  // flag: the seal is an HMAC
constexpr size_t kFixed = 24, kSeal = 32, kDigestBytes = 16;
constexpr uint64_t kMaxHeader = 16u << 20, kMaxSequences = 1u << 16, kMaxTokens = 1u << 28;
constexpr int64_t kMaxLayers = 4096;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);  // little-endian, as num/digest.h asserts
}

// The canonical form of XXH3-128: high word first, each big-endian.
void put_digest(std::string& out, const num::Digest& d) {
  for (const uint64_t word : {d.high, d.low})
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
}

// Digests of a sequence: one per prompt token, and one per generated token but the last, whose own logits nobody asked for.
uint64_t positions_of(uint64_t prompt, uint64_t generated) { return prompt + (generated > 0 ? generated - 1 : 0); }

std::string header_text(const RunLog& r) {
  const ops::sample::Settings& s = r.workload.sampling;
  return io::Json{{"contract", r.contract},
                  {"decode_tokens", r.workload.decode_tokens},
                  {"layers", r.layers},
                  {"model", {{"identity", r.model_identity}, {"profile", r.model_profile}}},
                  {"provenance", r.provenance ? *r.provenance : io::Json()},
                  {"sampling", {{"seed", std::to_string(s.seed)}, {"temperature", s.temperature}, {"top_k", s.top_k}, {"top_p", s.top_p}}}}
      .dump(-1, ' ', false, io::Json::error_handler_t::replace);
}

// Takes numbers off the front of what is left; the caller has checked that they are there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  size_t left() const { return left_.size(); }
  std::string_view take(size_t count) {
    ZU_CHECK(count <= left_.size());
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  num::Digest digest() {
    num::Digest d;
    for (uint64_t* word : {&d.high, &d.low})
      for (const char byte : take(8)) *word = (*word << 8) | static_cast<unsigned char>(byte);
    return d;
  }

 private:
  std::string_view left_;
};

struct Frame {
  uint16_t flags = 0;
  uint32_t sequences = 0;
  std::string_view header, body;
};

Result<Frame> read_frame(std::string_view bytes, const std::string& name) {
  const auto wrong = [&](std::string_view what) { return bad_input(fmt::format("{}: {}", name, what)); };
  if (!looks_like_run_log(bytes)) return wrong("is not a run log (zeroulp verify --record writes one)");
  if (bytes.size() < kFixed + kSeal) return wrong("is cut off");
  Reader in(bytes);
  in.take(kMagic.size());
  const auto version = in.number<uint16_t>();
  Frame f;
  f.flags = in.number<uint16_t>();
  f.sequences = in.number<uint32_t>();
  const auto header = in.number<uint64_t>();
  if (version != kVersion) return wrong(fmt::format("is of version {}; this build reads {}", version, kVersion));
  if ((f.flags & ~kKeyed) != 0) return wrong(fmt::format("has reserved flags set (0x{:04x})", f.flags));
  if (f.sequences == 0 || f.sequences > kMaxSequences) return wrong(fmt::format("has {} sequences; 1 to {} can be", f.sequences, kMaxSequences));
  if (header > kMaxHeader || header > in.left() - kSeal) return wrong(fmt::format("has a header of {} bytes, more than the file holds or {} allowed", header, kMaxHeader));
  f.header = in.take(header);
  f.body = in.take(in.left() - kSeal);
  return f;
}

Status read_header(std::string_view text, const std::string& name, RunLog& r) {
  ZU_TRY_ASSIGN(const io::Json json, io::parse_json(text, name, {.max_depth = 16, .max_bytes = kMaxHeader}));
  ZU_TRY_ASSIGN(const io::Fields fields, io::Fields::of(json, name));
  ZU_TRY_ASSIGN(r.contract, fields.string("contract"));
  ZU_TRY_ASSIGN(r.workload.decode_tokens, fields.integer("decode_tokens", 0, kMaxDecodeTokens));
  ZU_TRY_ASSIGN(r.layers, fields.integer("layers", 0, kMaxLayers));
  ZU_TRY_ASSIGN(const io::Fields model, fields.object("model"));
  ZU_TRY_ASSIGN(r.model_identity, model.string("identity"));
  ZU_TRY_ASSIGN(r.model_profile, model.string("profile"));
  ZU_TRY_ASSIGN(const io::Fields sampling, fields.object("sampling"));
  ops::sample::Settings& s = r.workload.sampling;
  ZU_TRY_ASSIGN(const double temperature, sampling.number("temperature", 0, 1000));
  s.temperature = static_cast<float>(temperature);
  ZU_TRY_ASSIGN(s.top_k, sampling.integer("top_k", 0, int64_t{1} << 31));
  ZU_TRY_ASSIGN(s.top_p, sampling.positive("top_p", 1));
  ZU_TRY_ASSIGN(s.seed, sampling.uint64("seed"));
  if (fields.has("provenance")) r.provenance = std::make_shared<const io::Json>(fields.at("provenance"));
  return {};
}

Status read_body(std::string_view body, uint32_t sequences, const std::string& name, RunLog& r) {
  const auto cut = [&](uint32_t sequence) { return bad_input(fmt::format("{}: sequence {} is cut off, or not of the length that the header says", name, sequence)); };
  Reader in(body);
  for (uint32_t i = 0; i < sequences; ++i) {
    if (in.left() < 8) return cut(i);
    const uint64_t prompt = in.number<uint32_t>(), generated = in.number<uint32_t>(), positions = positions_of(prompt, generated);
    if (prompt == 0 || prompt > kMaxTokens || generated != static_cast<uint64_t>(r.workload.decode_tokens)) return cut(i);
    const auto words = static_cast<uint64_t>(2 * r.layers);
    if (in.left() < 4 * (prompt + generated) + (kDigestBytes + 8 * words) * positions) return cut(i);
    const auto tokens = [&](uint64_t count, std::vector<std::vector<int32_t>>& out) {
      auto& list = out.emplace_back();
      for (uint64_t t = 0; t < count; ++t) list.push_back(in.number<int32_t>());
    };
    tokens(prompt, r.workload.prompts);
    tokens(generated, r.log.tokens);
    for (uint64_t p = 0; p < positions; ++p) r.log.digests.emplace(DigestLog::Key{i, static_cast<int64_t>(p)}, in.digest());
    for (uint64_t p = 0; words > 0 && p < positions; ++p) {
      auto& row = r.residuals[{i, static_cast<int64_t>(p)}];
      for (uint64_t w = 0; w < words; ++w) row.push_back(in.number<uint64_t>());
    }
  }
  if (in.left() != 0) return bad_input(fmt::format("{}: {} bytes too many", name, in.left()));
  return {};
}

std::string seal_of(std::string_view bytes, const std::optional<std::string>& key) {
  return key ? num::hmac_sha256(*key, bytes) : num::sha256(bytes);
}

Result<RunLog> decode(const Frame& frame, const std::string& name) {
  RunLog r;
  ZU_TRY(read_header(frame.header, name, r));
  ZU_TRY(read_body(frame.body, frame.sequences, name, r));
  return r;
}

}  // namespace

bool looks_like_run_log(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::string encode_run_log(const RunLog& r, const std::optional<std::string>& key) {
  ZU_CHECK(!r.workload.prompts.empty() && r.workload.prompts.size() <= kMaxSequences && r.log.tokens.size() == r.workload.prompts.size());
  std::string out(kMagic);
  put(out, kVersion);
  put(out, key ? kKeyed : uint16_t{0});
  put(out, static_cast<uint32_t>(r.workload.prompts.size()));
  const std::string header = header_text(r);
  put(out, static_cast<uint64_t>(header.size()));
  out += header;
  for (size_t i = 0; i < r.workload.prompts.size(); ++i) {
    const auto &prompt = r.workload.prompts[i], &generated = r.log.tokens[i];
    put(out, static_cast<uint32_t>(prompt.size()));
    put(out, static_cast<uint32_t>(generated.size()));
    for (const auto* list : {&prompt, &generated})
      for (const int32_t token : *list) put(out, token);
    const auto positions = static_cast<int64_t>(positions_of(prompt.size(), generated.size()));
    for (int64_t p = 0; p < positions; ++p) {
      const auto digest = r.log.digests.find({static_cast<int64_t>(i), p});
      ZU_CHECK(digest != r.log.digests.end());
      put_digest(out, digest->second);
    }
    for (int64_t p = 0; r.layers > 0 && p < positions; ++p) {
      const auto& row = r.residuals.at({static_cast<int64_t>(i), p});
      ZU_CHECK(static_cast<int64_t>(row.size()) == 2 * r.layers);
      for (const uint64_t word : row) put(out, word);
    }
  }
  return out + seal_of(out, key);
}

Result<RunLog> decode_run_log(std::string_view bytes, const std::optional<std::string>& key, const std::string& name) {
  ZU_TRY_ASSIGN(const Frame frame, read_frame(bytes, name));
  const bool keyed = (frame.flags & kKeyed) != 0;
  if (keyed && !key) return bad_input(fmt::format("{}: is sealed with a key; give --key FILE", name));
  if (!keyed && key) return bad_input(fmt::format("{}: is not sealed with a key, so --key proves nothing about it; leave it out", name));
  const std::string_view sealed = bytes.substr(0, bytes.size() - kSeal);
  if (!num::equal_secrets(seal_of(sealed, key), bytes.substr(sealed.size())))
    return bad_input(fmt::format("{}: its seal does not fit: the log was changed{}", name, keyed ? ", or the key is another" : " or cut off"));
  return decode(frame, name);
}

}  // namespace zeroulp::verify
