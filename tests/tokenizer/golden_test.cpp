// Ids and texts against the Python package `tokenizers`, and the Unicode tables against it over all code points.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <charconv>

#include "golden_files.h"
#include "small_tokenizer.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer {
namespace {

class Vocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = vocabulary_folder(GetParam());
    if (folder_.empty()) GTEST_SKIP() << GetParam() << " is not under models/; ./dev models puts it there";
  }
  Tokenizer load() const {
    auto t = Tokenizer::load(folder_);
    EXPECT_TRUE(t) << (t ? "" : t.error().text);
    return std::move(t).value();
  }
  std::filesystem::path folder_;
};

TEST_P(Vocabulary, EncodesAsTokenizersDoes) {
  const Tokenizer t = load();
  const auto rows = golden_rows("tokenizer/encode.jsonl.zst");
  ASSERT_GE(rows.size(), 10000u);
  int plain = 0;
  for (const OrderedJson& row : rows) {
    const auto text = row["text"].get<std::string>();
    ASSERT_EQ(t.encode(text).ids, row[GetParam()].get<Ids>()) << row["text"].dump(-1, ' ', true);
    const bool differs = row.contains("plain") && row["plain"].contains(GetParam());
    const auto& wanted = differs ? row["plain"][GetParam()] : row[GetParam()];
    ASSERT_EQ(t.encode(text, {.parse_special = false}).ids, wanted.get<Ids>()) << row["text"].dump(-1, ' ', true);
    plain += differs ? 1 : 0;
  }
  EXPECT_GT(plain, 0) << "no row held special-token text";
}

TEST_P(Vocabulary, DecodesAsTokenizersDoes) {
  const Tokenizer t = load();
  for (const OrderedJson& row : golden_rows(fmt::format("tokenizer/decode-{}.jsonl.zst", GetParam()))) {
    const Ids ids = row["ids"].get<Ids>();
    const auto text = row["text"].get<std::string>();
    const auto skipped = row.contains("skip_special") ? row["skip_special"].get<std::string>() : text;
    const uint32_t rows = 1u << 20;  // the files hold ids of padding rows
    ASSERT_EQ(*t.decode(ids, {}, rows), text) << row.dump();
    ASSERT_EQ(*t.decode(ids, {.skip_special = true}, rows), skipped) << row.dump();
    DecodeStream stream(t, {}, rows);
    std::string streamed;
    for (uint32_t id : ids) streamed += *stream.push(id);
    ASSERT_EQ(streamed + stream.finish(), text) << row.dump();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Vocabulary, testing::Values("smollm2", "qwen2.5", "llama3-like"), [](const auto& row) {
  std::string name = row.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

TEST(AddedTokensGolden, EveryFlag) {
  const OrderedJson golden = golden_json("tokenizer/added-tokens.json");
  auto t = Tokenizer::from_files({golden["tokenizer"].dump(), "", "", ""}, "golden");
  ASSERT_TRUE(t) << t.error().text;
  for (const OrderedJson& row : golden["cases"])
    EXPECT_EQ(t->encode(row["text"].get<std::string>()).ids, row["ids"].get<Ids>()) << row.dump(-1, ' ', true);
}

std::vector<bool> members(const OrderedJson& ranges) {
  std::vector<bool> out(0x110000, false);
  const auto text = ranges.get<std::string>();
  for (size_t at = 0; at < text.size();) {
    uint32_t first = 0, last = 0;
    auto [p, e] = std::from_chars(text.data() + at, text.data() + text.size(), first, 16);
    last = first;
    if (p != text.data() + text.size() && *p == '-') p = std::from_chars(p + 1, text.data() + text.size(), last, 16).ptr;
    for (uint32_t c = first; c <= last; ++c) out[c] = true;
    at = static_cast<size_t>(p - text.data()) + 1;
  }
  return out;
}

TEST(UnicodeGolden, ClassesOfAllCodePoints) {
  const OrderedJson golden = golden_json("unicode_classes.json");
  for (const auto& [name, bit] : {std::pair{"L", kLetter}, {"N", kNumber}, {"S", kSpace}, {"digits", kDigit}, {"word", kWord}}) {
    const std::vector<bool> wanted = members(golden[name]);
    for (uint32_t c = 0; c < 0x110000; ++c)
      ASSERT_EQ((code_point_classes(c) & bit) != 0, wanted[c]) << name << " " << fmt::format("U+{:04X}", c);
  }
}

TEST(UnicodeGolden, CompositionAroundAllCodePoints) {
  const OrderedJson golden = golden_json("unicode_classes.json");
  for (const OrderedJson& row : golden["nfc_digests"]) {
    const auto form = row["form"].get<std::string>();
    const size_t place = form.find("{c}");
    ASSERT_NE(place, std::string::npos);
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> sha(EVP_MD_CTX_new(), EVP_MD_CTX_free);
    EVP_DigestInit_ex(sha.get(), EVP_sha256(), nullptr);
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text = form.substr(0, place);
      append_utf8(text, c);
      const std::string line = normalize_nfc(text + form.substr(place + 3)) + "\n";
      EVP_DigestUpdate(sha.get(), line.data(), line.size());
    }
    unsigned char digest[32];
    EVP_DigestFinal_ex(sha.get(), digest, nullptr);
    std::string hex;
    for (unsigned char b : digest) hex += fmt::format("{:02x}", b);
    EXPECT_EQ(hex, row["sha256"].get<std::string>()) << row["where"];
  }
}

// Fault: case folding by another rule than the regular expressions of `tokenizers`.
TEST(UnicodeGolden, ContractionsWithAllCodePoints) {
  const OrderedJson golden = golden_json("unicode_classes.json");
  for (const auto& [form, ranges] : golden["contractions"].items()) {
    const std::vector<bool> wanted = members(ranges);
    const size_t place = form.find("{c}");
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text = form.substr(0, place);
      append_utf8(text, c);
      text += form.substr(place + 3);
      // A contraction ends where it ends: a word would take the letter too, punctuation the line end.
      bool matches = true;
      for (const char* after : {"x", "\n"}) {
        const std::string whole = text + after;
        std::vector<std::string_view> pieces;
        pre_tokenize(PreTokenizer::kQwen2, whole, pieces);
        matches &= pieces[0] == text;
      }
      ASSERT_EQ(matches, wanted[c]) << form << " " << fmt::format("U+{:04X}", c);
    }
  }
}

}  // namespace
}  // namespace zeroulp::tokenizer
