// Conversations as prompts, by the chat templates that come with a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/jinja/template.h"

namespace zeroulp::tokenizer {

struct Message {
  std::string role, content;
};

// A rendered chat prompt: text, and which bytes of it came from the messages. Only the rest may yield special tokens.
struct ChatPrompt {
  std::string text;
  std::vector<ByteSpan> content;  // sorted, disjoint
};

struct ChatOptions {
  bool add_generation_prompt = true;
  std::string tools_json{};       // a JSON array of tool descriptions; empty: none
  std::string variables_json{};   // a JSON object of further variables, such as {"enable_thinking": false}; empty: none
  std::string template_name{};    // of a model with several; empty: "tool_use" if there are tools and it has one, else "default"
  std::optional<int64_t> now{};   // seconds since 1970 for templates that print the date (then in UTC); absent: the clock, local time
  jinja::Budget::Limits limits{};
};

// The text of a file, or nothing where there is none.
Result<std::string> read_if_present(const std::filesystem::path& path, uint64_t limit);

// A model's chat templates and the texts of its named special tokens.
class ChatTemplates {
 public:
  // From tokenizer_config.json (chat_template: a text, or a list of {name, template}) and chat_template.jinja, which overrides
  // it. Empty texts: absent files. A template that cannot be parsed is an error only when it is used.
  // `folder` opens error lines.
  static Result<ChatTemplates> from_files(std::string_view tokenizer_config, std::string_view special_tokens_map,
                                          std::string_view chat_template_jinja, std::string_view folder);

  bool empty() const { return templates_.empty(); }
  std::vector<std::string> names() const;

  // There is no fall-back: without a template, or with one that uses what is not supported, this is an error.
  // `messages_json`: a JSON array of messages as Hugging Face has them, {"role": ..., "content": ...} and more.
  Result<ChatPrompt> render(std::string_view messages_json, const ChatOptions& options = {}) const;
  Result<ChatPrompt> render(const std::vector<Message>& messages, const ChatOptions& options = {}) const;

 private:
  Result<ChatPrompt> render(jinja::Value messages, const ChatOptions& options) const;
  Result<const jinja::Template*> choose(const ChatOptions& options, bool tools) const;
  Status read_config(std::string_view json, std::string_view name, bool take_templates);
  void add_template(std::string name, std::string_view source, std::string_view where);

  std::string folder_;
  std::vector<std::pair<std::string, Result<jinja::Template>>> templates_;
  std::vector<std::pair<std::string, std::string>> named_tokens_;  // bos_token and so on
};

}  // namespace zeroulp::tokenizer
