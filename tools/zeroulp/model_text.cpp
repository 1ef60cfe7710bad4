#include "model_text.h"

#include <fmt/format.h>

#include <filesystem>

#include "args.h"
#include "base/file.h"
#include "num/digest.h"

namespace zeroulp::cli {
namespace {

constexpr uint64_t kTextLimit = 256ull << 20;

constexpr std::string_view kBuiltIn =
    "A ship that leaves port in the morning carries three clocks. The first was set by the harbour master, the second by the captain, and the\n"
    "third by the sun at noon. By evening no two of them agree, and yet every one of them is right to within a minute. The captain does not mind:\n"
    "a minute at sea is a quarter of a mile, and the coast is still a long way off. On the third day the clocks are half an hour apart. Now the\n"
    "captain minds very much, because the chart shows rocks, and the rocks do not move by half an hour.\n\n"
    "The story is told to apprentices who learn to mend instruments. A tolerance, says the master, is a promise about one step, and a voyage has\n"
    "many. Two instruments that differ by less than anybody can see will part company in the end, and the end is where the rocks are. If you want\n"
    "two ships to arrive at the same hour, do not ask that their clocks be close. Ask that they be equal, and find out what makes them differ.\n\n"
    "The apprentice opens the second clock. Its wheels are cut as finely as those of the first; its spring is as strong. But the maker counted the\n"
    "teeth from the left and the other from the right, and where the number did not divide, each gave the odd tooth to a different wheel. Neither\n"
    "is wrong. The apprentice writes down from which side to count, and from that day on all the clocks of the harbour strike together.\n\n"
    "What was written down was short. It said which wheel to cut first, where to round, and what to do with the odd tooth. Makers in other towns\n"
    "read it, shook their heads at so much care, and followed it all the same, because their customers had begun to ask. Some years later a dealer\n"
    "brought a clock that agreed with every other for a month and then did not. They laid it beside its brother, compared them hour by hour, and\n"
    "found the first stroke that differed; from there it took an afternoon to find the tooth.\n";

}  // namespace

Result<ModelText> read_model_text(const std::string& verb, const std::string& model_folder, const std::string& path) {
  ModelText out;
  std::string text;
  if (path.empty()) {
    text = kBuiltIn;
    out.name = "built-in";
  } else {
    ZU_TRY_ASSIGN(text, read_text_file(path, kTextLimit));
    out.name = std::filesystem::path(path).filename().string();
  }
  num::Sha256 sha;
  sha.update(text);
  out.sha256 = sha.hex();
  ZU_TRY_ASSIGN(const tokenizer::Tokenizer tokenizer, tokenizer::Tokenizer::load(model_folder));
  const tokenizer::Encoding encoding = tokenizer.encode(text, {.add_special = false, .parse_special = false});
  say_what_was_lost(verb, path, encoding);
  out.tokens.assign(encoding.ids.begin(), encoding.ids.end());
  return out;
}

void say_what_was_lost(const std::string& verb, const std::string& where, const tokenizer::Encoding& encoding) {
  if (encoding.replaced > 0) say(fmt::format("zeroulp {}: {}: {} invalid UTF-8 sequences were read as U+FFFD", verb, where, encoding.replaced));
  if (encoding.left_out > 0)
    say(fmt::format("zeroulp {}: {}: {} bytes have no token in this vocabulary and were left out", verb, where, encoding.left_out));
}

}  // namespace zeroulp::cli
