#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "small_tokenizer.h"

namespace zeroulp::tokenizer {
namespace {

TEST(Bpe, LowestRankFirstThenLeftmost) {
  const Tokenizer t = make(small_json({{"a", "b"}, {"b", "c"}, {"a", "a"}}));
  EXPECT_EQ(t.encode("abc").ids, (Ids{256, 'c'}));
  EXPECT_EQ(t.encode("bc").ids, (Ids{257}));
  EXPECT_EQ(t.encode("aaaaa").ids, (Ids{258, 258, 'a'})) << "equal ranks: leftmost first";
}

TEST(Bpe, BothSpellingsOfMerges) {
  Json json = small_json({{"a", "b"}, {"ab", "c"}});
  const Ids pairs = make(json).encode("abc abcab").ids;
  json["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  EXPECT_EQ(make(json).encode("abc abcab").ids, pairs);
  for (const char* bad : {"ab", "a b c", "", "a  b"}) {
    json["model"]["merges"] = {"a b", bad};
    EXPECT_NE(refusal(json).find("model.merges[1]"), std::string::npos) << bad << ": " << refusal(json);
  }
  json["model"]["merges"] = {"a zz"};
  EXPECT_NE(refusal(json).find("needs the token \"zz\""), std::string::npos) << refusal(json);
}

// Fault: a word in the vocabulary that no merge reaches was split, or was one token where the flag is off.
TEST(Bpe, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  Json json = small_json({{"a", "b"}});
  json["model"]["vocab"]["abc"] = 257;
  EXPECT_EQ(make(json).encode("abc").ids, (Ids{256, 'c'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(json).encode("abc").ids, (Ids{257}));
  EXPECT_EQ(make(json).encode("abcd").ids, (Ids{256, 'c', 'd'})) << "whole pieces only";
}

TEST(Bpe, BytesWithoutATokenAreLeftOutAndCounted) {
  Json json = small_json({{"a", "b"}});
  json["model"]["vocab"].erase(spell_bytes("\x01"));
  json["model"]["vocab"].erase(spell_bytes("!"));
  const Encoding e = make(json).encode("a!b \x01");
  EXPECT_EQ(e.ids, (Ids{'a', 'b', ' '}));
  EXPECT_EQ(e.left_out, 2u);
  json["model"]["unk_token"] = "b";
  EXPECT_EQ(make(json).encode("a!!c").ids, (Ids{'a', 'b', 'b', 'c'}));
  json["model"]["unk_token"] = "nix";
  EXPECT_NE(refusal(json).find("unk_token"), std::string::npos);
}

TEST(Bpe, OneMegabyteInOnePieceIsNotQuadratic) {
  const Tokenizer t = make(small_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"b", "a"}}));
  const Encoding e = t.encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(e.ids.size(), (1u << 20) / 8);
  EXPECT_EQ(t.encode(std::string(1 << 20, ' ')).ids.size(), 1u << 20);
}

// Fault: the lowest id, or the first in the list, beat the longest.
TEST(AddedTokens, LeftmostThenLongest) {
  Json json = small_json();
  const uint32_t image = add_token(json, "<image>"), tail = add_token(json, "<image>tail"), shifted = add_token(json, "image>t");
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("<image>tail").ids, (Ids{tail}));
  EXPECT_EQ(t.encode("<image>tai").ids, (Ids{image, 't', 'a', 'i'}));
  EXPECT_EQ(t.encode("image>t").ids, (Ids{shifted}));
  EXPECT_EQ(t.encode("<image><image>").ids, (Ids{image, image}));
}

// Fault: rstrip and lstrip used as a condition; they only widen a match.
TEST(AddedTokens, StripFlagsWidenAMatch) {
  Json json = small_json();
  const uint32_t r = add_token(json, "<|r|>", {{"rstrip", true}}), l = add_token(json, "<|l|>", {{"lstrip", true}});
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("<|r|>Hi").ids, (Ids{r, 'H', 'i'}));
  EXPECT_EQ(t.encode("<|r|> \n\u3000Hi").ids, (Ids{r, 'H', 'i'}));
  EXPECT_EQ(t.encode("x \t<|l|> y").ids, (Ids{'x', l, ' ', 'y'}));
  EXPECT_EQ(t.encode("<|r|>  <|l|>").ids, (Ids{r, l})) << "white space between goes once";
}

TEST(AddedTokens, SingleWord) {
  Json json = small_json();
  const uint32_t w = add_token(json, "ab", {{"single_word", true}});
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("ab").ids, (Ids{w}));
  EXPECT_EQ(t.encode("-ab-").ids, (Ids{'-', w, '-'}));
  EXPECT_EQ(t.encode("xab").ids, (Ids{'x', 'a', 'b'}));
  EXPECT_EQ(t.encode("ab_").ids, (Ids{'a', 'b', '_'}));
  EXPECT_EQ(t.encode("ab\u0301").ids.size(), 4u) << "a mark is a word character";
}

// Fault: a token looked for after normalising although normalized is false, or the other way round.
TEST(AddedTokens, NormalizedTokensAreFoundInNormalizedText) {
  Json json = small_json();
  json["normalizer"] = {{"type", "NFC"}};
  const uint32_t raw = add_token(json, "e\u0301x"), normal = add_token(json, "o\u0301x", {{"normalized", true}});
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("e\u0301x").ids, (Ids{raw}));
  EXPECT_EQ(t.encode("\u00e9x").ids.size(), 3u);
  EXPECT_EQ(t.encode("o\u0301x").ids, (Ids{normal}));
  EXPECT_EQ(t.encode("\u00f3x").ids, (Ids{normal}));
  EXPECT_EQ(*t.decode(Ids{raw}), "e\u0301x");
}

TEST(AddedTokens, IdsThatTheVocabularyContradictsAreRefused) {
  Json json = small_json();
  add_token(json, "<x>");
  json["added_tokens"][0]["id"] = 300;
  EXPECT_NE(refusal(json).find("its place in the vocabulary gives 256"), std::string::npos) << refusal(json);
  json["added_tokens"][0]["id"] = 256;
  json["added_tokens"].push_back(json["added_tokens"][0]);
  EXPECT_NE(refusal(json).find("repeats"), std::string::npos) << refusal(json);
}

// Fault: "<|im_end|>" in a user's text became control.
TEST(SpecialText, IsPlainTextOnRequest) {
  Json json = small_json();
  const uint32_t end = add_token(json, "<|im_end|>"), call = add_token(json, "<tool_call>", {{"special", false}});
  const Tokenizer t = make(json);
  EXPECT_EQ(t.encode("a<|im_end|>").ids, (Ids{'a', end}));
  EXPECT_EQ(t.encode("a<|im_end|>", {.parse_special = false}).ids.size(), 11u);
  EXPECT_EQ(t.encode("<tool_call>", {.parse_special = false}).ids, (Ids{call})) << "not special: a token all the same";
  EXPECT_EQ(*t.decode(Ids{'a', end, call}, {.skip_special = true}), "a<tool_call>");
}

TEST(SpecialText, OnlyTemplateTextYieldsControlInAPrompt) {
  Json json = small_json();
  const uint32_t start = add_token(json, "<s>"), longer = add_token(json, "<s>tail");
  const Tokenizer t = make(json);
  const auto encode = [&](std::string text, std::vector<ByteSpan> content) {
    return t.encode(ChatPrompt{std::move(text), std::move(content)}).ids;
  };
  EXPECT_EQ(encode("<s>tail", {}), (Ids{longer}));
  EXPECT_EQ(encode("<s>tail", {{3, 7}}), (Ids{start, 't', 'a', 'i', 'l'})) << "the longer token would reach into content";
  EXPECT_EQ(encode("<s><s>", {{3, 6}}), (Ids{start, '<', 's', '>'}));
  EXPECT_EQ(encode("<s><s>", {{0, 3}}), (Ids{'<', 's', '>', start}));
  EXPECT_EQ(encode("<s<s>", {{0, 2}}), (Ids{'<', 's', start})) << "content that starts a token's text must not hide the next one";
  EXPECT_EQ(encode("<s>", {{1, 2}}), (Ids{'<', 's', '>'})) << "a token's text put together from both";
}

TEST(SpecialText, PromptSpansFollowNormalisation) {
  Json json = small_json();
  json["normalizer"] = {{"type", "NFC"}};
  const uint32_t token = add_token(json, "<s>", {{"normalized", true}});
  const Tokenizer t = make(json);
  const std::string text = "e\u0301e\u0301<s><s>";
  EXPECT_EQ(t.encode(ChatPrompt{text, {{6, 9}}}).ids, (Ids{0xC3, 0xA9, 0xC3, 0xA9, '<', 's', '>', token}));
  EXPECT_EQ(t.encode(ChatPrompt{text, {{0, 6}}}).ids, (Ids{0xC3, 0xA9, 0xC3, 0xA9, token, token}));
}

TEST(PostProcessor, Llama3PutsBeginOfTextBefore) {
  Json json = small_json();
  json["pre_tokenizer"] = split_by(kLlama3Regex);
  const uint32_t bos = add_token(json, "<|begin_of_text|>");
  json["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}},
        {{"type", "TemplateProcessing"},
         {"single", {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
         {"pair", Json::array()},
         {"special_tokens",
          {{"<|begin_of_text|>", {{"id", "<|begin_of_text|>"}, {"ids", {bos}}, {"tokens", {"<|begin_of_text|>"}}}}}}}}}};
  const Tokenizer t = make(json, {{"bos_token", "<|begin_of_text|>"}, {"eos_token", {{"content", "!"}}}});
  EXPECT_EQ(t.encode("a").ids, (Ids{bos, 'a'}));
  EXPECT_EQ(t.encode("").ids, (Ids{bos}));
  EXPECT_EQ(t.encode("a", {.add_special = false}).ids, (Ids{'a'}));
  EXPECT_EQ(t.bos(), bos);
  EXPECT_EQ(t.eos(), uint32_t{'!'});
  json["post_processor"]["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = {4000};
  EXPECT_NE(refusal(json).find("adds the id 4000"), std::string::npos) << refusal(json);
}

// Fault: each token decoded alone, so that a character in three tokens came out as three U+FFFD.
TEST(Decode, StreamHoldsBackPartsOfACharacter) {
  const Tokenizer t = make(small_json());
  DecodeStream stream(t);
  EXPECT_EQ(*stream.push(0xE2), "");
  EXPECT_EQ(*stream.push(0x82), "");
  EXPECT_EQ(*stream.push(0xAC), "\u20AC");
  EXPECT_EQ(*stream.push(0xF0), "");
  EXPECT_EQ(*stream.push('a'), "\uFFFDa");
  EXPECT_EQ(*stream.push(0xE2), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Decode, StreamGivesWhatDecodeGives) {
  Json json = small_json();
  const uint32_t special = add_token(json, "<s>");
  const Tokenizer t = make(json);
  uint64_t state = 7;
  for (int round = 0; round < 2000; ++round) {
    Ids ids;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      static const uint32_t kBytes[] = {'a', 0x80, 0x9F, 0xA0, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xC0, 0};
      const size_t pick = (state >> 33) % std::size(kBytes);
      ids.push_back(kBytes[pick] == 0 ? special : kBytes[pick]);
    }
    for (bool skip : {false, true}) {
      DecodeStream stream(t, {.skip_special = skip});
      std::string text;
      for (uint32_t id : ids) text += *stream.push(id);
      EXPECT_EQ(text + stream.finish(), *t.decode(ids, {.skip_special = skip}));
    }
  }
}

// Fault: the clean-up flag ate spaces before punctuation and quotes.
TEST(Decode, CleanUpNeverEatsSpaces) {
  const Tokenizer t = make(small_json(), {{"clean_up_tokenization_spaces", true}});
  EXPECT_EQ(*t.decode(t.encode("x != y 'm'").ids), "x != y 'm'");
  EXPECT_EQ(*t.decode(t.encode(" a , b . c ? do n't").ids), " a , b . c ? do n't");
}

// Fault: an id beyond the vocabulary read out of bounds, or a padded row aborted.
TEST(Decode, PaddedRowsAreNoTextAndIdsBeyondAreErrors) {
  const Tokenizer t = make(small_json());
  EXPECT_EQ(t.size(), 256u);
  EXPECT_EQ(*t.decode(Ids{'a', 260, 'b'}, {}, 272), "ab");
  EXPECT_NE(t.decode(Ids{272}, {}, 272).error().text.find("no token 272"), std::string::npos);
  EXPECT_FALSE(t.decode(Ids{256}));
  EXPECT_FALSE(t.decode(Ids{UINT32_MAX}));
  EXPECT_EQ(t.token_bytes(UINT32_MAX), "");
}

TEST(InvalidUtf8, EachMaximalSubpartBecomesOneReplacement) {
  const Tokenizer t = make(small_json());
  const auto text = [&](std::string_view bytes, uint64_t replaced) {
    const Encoding e = t.encode(bytes);
    EXPECT_EQ(e.replaced, replaced);
    return *t.decode(e.ids);
  };
  EXPECT_EQ(text("a\xFFz", 1), "a\uFFFDz");
  EXPECT_EQ(text("\xE2\x82", 1), "\uFFFD");
  EXPECT_EQ(text("\xE2\x82\xE2\x82\xAC", 1), "\uFFFD\u20AC");
  EXPECT_EQ(text("\xC0\xAF", 2), "\uFFFD\uFFFD") << "overlong";
  EXPECT_EQ(text("\xED\xA0\x80", 3), "\uFFFD\uFFFD\uFFFD") << "surrogate";
  EXPECT_EQ(text("\xF4\x90\x80\x80", 4), "\uFFFD\uFFFD\uFFFD\uFFFD") << "above U+10FFFF";
  EXPECT_EQ(text("\xF0\x9F\x98", 1), "\uFFFD");
}

TEST(Load, WhatIsNotModelledIsRefusedByName) {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = small_json();
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  const auto names = [](const std::string& text, const char* what) { EXPECT_NE(text.find(what), std::string::npos) << text; };
  names(with("/model/dropout", 0.1), "model.dropout is 0.1");
  names(with("/model/byte_fallback", true), "model.byte_fallback is true");
  names(with("/model/fuse_unk", true), "model.fuse_unk");
  names(with("/model/continuing_subword_prefix", "##"), "model.continuing_subword_prefix");
  names(with("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix");
  names(with("/model/type", "Unigram"), "model.type is \"Unigram\"");
  names(with("/model/ignore_merges", 1), "not a boolean");
  names(with("/model/vocab", Json::object()), "model.vocab");
  names(with("/model/vocab/zz", -1), "not a token id");
  names(with("/model/vocab/zz", 1ull << 40), "not a token id");
  names(with("/model/vocab/zz", 3), "to two tokens");
  names(with("/normalizer", {{"type", "NFKC"}}), "normalizer is {\"type\":\"NFKC\"}; zeroulp knows none and NFC");
  names(with("/pre_tokenizer", nullptr), "pre_tokenizer is null");
  names(with("/pre_tokenizer/add_prefix_space", true), "add_prefix_space is true");
  names(with("/pre_tokenizer/use_regex", false), "use_regex is false");
  names(with("/pre_tokenizer", split_by("\\p{L}+")), "Split pattern");
  names(with("/pre_tokenizer", {{"type", "Metaspace"}}), "Metaspace");
  names(with("/post_processor", {{"type", "RobertaProcessing"}}), "RobertaProcessing");
  names(with("/decoder", {{"type", "WordPiece"}}), "decoder");
  names(with("/added_tokens", 3), "added_tokens");
  EXPECT_EQ(refusal(small_json()), "accepted");
  EXPECT_EQ(with("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}}), "accepted");
}

}  // namespace
}  // namespace zeroulp::tokenizer
