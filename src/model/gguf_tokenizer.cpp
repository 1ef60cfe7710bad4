#include "model/gguf_tokenizer.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text.h"
#include "io/json.h"

namespace zeroulp::model {
namespace {

using io::Json;
using nlohmann::ordered_json;

// Token types of the file format. Others (byte tokens, undefined ones) do not occur in byte-level BPE.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Pre {
  const char* name;     // as tokenizer.ggml.pre spells it
  const char* pattern;  // null: GPT-2's, which ByteLevel has built in
  bool digits;          // each digit apart, before the pattern
  bool nfc;
  bool ignore_merges;
  bool adds_bos;  // when the file does not say
};
constexpr Pre kPres[] = {
    {"gpt-2", nullptr, false, false, false, false},
    {"smollm", nullptr, true, false, false, false},
    {"llama-bpe", kLlama3Pattern, false, false, true, true},
    {"llama3", kLlama3Pattern, false, false, true, true},
    {"llama-v3", kLlama3Pattern, false, false, true, true},
    {"qwen2", kQwen2Pattern, false, true, false, false},
    {"deepseek-r1-qwen", kQwen2Pattern, false, true, false, false},
};

std::string known_pres() {
  std::string out;
  for (const Pre& p : kPres) out += (out.empty() ? "" : ", ") + std::string(p.name);
  return out;
}

Result<const Pre*> choose_pre(const GgufKeys& keys, const std::string& given) {
  constexpr const char* kKey = "tokenizer.ggml.pre";
  ZU_TRY_ASSIGN(const auto stored, keys.optional_text(kKey));
  const bool says = stored && !stored->empty() && *stored != "default";
  if (!given.empty() && std::none_of(std::begin(kPres), std::end(kPres), [&](const Pre& p) { return given == p.name; }))
    return usage_error(fmt::format("--pre {}: there is no such rule; {} are", given, known_pres()));
  if (!given.empty() && says && given != *stored)
    return usage_error(fmt::format("--pre {}: the file says {} itself; leave --pre out", given, in_quotes(*stored)));
  const std::string name = !given.empty() ? given : stored.value_or("");
  if (name.empty() || name == "default")
    return keys.error(kKey, fmt::format("does not say how text is split before BPE; give --pre NAME, one of {}", known_pres()));
  for (const Pre& p : kPres)
    if (name == p.name) return &p;
  return keys.error(kKey, fmt::format("{} is not supported; {} are", in_quotes(name), known_pres()));
}

struct Vocabulary {
  std::vector<std::string> tokens;  // by id
  std::vector<int64_t> types;
  std::vector<size_t> added;                         // ids of control, unknown and user-defined tokens
  std::unordered_map<std::string_view, size_t> ids;  // all but unused tokens
  bool added_in_model = false;
  size_t model_end = 0;  // one past the last normal token
};

Result<Vocabulary> read_vocabulary(const GgufKeys& keys, int64_t rows) {
  constexpr const char *kTokens = "tokenizer.ggml.tokens", *kTypes = "tokenizer.ggml.token_type";
  Vocabulary v;
  ZU_TRY_ASSIGN(const auto* tokens, keys.texts(kTokens));
  if (static_cast<int64_t>(tokens->size()) > rows)
    return keys.error(kTokens, fmt::format("{} tokens, but the embedding has only {} rows", tokens->size(), rows));
  const io::GgufValue* types = keys.model().value(kTypes);
  if (types == nullptr || types->kind != io::GgufKind::kArray || types->count != tokens->size())
    return keys.error(kTypes, fmt::format("is missing or not an array of {} types", tokens->size()));
  for (size_t id = 0; id < tokens->size(); ++id) {
    v.tokens.emplace_back((*tokens)[id]);
    v.types.push_back(types->integer_at(id).value_or(0));
  }
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] == kUnused) continue;
    if (v.types[id] < kNormal || v.types[id] > kUnused)
      return keys.error(kTypes, fmt::format("type {} of token {} does not occur in byte-level BPE", v.types[id], id));
    if (v.tokens[id].empty() || !is_utf8(v.tokens[id]))
      return keys.error(kTokens, fmt::format("token {} is empty or not UTF-8", id));
    const auto [other, is_new] = v.ids.emplace(v.tokens[id], id);
    if (!is_new)
      return keys.error(kTokens, fmt::format("tokens {} and {} are both {}", other->second, id, in_quotes(v.tokens[id])));
    if (v.types[id] == kNormal) {
      v.model_end = id + 1;
    } else {
      v.added.push_back(id);
    }
  }
  return v;
}

// `tokenizers` gives an added token that the model's vocabulary lacks the next free id, whatever the file says. So added tokens
// may stay outside the vocabulary only if they follow it without a gap; otherwise all of them go into it.
void place_added_tokens(Vocabulary& v) {
  size_t inside = 0;
  for (size_t id = 0; id < v.model_end; ++id) inside += v.types[id] != kUnused;
  size_t next = v.model_end;
  v.added_in_model = inside != v.model_end;
  for (const size_t id : v.added) {
    if (id < v.model_end) continue;
    if (id != next++) v.added_in_model = true;
  }
}

std::string vocabulary_json(const Vocabulary& v) {
  std::string out;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] == kUnused || (id >= v.model_end && !v.added_in_model)) continue;
    out += fmt::format("{}      {}: {}", out.empty() ? "" : ",\n", Json(v.tokens[id]).dump(), id);
  }
  return out;
}

Result<std::string> merges_json(const GgufKeys& keys, const Vocabulary& v) {
  constexpr const char* kMerges = "tokenizer.ggml.merges";
  ZU_TRY_ASSIGN(const auto* merges, keys.texts(kMerges));
  std::string out;
  for (size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos)
      return keys.error(kMerges, fmt::format("merge {} is {}, not two tokens with a space between them", i, in_quotes(merge)));
    const std::string left(merge.substr(0, space)), right(merge.substr(space + 1));
    for (const std::string& token : {left, right, left + right})
      if (!v.ids.contains(token))
        return keys.error(kMerges,
                          fmt::format("merge {} needs the token {}, which is not in the vocabulary", i, in_quotes(token)));
    out += fmt::format("{}      [{}, {}]", out.empty() ? "" : ",\n", Json(left).dump(), Json(right).dump());
  }
  return out;
}

ordered_json byte_level(bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", trim_offsets}, {"use_regex", use_regex}};
}

ordered_json pre_tokenizer_json(const Pre& pre) {
  if (pre.pattern == nullptr && !pre.digits) return byte_level(true, true);
  ordered_json first{{"type", "Digits"}, {"individual_digits", true}};
  if (pre.pattern != nullptr)
    first = {{"type", "Split"}, {"pattern", {{"Regex", pre.pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const bool built_in = pre.pattern == nullptr;
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({first, byte_level(built_in, built_in)})}};
}

ordered_json added_tokens_json(const Vocabulary& v) {
  ordered_json out = ordered_json::array();
  for (const size_t id : v.added)
    out.push_back({{"id", id},
                   {"content", v.tokens[id]},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", v.types[id] != kUserDefined}});
  return out;
}

// The token that the file calls by this key, if any.
Result<std::optional<size_t>> named_token(const GgufKeys& keys, const Vocabulary& v, const std::string& key) {
  ZU_TRY_ASSIGN(const auto id, keys.optional_integer(key));
  if (!id) return std::optional<size_t>();
  if (*id >= static_cast<int64_t>(v.tokens.size()) || v.types[static_cast<size_t>(*id)] == kUnused)
    return keys.error(key, fmt::format("{} is not a token of the vocabulary", *id));
  return std::optional<size_t>(static_cast<size_t>(*id));
}

// Puts the begin-of-text token before every text.
ordered_json post_processor_json(const std::string& bos, size_t id) {
  const ordered_json special{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  ordered_json tokens = ordered_json::object();
  tokens[bos] = {{"id", bos}, {"ids", {id}}, {"tokens", {bos}}};
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({special, sequence("A", 0)})},
          {"pair", ordered_json::array({special, sequence("A", 0), special, sequence("B", 1)})},
          {"special_tokens", tokens}};
}

std::string tokenizer_json(const Pre& pre, const Vocabulary& v, const std::string& merges, const ordered_json& post_processor) {
  const ordered_json normalizer = pre.nfc ? ordered_json{{"type", "NFC"}} : ordered_json();
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  out += fmt::format(
      "  \"added_tokens\": {},\n  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": "
      "{},\n",
      added_tokens_json(v).dump(), normalizer.dump(), pre_tokenizer_json(pre).dump(), post_processor.dump(),
      byte_level(false, false).dump());
  out += fmt::format(
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": {},\n    \"vocab\": {{\n",
      pre.ignore_merges);
  return out + vocabulary_json(v) + "\n    },\n    \"merges\": [\n" + merges + "\n    ]\n  }\n}\n";
}

// One template as a string; with named ones beside it, Hugging Face's list.
Status add_chat_templates(const GgufKeys& keys, ordered_json& config) {
  ZU_TRY_ASSIGN(const auto main, keys.optional_text("tokenizer.chat_template"));
  ordered_json list = ordered_json::array();
  if (main) list.push_back({{"name", "default"}, {"template", *main}});
  constexpr std::string_view kPrefix = "tokenizer.chat_template.";
  for (const auto& [key, value] : keys.model().metadata()) {
    if (!key.starts_with(kPrefix)) continue;
    ZU_TRY_ASSIGN(const std::string text, keys.text(key));
    list.push_back({{"name", key.substr(kPrefix.size())}, {"template", text}});
  }
  if (list.size() > 1 || (list.size() == 1 && !main)) {
    config["chat_template"] = list;
  } else if (main) {
    config["chat_template"] = *main;
  }
  return {};
}

}  // namespace

Result<GgufTokenizer> tokenizer_from_gguf(const GgufKeys& keys, const std::string& given_pre, int64_t rows) {
  ZU_TRY_ASSIGN(const std::string kind, keys.text("tokenizer.ggml.model"));
  if (kind != "gpt2")
    return keys.error("tokenizer.ggml.model", fmt::format("{} is not supported; gpt2 (byte-level BPE) is", in_quotes(kind)));
  ZU_TRY_ASSIGN(const Pre* pre, choose_pre(keys, given_pre));
  ZU_TRY_ASSIGN(Vocabulary v, read_vocabulary(keys, rows));
  place_added_tokens(v);
  ZU_TRY_ASSIGN(const std::string merges, merges_json(keys, v));
  ZU_TRY_ASSIGN(const bool add_bos, keys.boolean_or("tokenizer.ggml.add_bos_token", pre->adds_bos));

  GgufTokenizer out;
  out.pre = pre->name;
  ordered_json& c = out.tokenizer_config;
  c["tokenizer_class"] = "PreTrainedTokenizerFast";
  c["add_bos_token"] = add_bos;
  c["clean_up_tokenization_spaces"] = false;
  ZU_TRY_ASSIGN(c["model_max_length"], keys.integer("{arch}.context_length"));
  ordered_json post_processor;
  for (const auto& [key, name] :
       {std::pair("tokenizer.ggml.bos_token_id", "bos_token"), std::pair("tokenizer.ggml.eos_token_id", "eos_token"),
        std::pair("tokenizer.ggml.padding_token_id", "pad_token")}) {
    ZU_TRY_ASSIGN(const auto id, named_token(keys, v, key));
    if (!id) continue;
    c[name] = v.tokens[*id];
    if (add_bos && std::string_view(name) == "bos_token") post_processor = post_processor_json(v.tokens[*id], *id);
  }
  if (add_bos && post_processor.is_null())
    return keys.error("tokenizer.ggml.bos_token_id", "is missing, though a text begins with that token");
  ZU_TRY(add_chat_templates(keys, c));
  out.tokenizer_json = tokenizer_json(*pre, v, merges, post_processor);
  return out;
}

}  // namespace zeroulp::model
