#include "tokenizer/pretokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace zeroulp::tokenizer {
namespace {

using Pieces = std::vector<std::string>;

Pieces cut(PreTokenizer kind, std::string_view text) {
  std::vector<std::string_view> pieces;
  pre_tokenize(kind, text, pieces);
  return {pieces.begin(), pieces.end()};
}

// Fault: combining marks counted as letters. A mark is none, but may be the one character before the next run of letters.
TEST(PreTokenize, CombiningMarksAreNoLetters) {
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "\u0915\u093f\u0924\u093e\u092c"), (Pieces{"\u0915", "\u093f\u0924", "\u093e\u092c"}));
}

// Fault: NEL and the thin spaces taken for punctuation.
TEST(PreTokenize, SpaceIsUnicodeWhiteSpace) {
  for (const char* space : {"\x0B", "\u0085", "\u00A0", "\u1680", "\u2009", "\u2028", "\u3000"})
    EXPECT_EQ(cut(PreTokenizer::kQwen2, std::string("!") + space).size(), 2u) << space;
  for (const char* other : {"\x1C", "\u180E", "\u200B", "\uFEFF"})
    EXPECT_EQ(cut(PreTokenizer::kQwen2, std::string("!") + other).size(), 1u) << other;
}

// Fault: a run of spaces before a word eaten whole; its last space belongs to the word.
TEST(PreTokenize, TheLastSpaceOfARunBelongsToTheWord) {
  for (PreTokenizer kind : {PreTokenizer::kGpt2, PreTokenizer::kQwen2, PreTokenizer::kLlama3, PreTokenizer::kSmolLm2})
    EXPECT_EQ(cut(kind, "a  b"), (Pieces{"a", " ", " b"})) << name_of(kind);
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "a\n\nb"), (Pieces{"a", "\n\n", "b"}));
  EXPECT_EQ(cut(PreTokenizer::kGpt2, "a\n\nb"), (Pieces{"a", "\n", "\n", "b"}));
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "a   "), (Pieces{"a", "   "})) << "nothing follows: one run";
}

// Fault: digits grouped by another family's rule.
TEST(PreTokenize, DigitsAreGroupedByFamily) {
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "12345").size(), 5u);
  EXPECT_EQ(cut(PreTokenizer::kLlama3, "12345"), (Pieces{"123", "45"}));
  EXPECT_EQ(cut(PreTokenizer::kLlama3, "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(cut(PreTokenizer::kSmolLm2, "12345").size(), 5u);
  EXPECT_EQ(cut(PreTokenizer::kGpt2, " 12345"), (Pieces{" 12345"}));
  EXPECT_EQ(cut(PreTokenizer::kSmolLm2, "a 12"), (Pieces{"a", " ", "1", "2"})) << "the space stays apart";
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "x\u00b2\u00bd").size(), 3u) << "superscripts and fractions are numbers too";
}

// Fault: contractions matched by the wrong case rule; the long s folds to s.
TEST(PreTokenize, ContractionsFoldCaseWhereTheExpressionSaysSo) {
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "I'M I'\u017f"), (Pieces{"I", "'M", " I", "'\u017f"}));
  EXPECT_EQ(cut(PreTokenizer::kSmolLm2, "I'M"), (Pieces{"I", "'", "M"}));
  EXPECT_EQ(cut(PreTokenizer::kLlama3, "WE'LL'Re'vE'd"), (Pieces{"WE", "'LL", "'Re", "'vE", "'d"}));
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "'sun"), (Pieces{"'s", "un"})) << "a contraction even at the start of a word";
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "'lx"), (Pieces{"'lx"}));
}

TEST(PreTokenize, NewlinesAfterPunctuationAndInSpace) {
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "x;\r\n\ny"), (Pieces{"x", ";\r\n\n", "y"}));
  EXPECT_EQ(cut(PreTokenizer::kQwen2, " \n \n  y"), (Pieces{" \n \n", " ", " y"}));
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "\ny"), (Pieces{"\n", "y"})) << "a newline is no prefix of a word";
  EXPECT_EQ(cut(PreTokenizer::kQwen2, "\ty"), (Pieces{"\ty"})) << "a tab is";
  EXPECT_EQ(cut(PreTokenizer::kGpt2, "\ty"), (Pieces{"\t", "y"}));
}

TEST(PreTokenize, PiecesAreTheWholeText) {
  for (PreTokenizer kind : {PreTokenizer::kGpt2, PreTokenizer::kQwen2, PreTokenizer::kLlama3, PreTokenizer::kSmolLm2}) {
    EXPECT_TRUE(cut(kind, "").empty());
    uint64_t state = 1;
    std::string text;
    for (int i = 0; i < 20000; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      static const char* const kParts[] = {" ", "  ", "\n", "\r\n", "a", "Z", "'", "'s", "9", "\u00bd", "!", "\u3000", "\u0915", "\u093f", "\U0001F600"};
      text += kParts[(state >> 33) % std::size(kParts)];
    }
    std::string joined;
    for (const std::string& p : cut(kind, text)) {
      EXPECT_FALSE(p.empty());
      joined += p;
    }
    EXPECT_EQ(joined, text);
  }
}

// Fault: a neighbouring family's expression taken for the known one.
TEST(PreTokenize, OnlyKnownExpressionsAreNamed) {
  EXPECT_EQ(pre_tokenizer_of_pattern(R"(\p{L}+)"), std::nullopt);
  EXPECT_EQ(pre_tokenizer_of_pattern(""), std::nullopt);
  EXPECT_EQ(
      pre_tokenizer_of_pattern(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
      std::nullopt);
}

}  // namespace
}  // namespace zeroulp::tokenizer
