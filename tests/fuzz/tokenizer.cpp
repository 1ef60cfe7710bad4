// A tokenizer.json and a text, split at the first zero byte: what is accepted encodes any text to ids that decode without error.
#include "tokenizer/tokenizer.h"

#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t cut = all.find('\0');
  zeroulp::tokenizer::TokenizerFiles files;
  files.tokenizer_json = all.substr(0, cut);
  const auto tokenizer = zeroulp::tokenizer::Tokenizer::from_files(files, "fuzz");
  if (!tokenizer) {
    ZU_CHECK(!tokenizer.error().text.empty());
    return 0;
  }
  const std::string_view text = cut == all.npos ? std::string_view() : all.substr(cut + 1);
  for (const bool special : {true, false}) {
    const auto encoding = tokenizer->encode(text, {.add_special = special, .parse_special = special});
    ZU_CHECK(encoding.ids.size() <= text.size() + tokenizer->prefix().size() + tokenizer->suffix().size());
    ZU_CHECK(tokenizer->decode(encoding.ids).has_value());
  }
  return 0;
}
