#include "tokenizer/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "io/json.h"

namespace zeroulp::tokenizer {
namespace {

using io::Json;
using jinja::Dict;
using jinja::Text;
using jinja::Value;

constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// What transformers does to a message before it renders: members that are null are dropped, and what a model thought stands
// under every name that templates read it by.
Value prepared(const Dict& message) {
  auto out = std::make_shared<Dict>();
  const Value* thoughts = nullptr;
  for (const char* name : {"reasoning", "thinking", "reasoning_content"})
    if (const Value* found = message.find(name); found != nullptr && !found->none()) thoughts = found;
  if (thoughts != nullptr) out->set(Text("thinking"), *thoughts);
  for (const auto& [key, value] : message.items())
    if (!value.none()) out->set(*key, value);
  if (thoughts != nullptr) out->set(Text("reasoning_content"), *thoughts);
  return Value(std::move(out));
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + in_quotes(name);
  return out;
}

}  // namespace

Result<std::string> read_if_present(const std::filesystem::path& path, uint64_t limit) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::string();
  return read_text_file(path, limit);
}

void ChatTemplates::add_template(std::string name, std::string_view source, std::string_view where) {
  templates_.emplace_back(std::move(name), jinja::Template::parse(source, where));
}

Status ChatTemplates::read_config(std::string_view json, std::string_view name, bool take_templates) {
  ZU_TRY_ASSIGN(const Json config, io::parse_json(json, name));
  if (!config.is_object()) return bad_input(fmt::format("{}: is not a JSON object", name));
  for (const char* key : kNamedTokens) {
    const auto it = config.find(key);
    if (it == config.end()) continue;
    const Json& text = it->is_object() && it->contains("content") ? (*it)["content"] : *it;
    const bool known = std::any_of(named_tokens_.begin(), named_tokens_.end(), [&](const auto& t) { return t.first == key; });
    if (text.is_string() && !known) named_tokens_.emplace_back(key, text.get<std::string>());
  }
  const auto it = config.find("chat_template");
  if (!take_templates || it == config.end() || it->is_null()) return {};
  const std::string where = fmt::format("chat template in {}", name);
  if (it->is_string()) {
    add_template("default", it->get_ref<const std::string&>(), where);
    return {};
  }
  if (!it->is_array()) return bad_input(fmt::format("{}: chat_template is neither a text nor a list", name));
  for (const Json& entry : *it) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() || !entry.contains("template") ||
        !entry["template"].is_string())
      return bad_input(fmt::format("{}: an entry of chat_template lacks a name or a template", name));
    add_template(entry["name"].get<std::string>(), entry["template"].get_ref<const std::string&>(),
                 fmt::format("chat template {} in {}", in_quotes(entry["name"].get<std::string>()), name));
  }
  return {};
}

Result<ChatTemplates> ChatTemplates::from_files(std::string_view tokenizer_config, std::string_view special_tokens_map,
                                                std::string_view chat_template_jinja, std::string_view folder) {
  ChatTemplates chat;
  chat.folder_ = folder;
  const bool overridden = !chat_template_jinja.empty();
  if (overridden) chat.add_template("default", chat_template_jinja, fmt::format("{}/chat_template.jinja", folder));
  if (!tokenizer_config.empty())
    ZU_TRY(chat.read_config(tokenizer_config, fmt::format("{}/tokenizer_config.json", folder), !overridden));
  if (!special_tokens_map.empty())
    ZU_TRY(chat.read_config(special_tokens_map, fmt::format("{}/special_tokens_map.json", folder), false));
  return chat;
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> out;
  for (const auto& [name, unused] : templates_) out.push_back(name);
  return out;
}

Result<const jinja::Template*> ChatTemplates::choose(const ChatOptions& options, bool tools) const {
  if (templates_.empty())
    return bad_input(fmt::format("{}: has no chat template (neither chat_template.jinja nor chat_template in tokenizer_config.json)", folder_));
  const auto find = [&](std::string_view name) -> const Result<jinja::Template>* {
    const auto it = std::find_if(templates_.begin(), templates_.end(), [&](const auto& t) { return t.first == name; });
    return it == templates_.end() ? nullptr : &it->second;
  };
  const Result<jinja::Template>* found = nullptr;
  if (!options.template_name.empty()) {
    found = find(options.template_name);
  } else {
    if (tools) found = find("tool_use");
    if (found == nullptr) found = find("default");
  }
  if (found == nullptr)
    return bad_input(fmt::format("{}: has no chat template {}; it has {}", folder_,
                                 in_quotes(options.template_name.empty() ? "default" : options.template_name), joined(names())));
  if (!*found) return found->error();
  return &found->value();
}

Result<ChatPrompt> ChatTemplates::render(std::string_view messages_json, const ChatOptions& options) const {
  ZU_TRY_ASSIGN(Value messages, jinja::parse_content_json(messages_json, "messages"));
  const jinja::Sequence* list = messages.sequence();
  if (list == nullptr) return bad_input("messages: not a JSON array");
  std::vector<Value> entries;
  for (const Value& message : list->items) {
    if (message.dict() == nullptr) return bad_input("messages: an entry is not a JSON object");
    entries.push_back(prepared(*message.dict()));
  }
  return render(Value::list(std::move(entries)), options);
}

Result<ChatPrompt> ChatTemplates::render(const std::vector<Message>& messages, const ChatOptions& options) const {
  std::vector<Value> list;
  for (const Message& message : messages) {
    auto dict = std::make_shared<Dict>();
    dict->set(Text("role"), Value(Text::from_content(replace_invalid_utf8(message.role).text)));
    dict->set(Text("content"), Value(Text::from_content(replace_invalid_utf8(message.content).text)));
    list.emplace_back(std::move(dict));
  }
  return render(Value::list(std::move(list)), options);
}

Result<ChatPrompt> ChatTemplates::render(Value messages, const ChatOptions& options) const {
  if (messages.sequence()->items.empty()) return bad_input("messages: the conversation is empty");
  ZU_TRY_ASSIGN(const jinja::Template* chosen, choose(options, !options.tools_json.empty()));
  Dict variables;
  const auto set = [&](std::string_view name, Value value) { variables.set(Text(name), std::move(value)); };
  for (const auto& [name, text] : named_tokens_) set(name, Value(Text(text)));
  set("messages", std::move(messages));
  set("tools", Value());
  set("documents", Value());
  set("add_generation_prompt", Value(options.add_generation_prompt));
  if (!options.tools_json.empty()) {
    ZU_TRY_ASSIGN(Value tools, jinja::parse_content_json(options.tools_json, "tools"));
    set("tools", std::move(tools));
  }
  if (!options.variables_json.empty()) {
    ZU_TRY_ASSIGN(const Value further, jinja::parse_content_json(options.variables_json, "template variables"));
    if (further.dict() == nullptr) return bad_input("template variables: not a JSON object");
    for (const auto& [key, value] : further.dict()->items()) set(key->bytes, value);
  }
  const int64_t now = options.now.value_or(static_cast<int64_t>(std::time(nullptr)));
  ZU_TRY_ASSIGN(Text text, chosen->render(variables, {options.limits, now, options.now.has_value()}));
  return ChatPrompt{std::move(text.bytes), std::move(text.content)};
}

}  // namespace zeroulp::tokenizer
