#include "io/fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace zeroulp::io {
namespace {

TEST(Fields, WhatIsNoObjectIsRefused) {
  for (const char* text : {"null", "[]", "3", "\"x\""}) {
    const Json json = Json::parse(text);
    const auto fields = Fields::of(json, "f.json");
    ASSERT_FALSE(fields) << text;
    EXPECT_EQ(fields.error().text, std::string("f.json: ") + text + " is not a JSON object");
  }
}

TEST(Fields, EveryErrorNamesFileKeyValueAndType) {
  const Json json = Json::parse(R"({"a": 9.5, "b": "x", "c": {"d": [1, 2, 3.0]}, "e": 18446744073709551615, "n": null, "s": [1]})");
  const Fields f = *Fields::of(json, "f.json");
  EXPECT_EQ(f.integer("a", 1, 10).error().text, "f.json: a: 9.5 is not an integer from 1 to 10");
  EXPECT_EQ(f.integer("b", 1, 10).error().text, "f.json: b: \"x\" is not an integer from 1 to 10");
  EXPECT_EQ(f.integer("e", -1, INT64_MAX).error().text, "f.json: e: 18446744073709551615 is not an integer from -1 to 9223372036854775807");
  EXPECT_EQ(f.integer("n", 1, 10).error().text, "f.json: n: is missing");
  EXPECT_EQ(f.boolean("a").error().text, "f.json: a: 9.5 is not true or false");
  EXPECT_EQ(f.string("a").error().text, "f.json: a: 9.5 is not a string");
  EXPECT_EQ(f.positive("b", 2).error().text, "f.json: b: \"x\" is not a number above 0 and at most 2");
  EXPECT_EQ(f.object("b").error().text, "f.json: b: \"x\" is not a JSON object");
  EXPECT_EQ(f.array("b").error().text, "f.json: b: \"x\" is not an array");
  EXPECT_EQ(f.object("c")->integers("d", 0, 9).error().text, "f.json: c: d: 3.0 is not an integer from 0 to 9 (item 2 of the array)");
  EXPECT_EQ(f.strings("s").error().text, "f.json: s: its item 0, 1, is not a string");
  EXPECT_EQ(f.number("a", 0, 1).error().text, "f.json: a: 9.5 is not a number from 0 to 1");
  EXPECT_EQ(f.uint64("b").error().text, "f.json: b: \"x\" is not a number from 0 to 2^64 - 1 in a string");
  EXPECT_EQ(f.error("a", "no").code, ExitCode::kBadInput);
}

TEST(Fields, WhatFitsIsGiven) {
  const Json json = Json::parse(R"({"i": -3, "d": 2.5, "t": true, "s": "x", "o": {}, "l": [1, 2], "n": null, "u": "18446744073709551615"})");
  const Fields f = *Fields::of(json, "f");
  EXPECT_EQ(*f.integer("i", -3, -3), -3);
  EXPECT_EQ(*f.integer_or("n", 7, 0, 9), 7);
  EXPECT_EQ(*f.positive("d", 2.5), 2.5);
  EXPECT_EQ(*f.number("d", 2.5, 2.5), 2.5);
  EXPECT_EQ(*f.uint64("u"), UINT64_MAX);
  EXPECT_TRUE(*f.boolean("t"));
  EXPECT_EQ(*f.string("s"), "x");
  EXPECT_TRUE(f.object("o"));
  EXPECT_EQ(*f.integers("l", 1, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(f.has("n"));
  EXPECT_FALSE(f.has("absent"));
}

TEST(Fields, LongValuesAreCut) { EXPECT_EQ(shown(Json(std::string(500, 'x'))).size(), 60u); }

}  // namespace
}  // namespace zeroulp::io
