#include "tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "io/json.h"

namespace zeroulp::tokenizer {
namespace {

using io::Json;

// A member that may be left out; null counts as left out.
const Json* member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string brief(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 160) text = text.substr(0, 157) + "...";
  return text;
}

class Reader {
 public:
  Reader(const Json& root, std::string_view name) : root_(root), name_(name) {}

  Result<TokenizerSpec> read() {
    if (!root_.is_object()) return error("is not a JSON object");
    ZU_TRY(model());
    ZU_TRY(added_tokens());
    ZU_TRY(normalizer());
    ZU_TRY(pre_tokenizer());
    ZU_TRY(post_processor());
    ZU_TRY(decoder());
    return std::move(spec_);
  }

 private:
  Error error(std::string_view what) const { return bad_input(fmt::format("{}: {}", name_, what)); }
  Error unsupported(std::string_view where, const Json& value, std::string_view known) const {
    return error(fmt::format("{} is {}; zeroulp knows {}", where, brief(value), known));
  }

  // A flag with its default; anything but a boolean is an error.
  Result<bool> flag(const Json& object, const char* key, bool absent, std::string_view where) const {
    const Json* value = member(object, key);
    if (value == nullptr) return absent;
    if (!value->is_boolean()) return error(fmt::format("{}.{} is {}, not a boolean", where, key, brief(*value)));
    return value->get<bool>();
  }
  Status require_flag(const Json& object, const char* key, bool absent, bool wanted, std::string_view where) const {
    ZU_TRY_ASSIGN(const bool value, flag(object, key, absent, where));
    if (value == wanted) return {};
    return error(fmt::format("{}.{} is {}; only {} is known for the model families that zeroulp reads", where, key, value, wanted));
  }
  static std::string type_of(const Json& object) {
    const Json* type = object.is_object() ? member(object, "type") : nullptr;
    return type != nullptr && type->is_string() ? type->get<std::string>() : "";
  }
  Result<uint32_t> token_id(const Json& value, std::string_view where) const {
    if (!value.is_number_integer() || value < 0 || value > kMaxTokenId)
      return error(fmt::format("{} is {}, not a token id from 0 to {}", where, brief(value), kMaxTokenId));
    return value.get<uint32_t>();
  }

  Status model();
  Status vocabulary(const Json& model);
  Status merges(const Json& model);
  Status added_tokens();
  Result<AddedToken> added_token(const Json& entry, std::string_view where) const;
  Status normalizer();
  Status pre_tokenizer();
  Status byte_level(const Json& value, bool use_regex, std::string_view where) const;
  Status post_processor();
  Status post_step(const Json& value, std::string_view where);
  Status template_processing(const Json& value, std::string_view where);
  Status decoder();

  const Json& root_;
  std::string name_;
  TokenizerSpec spec_;
};

Status Reader::model() {
  const Json* model = member(root_, "model");
  if (model == nullptr || !model->is_object()) return error("has no \"model\" object");
  const std::string type = type_of(*model);
  if (!type.empty() && type != "BPE") return error(fmt::format("model.type is \"{}\"; zeroulp knows byte-level BPE only", type));
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json* value = member(*model, key);
    if (value != nullptr && *value != "" && *value != 0)
      return error(fmt::format("model.{} is {}; it must be null for the model families that zeroulp reads", key, brief(*value)));
  }
  ZU_TRY(require_flag(*model, "byte_fallback", false, false, "model"));
  ZU_TRY(require_flag(*model, "fuse_unk", false, false, "model"));
  ZU_TRY_ASSIGN(spec_.model.ignore_merges, flag(*model, "ignore_merges", false, "model"));
  if (const Json* unknown = member(*model, "unk_token")) {
    if (!unknown->is_string()) return error(fmt::format("model.unk_token is {}, not a text", brief(*unknown)));
    spec_.model.unknown_token = unknown->get<std::string>();
  }
  ZU_TRY(vocabulary(*model));
  return merges(*model);
}

Status Reader::vocabulary(const Json& model) {
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object() || vocab->empty()) return error("model.vocab is not a filled JSON object");
  std::unordered_set<uint32_t> seen;
  spec_.model.vocabulary.reserve(vocab->size());
  for (const auto& [spelling, value] : vocab->items()) {
    ZU_TRY_ASSIGN(const uint32_t id, token_id(value, fmt::format("model.vocab[{}]", brief(spelling))));
    if (!seen.insert(id).second) return error(fmt::format("model.vocab gives the id {} to two tokens, one of them {}", id, brief(spelling)));
    spec_.model.vocabulary.emplace(spelling, id);
  }
  return {};
}

Status Reader::merges(const Json& model) {
  const Json* merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return error("model.merges is not a JSON array");
  spec_.model.merges.reserve(merges->size());
  for (const Json& merge : *merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec_.model.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (text.starts_with("#version")) continue;
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        spec_.model.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
        continue;
      }
    }
    return error(fmt::format("model.merges[{}] is {}, neither \"left right\" nor [\"left\", \"right\"]", spec_.model.merges.size(),
                             brief(merge)));
  }
  return {};
}

Result<AddedToken> Reader::added_token(const Json& entry, std::string_view where) const {
  if (!entry.is_object()) return error(fmt::format("{} is not a JSON object", where));
  AddedToken token;
  const Json* id = member(entry, "id");
  const Json* content = member(entry, "content");
  if (id == nullptr || content == nullptr || !content->is_string())
    return error(fmt::format("{} lacks \"id\" or a \"content\" text", where));
  ZU_TRY_ASSIGN(token.id, token_id(*id, fmt::format("{}.id", where)));
  token.content = content->get<std::string>();
  if (token.content.size() > AddedTokenMatcher::kMaxContent)
    return error(fmt::format("{}.content has {} bytes, more than the limit of {}", where, token.content.size(),
                             AddedTokenMatcher::kMaxContent));
  ZU_TRY_ASSIGN(token.single_word, flag(entry, "single_word", false, where));
  ZU_TRY_ASSIGN(token.lstrip, flag(entry, "lstrip", false, where));
  ZU_TRY_ASSIGN(token.rstrip, flag(entry, "rstrip", false, where));
  ZU_TRY_ASSIGN(token.special, flag(entry, "special", false, where));
  ZU_TRY_ASSIGN(token.normalized, flag(entry, "normalized", true, where));
  return token;
}

Status Reader::added_tokens() {
  const Json* list = member(root_, "added_tokens");
  if (list == nullptr) return {};
  if (!list->is_array()) return error("added_tokens is not a JSON array");
  // `tokenizers` gives a token that the vocabulary lacks the next free id, whatever the file says. Where that is not the id
  // in the file, the file means one thing to one reader and another to the next: refused.
  uint32_t next_id = static_cast<uint32_t>(spec_.model.vocabulary.size());
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("added_tokens[{}]", i);
    ZU_TRY_ASSIGN(AddedToken token, added_token((*list)[i], where));
    if (token.content.empty()) continue;
    if (!seen.insert(token.content).second) return error(fmt::format("{} repeats the content {}", where, brief((*list)[i])));
    const auto known = spec_.model.vocabulary.find(token.content);
    const uint32_t id = known != spec_.model.vocabulary.end() ? known->second : next_id++;
    if (id != token.id)
      return error(fmt::format("{} has the id {}, but its place in the vocabulary gives {}: {}", where, token.id, id, brief((*list)[i])));
    spec_.added.push_back(std::move(token));
  }
  return {};
}

Status Reader::normalizer() {
  const Json* value = member(root_, "normalizer");
  if (value == nullptr) return {};
  const Json* only = value;
  if (type_of(*value) == "Sequence") {
    const Json* steps = member(*value, "normalizers");
    if (steps != nullptr && steps->is_array() && steps->empty()) return {};
    if (steps != nullptr && steps->is_array() && steps->size() == 1) only = &(*steps)[0];
  }
  if (type_of(*only) != "NFC") return unsupported("normalizer", *value, "none and NFC");
  spec_.nfc = true;
  return {};
}

Status Reader::byte_level(const Json& value, bool use_regex, std::string_view where) const {
  if (type_of(value) != "ByteLevel") return unsupported(where, value, "ByteLevel in this place");
  ZU_TRY(require_flag(value, "add_prefix_space", true, false, where));
  return require_flag(value, "use_regex", true, use_regex, where);
}

Status Reader::pre_tokenizer() {
  constexpr std::string_view kKnown = "those of GPT-2, Llama 3, Qwen2 and SmolLM2";
  const Json* value = member(root_, "pre_tokenizer");
  if (value == nullptr) return error(fmt::format("pre_tokenizer is null; zeroulp knows {}", kKnown));
  if (type_of(*value) == "ByteLevel") return byte_level(*value, true, "pre_tokenizer");
  const Json* steps = type_of(*value) == "Sequence" ? member(*value, "pretokenizers") : nullptr;
  if (steps == nullptr || !steps->is_array() || steps->size() != 2) return unsupported("pre_tokenizer", *value, kKnown);
  const Json& first = (*steps)[0];
  if (type_of(first) == "Digits") {
    ZU_TRY(require_flag(first, "individual_digits", false, true, "pre_tokenizer.pretokenizers[0]"));
    spec_.pre_tokenizer = PreTokenizer::kSmolLm2;
    return byte_level((*steps)[1], true, "pre_tokenizer.pretokenizers[1]");
  }
  if (type_of(first) != "Split") return unsupported("pre_tokenizer.pretokenizers[0]", first, kKnown);
  const Json* pattern = member(first, "pattern");
  const Json* regex = pattern != nullptr && pattern->is_object() ? member(*pattern, "Regex") : nullptr;
  const auto kind = regex != nullptr && regex->is_string() ? pre_tokenizer_of_pattern(regex->get_ref<const std::string&>())
                                                           : std::nullopt;
  if (!kind) return unsupported("the Split pattern of pre_tokenizer", first, kKnown);
  const Json* behavior = member(first, "behavior");
  if (behavior == nullptr || *behavior != "Isolated") return unsupported("pre_tokenizer.pretokenizers[0]", first, "the behavior Isolated");
  ZU_TRY(require_flag(first, "invert", false, false, "pre_tokenizer.pretokenizers[0]"));
  spec_.pre_tokenizer = *kind;
  return byte_level((*steps)[1], false, "pre_tokenizer.pretokenizers[1]");
}

Status Reader::post_processor() {
  const Json* value = member(root_, "post_processor");
  if (value == nullptr) return {};
  if (type_of(*value) != "Sequence") return post_step(*value, "post_processor");
  const Json* steps = member(*value, "processors");
  if (steps == nullptr || !steps->is_array()) return unsupported("post_processor", *value, "a Sequence with processors");
  for (size_t i = 0; i < steps->size(); ++i) ZU_TRY(post_step((*steps)[i], fmt::format("post_processor.processors[{}]", i)));
  return {};
}

Status Reader::post_step(const Json& value, std::string_view where) {
  if (type_of(value) == "ByteLevel") return {};  // moves offsets only
  if (type_of(value) == "TemplateProcessing") return template_processing(value, where);
  return unsupported(where, value, "none, ByteLevel and TemplateProcessing");
}

Status Reader::template_processing(const Json& value, std::string_view where) {
  const Json* single = member(value, "single");
  const Json* tokens = member(value, "special_tokens");
  if (single == nullptr || !single->is_array()) return error(fmt::format("{}.single is not a JSON array", where));
  if (!spec_.prefix.empty() || !spec_.suffix.empty()) return error(fmt::format("{} is a second TemplateProcessing", where));
  bool text_seen = false;
  for (const Json& piece : *single) {
    const Json* sequence = piece.is_object() ? member(piece, "Sequence") : nullptr;
    const Json* special = piece.is_object() ? member(piece, "SpecialToken") : nullptr;
    if (sequence != nullptr) {
      const Json* id = sequence->is_object() ? member(*sequence, "id") : nullptr;
      if (text_seen || id == nullptr || *id != "A") return unsupported(fmt::format("{}.single", where), *single, "one sequence A");
      text_seen = true;
      continue;
    }
    const Json* id = special != nullptr && special->is_object() ? member(*special, "id") : nullptr;
    if (id == nullptr || !id->is_string()) return unsupported(fmt::format("{}.single", where), piece, "Sequence and SpecialToken");
    const Json* entry = tokens != nullptr && tokens->is_object() ? member(*tokens, id->get_ref<const std::string&>().c_str()) : nullptr;
    const Json* ids = entry != nullptr && entry->is_object() ? member(*entry, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array() || ids->size() > 64)
      return error(fmt::format("{}.special_tokens has no ids for {}", where, brief(*id)));
    for (const Json& number : *ids) {
      ZU_TRY_ASSIGN(const uint32_t token, token_id(number, fmt::format("{}.special_tokens[{}].ids", where, brief(*id))));
      (text_seen ? spec_.suffix : spec_.prefix).push_back(token);
    }
    if (spec_.prefix.size() + spec_.suffix.size() > 64) return error(fmt::format("{}.single adds more than 64 tokens", where));
  }
  if (!text_seen) return error(fmt::format("{}.single has no sequence A", where));
  return {};
}

Status Reader::decoder() {
  const Json* value = member(root_, "decoder");
  if (value == nullptr) return error("decoder is null; zeroulp knows ByteLevel");
  if (type_of(*value) != "ByteLevel") return unsupported("decoder", *value, "ByteLevel");
  return {};
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view text, std::string_view name) {
  ZU_TRY_ASSIGN(const Json root, io::parse_json(text, name));
  return Reader(root, name).read();
}

}  // namespace zeroulp::tokenizer
