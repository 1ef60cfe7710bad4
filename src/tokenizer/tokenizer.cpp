#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/file.h"
#include "base/text.h"
#include "io/json.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/tokenizer_json.h"

namespace zeroulp::tokenizer {
namespace {

constexpr uint64_t kMaxJson = 256ull << 20, kMaxTemplate = 1ull << 20;

struct Token {
  std::string spelling, bytes;
  bool special = false;
};

// Ids of pieces seen before in the same call; natural text repeats itself.
class PieceCache {
 public:
  static constexpr size_t kMaxPiece = 64, kMaxEntries = 1 << 16;

  struct Range {
    size_t begin, count;
  };
  const Range* find(std::string_view piece) const {
    const auto it = known_.find(piece);
    return it == known_.end() ? nullptr : &it->second;
  }
  void remember(std::string_view piece, Range ids) {
    if (piece.size() <= kMaxPiece && known_.size() < kMaxEntries) known_.emplace(piece, ids);
  }

 private:
  std::unordered_map<std::string, Range, StringHash, std::equal_to<>> known_;
};

std::vector<ByteSpan> spans_within(const std::vector<ByteSpan>& spans, ByteSpan part) {
  std::vector<ByteSpan> inside;
  auto it = std::upper_bound(spans.begin(), spans.end(), part.begin, [](size_t at, const ByteSpan& s) { return at < s.end; });
  for (; it != spans.end() && it->begin < part.end; ++it)
    inside.push_back({std::max(it->begin, part.begin) - part.begin, std::min(it->end, part.end) - part.begin});
  return inside;
}

}  // namespace

struct Tokenizer::Impl {
  Bpe bpe;
  std::vector<std::unique_ptr<AddedToken>> added;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  bool has_normalized = false;
  bool nfc = false;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  std::vector<uint32_t> prefix, suffix;
  std::vector<Token> tokens;
  Vocabulary added_ids;
  ChatTemplates chat;
  std::optional<uint32_t> bos, eos;

  Status take(TokenizerSpec spec, std::string_view name);
  Status take_added(std::vector<AddedToken> list, std::string_view name);
  Status read_named_tokens(const io::Json& config, std::string_view name);
  std::optional<uint32_t> id_of(std::string_view spelling) const;

  // One encode call.
  struct Run {
    Encoding out;
    BpeScratch scratch;
    PieceCache cache;
    std::vector<std::string_view> pieces;
  };
  void encode_text(std::string_view text, bool parse_special, const std::vector<ByteSpan>* content, Run& run) const;
  void encode_normalized(std::string_view text, const SpecialRule& rule, Run& run) const;
  void encode_plain(std::string_view text, Run& run) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Status Tokenizer::Impl::take(TokenizerSpec spec, std::string_view name) {
  nfc = spec.nfc;
  pre_tokenizer = spec.pre_tokenizer;
  prefix = std::move(spec.prefix);
  suffix = std::move(spec.suffix);
  uint32_t last = 0;
  for (const auto& [spelling, id] : spec.model.vocabulary) last = std::max(last, id);
  for (const AddedToken& t : spec.added) last = std::max(last, t.id);
  tokens.resize(size_t{last} + 1);
  for (const auto& [spelling, id] : spec.model.vocabulary) tokens[id] = {spelling, unspell_bytes(spelling), false};
  auto built = Bpe::build(std::move(spec.model));
  if (!built) return bad_input(fmt::format("{}: {}", name, built.error().text));
  bpe = std::move(*built);
  for (const auto* ids : {&prefix, &suffix})
    for (uint32_t id : *ids)
      if (id > last) return bad_input(fmt::format("{}: post_processor adds the id {}, which the vocabulary lacks", name, id));
  return take_added(std::move(spec.added), name);
}

Status Tokenizer::Impl::take_added(std::vector<AddedToken> list, std::string_view name) {
  for (AddedToken& item : list) {
    const AddedToken& token = *added.emplace_back(std::make_unique<AddedToken>(std::move(item)));
    const std::string text = token.normalized && nfc ? normalize_nfc(token.content) : token.content;
    auto status = (token.normalized ? normalized_matcher : raw_matcher).add(&token, text);
    if (!status) return bad_input(fmt::format("{}: {}", name, status.error().text));
    has_normalized |= token.normalized;
    added_ids.emplace(token.content, token.id);
    tokens[token.id] = {text, unspell_bytes(text), token.special};
  }
  return {};
}

std::optional<uint32_t> Tokenizer::Impl::id_of(std::string_view spelling) const {
  if (const auto it = added_ids.find(spelling); it != added_ids.end()) return it->second;
  if (const auto it = bpe.vocabulary().find(spelling); it != bpe.vocabulary().end()) return it->second;
  return std::nullopt;
}

Status Tokenizer::Impl::read_named_tokens(const io::Json& config, std::string_view name) {
  if (!config.is_object()) return bad_input(fmt::format("{}: is not a JSON object", name));
  const auto read = [&](const char* key, std::optional<uint32_t>& id) -> Status {
    auto it = config.find(key);
    if (it == config.end() || it->is_null() || id.has_value()) return {};
    const io::Json& text = it->is_object() && it->contains("content") ? (*it)["content"] : *it;
    if (!text.is_string()) return bad_input(fmt::format("{}: {} is neither a text nor an added token", name, key));
    id = id_of(text.get_ref<const std::string&>());
    if (!id) return bad_input(fmt::format("{}: {} is {}, which the vocabulary lacks", name, key, in_quotes(text.get<std::string>())));
    return {};
  };
  ZU_TRY(read("bos_token", bos));
  return read("eos_token", eos);
}

Result<Tokenizer> Tokenizer::from_files(const TokenizerFiles& files, std::string_view folder) {
  const auto name = [&](std::string_view file) { return fmt::format("{}/{}", folder, file); };
  auto impl = std::make_unique<Impl>();
  ZU_TRY_ASSIGN(TokenizerSpec spec, parse_tokenizer_json(files.tokenizer_json, name("tokenizer.json")));
  ZU_TRY(impl->take(std::move(spec), name("tokenizer.json")));
  for (const auto& [text, file] : {std::pair{&files.tokenizer_config_json, "tokenizer_config.json"},
                                   std::pair{&files.special_tokens_map_json, "special_tokens_map.json"}}) {
    if (text->empty()) continue;
    ZU_TRY_ASSIGN(const io::Json json, io::parse_json(*text, name(file)));
    ZU_TRY(impl->read_named_tokens(json, name(file)));
  }
  ZU_TRY_ASSIGN(impl->chat, ChatTemplates::from_files(files.tokenizer_config_json, files.special_tokens_map_json,
                                                      files.chat_template_jinja, folder));
  return Tokenizer(std::move(impl));
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model_folder) {
  TokenizerFiles files;
  ZU_TRY_ASSIGN(files.tokenizer_json, read_text_file(model_folder / "tokenizer.json", kMaxJson));
  ZU_TRY_ASSIGN(files.tokenizer_config_json, read_if_present(model_folder / "tokenizer_config.json", kMaxJson));
  ZU_TRY_ASSIGN(files.special_tokens_map_json, read_if_present(model_folder / "special_tokens_map.json", kMaxJson));
  ZU_TRY_ASSIGN(files.chat_template_jinja, read_if_present(model_folder / "chat_template.jinja", kMaxTemplate));
  return from_files(files, model_folder.string());
}

void Tokenizer::Impl::encode_plain(std::string_view text, Run& run) const {
  pre_tokenize(pre_tokenizer, text, run.pieces);
  for (std::string_view piece : run.pieces) {
    if (const PieceCache::Range* known = run.cache.find(piece)) {
      for (size_t i = 0; i < known->count; ++i) run.out.ids.push_back(run.out.ids[known->begin + i]);
      continue;
    }
    const size_t begin = run.out.ids.size();
    const uint64_t left_out = run.scratch.bytes_left_out;
    bpe.encode(piece, run.scratch, run.out.ids);
    if (run.scratch.bytes_left_out == left_out) run.cache.remember(piece, {begin, run.out.ids.size() - begin});
  }
}

void Tokenizer::Impl::encode_normalized(std::string_view text, const SpecialRule& rule, Run& run) const {
  if (!has_normalized) return encode_plain(text, run);
  for (const AddedMatch& part : normalized_matcher.split(text, rule)) {
    if (part.token != nullptr) {
      run.out.ids.push_back(part.token->id);
    } else {
      encode_plain(text.substr(part.span.begin, part.span.end - part.span.begin), run);
    }
  }
}

void Tokenizer::Impl::encode_text(std::string_view text, bool parse_special, const std::vector<ByteSpan>* content,
                                  Run& run) const {
  for (const AddedMatch& part : raw_matcher.split(text, {parse_special, content})) {
    if (part.token != nullptr) {
      run.out.ids.push_back(part.token->id);
      continue;
    }
    const std::string_view piece = text.substr(part.span.begin, part.span.end - part.span.begin);
    std::vector<ByteSpan> spans = content == nullptr ? std::vector<ByteSpan>() : spans_within(*content, part.span);
    if (nfc) {
      encode_normalized(normalize_nfc(piece, &spans), {parse_special, content == nullptr ? nullptr : &spans}, run);
    } else {
      encode_normalized(piece, {parse_special, content == nullptr ? nullptr : &spans}, run);
    }
  }
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Impl::Run run;
  const CleanText clean = replace_invalid_utf8(text);
  if (options.add_special) run.out.ids = impl_->prefix;
  impl_->encode_text(clean.text, options.parse_special, nullptr, run);
  if (options.add_special) run.out.ids.insert(run.out.ids.end(), impl_->suffix.begin(), impl_->suffix.end());
  run.out.replaced = clean.replaced;
  run.out.left_out = run.scratch.bytes_left_out;
  return std::move(run.out);
}

Encoding Tokenizer::encode(const ChatPrompt& prompt) const {
  Impl::Run run;
  impl_->encode_text(prompt.text, true, &prompt.content, run);
  run.out.left_out = run.scratch.bytes_left_out;
  return std::move(run.out);
}

namespace {
Error no_such_id(uint32_t id, uint32_t size) {
  return bad_input(fmt::format("there is no token {}: the vocabulary has ids 0 to {}", id, size - 1));
}
}  // namespace

Result<std::string> Tokenizer::decode(std::span<const uint32_t> ids, const DecodeOptions& options, uint32_t rows) const {
  std::string bytes;
  for (uint32_t id : ids) {
    if (id >= size() && id >= rows) return no_such_id(id, size());
    if (!(options.skip_special && is_special(id))) bytes += token_bytes(id);
  }
  return replace_invalid_utf8(bytes).text;
}

const ChatTemplates& Tokenizer::chat() const { return impl_->chat; }
uint32_t Tokenizer::size() const { return static_cast<uint32_t>(impl_->tokens.size()); }
std::string_view Tokenizer::pre_tokenizer() const { return name_of(impl_->pre_tokenizer); }
std::optional<uint32_t> Tokenizer::bos() const { return impl_->bos; }
std::optional<uint32_t> Tokenizer::eos() const { return impl_->eos; }
std::span<const uint32_t> Tokenizer::prefix() const { return impl_->prefix; }
std::span<const uint32_t> Tokenizer::suffix() const { return impl_->suffix; }
std::string_view Tokenizer::token_bytes(uint32_t id) const {
  return id < size() ? std::string_view(impl_->tokens[id].bytes) : std::string_view();
}
std::string_view Tokenizer::token_spelling(uint32_t id) const {
  return id < size() ? std::string_view(impl_->tokens[id].spelling) : std::string_view();
}
bool Tokenizer::is_special(uint32_t id) const { return id < size() && impl_->tokens[id].special; }
std::optional<uint32_t> Tokenizer::id_of(std::string_view spelling) const { return impl_->id_of(spelling); }

Result<std::string> DecodeStream::push(uint32_t id) {
  if (id >= tokenizer_->size() && id >= rows_) return no_such_id(id, tokenizer_->size());
  if (options_.skip_special && tokenizer_->is_special(id)) return std::string();
  held_ += tokenizer_->token_bytes(id);
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = next_utf8(rest);
    if (step.kind == Utf8Step::kIncomplete) break;
    out += step.kind == Utf8Step::kValid ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  held_ = std::string(rest);
  return out;
}

std::string DecodeStream::finish() {
  std::string out = replace_invalid_utf8(held_).text;
  held_.clear();
  return out;
}

}  // namespace zeroulp::tokenizer
