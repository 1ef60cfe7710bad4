#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "args.h"
#include "base/file.h"
#include "base/text.h"
#include "model_text.h"
#include "tokenizer/tokenizer.h"
#include "verbs.h"

namespace zeroulp::cli {
namespace {

using tokenizer::Encoding;
using tokenizer::Tokenizer;

constexpr uint64_t kMaxInput = 1ull << 30;

struct Options {
  std::string model, text, file;
  bool json = false, no_special = false, plain = false, decode = false, skip_special = false, chat = false, messages = false;
};

Result<std::string> read_input(const Args& args, const Options& o) {
  if (args.given("--text")) return o.text;
  if (o.file != "-") return read_text_file(o.file, kMaxInput);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<std::vector<uint32_t>> parse_ids(std::string_view text) {
  std::vector<uint32_t> ids;
  constexpr std::string_view kBetween = " \t\r\n,[]";
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos; at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    uint32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size())
      return bad_input(fmt::format("{} is not a token id (ids are decimal numbers between blanks or commas)", in_quotes(word)));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

nlohmann::ordered_json head(const Options& o, const Tokenizer& tokenizer) {
  return {{"schema", "zeroulp.tokenize/1"}, {"model", o.model}, {"rules", tokenizer.pre_tokenizer()}};
}

std::string spelled(const Tokenizer& tokenizer, uint32_t id) {
  return tokenizer::replace_invalid_utf8(tokenizer.token_bytes(id)).text;
}

void print_ids(const Options& o, const Tokenizer& tokenizer, const Encoding& encoding, const std::string& prompt) {
  if (o.json) {
    nlohmann::ordered_json out = head(o, tokenizer);
    if (!prompt.empty()) out["prompt"] = prompt;
    out["invalid_utf8_replaced"] = encoding.replaced;
    out["bytes_without_token"] = encoding.left_out;
    out["ids"] = encoding.ids;
    auto& tokens = out["tokens"] = nlohmann::ordered_json::array();
    for (uint32_t id : encoding.ids) tokens.push_back(tokenizer.token_spelling(id));
    fmt::print("{}\n", out.dump());
    return;
  }
  for (uint32_t id : encoding.ids) fmt::print("{:>7}  {}\n", id, in_quotes(spelled(tokenizer, id)));
  say_what_was_lost("tokenize", o.file.empty() ? "--text" : o.file, encoding);
}

Status print_text(const Options& o, const Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  ZU_TRY_ASSIGN(const std::string text, tokenizer.decode(ids, {.skip_special = o.skip_special}));
  if (o.json) {
    nlohmann::ordered_json out = head(o, tokenizer);
    out["ids"] = ids;
    out["text"] = text;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}", text);
  }
  return {};
}

Status run(const Args& args, const Options& o) {
  ZU_TRY_ASSIGN(const std::string input, read_input(args, o));
  ZU_TRY_ASSIGN(const Tokenizer tokenizer, Tokenizer::load(o.model));
  if (o.decode) {
    ZU_TRY_ASSIGN(const std::vector<uint32_t> ids, parse_ids(input));
    return print_text(o, tokenizer, ids);
  }
  if (o.chat || o.messages) {
    auto prompt = o.messages ? tokenizer.chat().render(input) : tokenizer.chat().render({{"user", input}});
    if (!prompt) return std::move(prompt).error();
    print_ids(o, tokenizer, tokenizer.encode(*prompt), prompt->text);
    return {};
  }
  print_ids(o, tokenizer, tokenizer.encode(input, {.add_special = !o.no_special, .parse_special = !o.plain}), "");
  return {};
}

}  // namespace

int cmd_tokenize(int argc, char** argv) {
  Args args("tokenize", "Text to token ids, as Hugging Face's tokenizers gives them, and back.",
            {"zeroulp tokenize models/smollm2 --text 'Hello world'", "zeroulp tokenize models/smollm2 --file notes.txt --json",
             "echo 19556 905 | zeroulp tokenize models/smollm2 --decode --file -"});
  Options o;
  args.positional("MODEL", o.model, "model folder with tokenizer.json");
  args.option("--text", o.text, "the text");
  args.input("--file", o.file, "read the text from a file; - is standard input");
  args.flag("--json", o.json, "ids and tokens as JSON (schema zeroulp.tokenize/1)");
  args.flag("--no-special", o.no_special, "leave out what the tokenizer adds around a text, such as begin-of-text");
  args.flag("--plain", o.plain, "text that reads like a special token is plain text");
  args.flag("--chat", o.chat, "the text is what a user says: its prompt, by the model's chat template");
  args.flag("--messages", o.messages, "the text is a JSON array of messages: their prompt, by the model's chat template");
  args.flag("--decode", o.decode, "the input is token ids; print their text");
  args.flag("--skip-special", o.skip_special, "with --decode: leave out special tokens");
  args.exactly_one({"--text", "--file"});
  args.needs({"--skip-special"}, "--decode");
  args.excludes({"--no-special", "--plain"}, {"--decode", "--chat", "--messages"});
  args.excludes({"--decode"}, {"--chat", "--messages"});
  args.excludes({"--chat"}, {"--messages"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run(args, o);
  return status ? 0 : fail("tokenize", status.error());
}

}  // namespace zeroulp::cli
