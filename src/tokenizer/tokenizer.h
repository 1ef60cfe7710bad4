// Text to token ids and back, for byte-level BPE models as Hugging Face stores them. Ids equal those of the Python package
// `tokenizers`; see unicode.h for the Unicode version and for invalid UTF-8, tokenizer_json.h for what is refused.
//
// Everything here is const after load and may be used by several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/chat.h"
#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer {

struct EncodeOptions {
  // Adds what the post-processor adds, such as Llama 3's begin-of-text.
  bool add_special = true;
  // false: text that reads like a special token is plain text. (Added tokens that are not special, such as Qwen's
  // <tool_call>, are tokens all the same: they control nothing that their text would not.)
  bool parse_special = true;
};

struct Encoding {
  std::vector<uint32_t> ids;
  uint64_t replaced = 0;   // maximal invalid UTF-8 subparts that became U+FFFD
  uint64_t left_out = 0;   // bytes for which the vocabulary has no token (SmolLM2 has 21 such values); `tokenizers` drops them too
};

struct DecodeOptions {
  bool skip_special = false;
};

// The files of a model folder that say how to tokenise. Empty: the file is absent.
struct TokenizerFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string special_tokens_map_json;
  std::string chat_template_jinja;
};

class Tokenizer {
 public:
  // Reads tokenizer.json, and where present tokenizer_config.json, special_tokens_map.json and chat_template.jinja.
  static Result<Tokenizer> load(const std::filesystem::path& model_folder);
  // `folder` opens error lines.
  static Result<Tokenizer> from_files(const TokenizerFiles& files, std::string_view folder);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Adds nothing around the prompt: chat templates write their own begin-of-text.
  Encoding encode(const ChatPrompt& prompt) const;

  // The model's chat templates; chat().render() makes prompts for encode().
  const ChatTemplates& chat() const;

  // The text of the ids: their bytes together, invalid UTF-8 as U+FFFD. White space is never touched, whatever
  // clean_up_tokenization_spaces says: it would lose text ("x != y" became "x!= y"). An id below size() without a token is
  // no text; one at or above size() is an error unless it is below `rows` (models pad their embedding rows), then no text.
  Result<std::string> decode(std::span<const uint32_t> ids, const DecodeOptions& options = {}, uint32_t rows = 0) const;

  // One more than the largest id.
  uint32_t size() const;
  // Which family's rules cut the text: "gpt2", "llama3", "qwen2" or "smollm2".
  std::string_view pre_tokenizer() const;
  std::optional<uint32_t> bos() const;
  std::optional<uint32_t> eos() const;
  // The ids that encode() puts before and after a text with add_special.
  std::span<const uint32_t> prefix() const;
  std::span<const uint32_t> suffix() const;

  // The bytes that an id stands for (a part of a character, perhaps); empty for ids without a token.
  std::string_view token_bytes(uint32_t id) const;
  // The token as the vocabulary spells it; empty for ids without a token.
  std::string_view token_spelling(uint32_t id) const;
  bool is_special(uint32_t id) const;
  // The id of a token as the vocabulary spells it, added tokens by their content.
  std::optional<uint32_t> id_of(std::string_view spelling) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Decodes ids as they come. The pieces together, finish() included, are what Tokenizer::decode gives for all ids at once;
// bytes that may still become a character are held back.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, const DecodeOptions& options = {}, uint32_t rows = 0)
      : tokenizer_(&tokenizer), options_(options), rows_(rows) {}

  // The text that `id` completes; often empty in the middle of a character.
  Result<std::string> push(uint32_t id);
  // What is held back, as U+FFFD; the stream is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  uint32_t rows_;
  std::string held_;
};

}  // namespace zeroulp::tokenizer
