#include "io/json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace zeroulp::io {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  auto r = parse_json(text, "t", limits);
  return r ? "" : r.error().text;
}

TEST(Json, DuplicateKeysAreRefusedAtEveryDepth) {
  EXPECT_EQ(error_of(R"({"a":1,"b":{"a":1}})"), "");
  EXPECT_NE(error_of(R"({"a":1,"a":1})").find("\"a\" stands twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"x":[{"a":1,"b":[],"a":2}]})").find("\"a\" stands twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"a":1,"\u0061":2})").find("\"a\" stands twice"), std::string::npos) << "escaped spelling of one key";
}

TEST(Json, MalformedTextNamesTheByte) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\\ud800\"", "\"\xff\"", "[NaN]", "'a'"})
    EXPECT_NE(error_of(text).find("byte"), std::string::npos) << text << " gave: " << error_of(text);
}

TEST(Json, ACutOffTextAndANumberThatDoesNotFitAreNamedAsSuch) {
  const std::string whole = R"({"a": [1.5, true, "x"]})";
  EXPECT_EQ(error_of(whole), "");
  for (size_t bytes = 1; bytes < whole.size(); ++bytes)
    EXPECT_EQ(error_of(whole.substr(0, bytes)), "t: the text ends at byte " + std::to_string(bytes) + ", before the JSON does");
  EXPECT_EQ(error_of(R"({"a": 1e999})"), "t: byte 11: the number \"1e999\" is beyond binary64");
  EXPECT_EQ(error_of(""), "t: is empty (not a byte of JSON)");
}

TEST(Json, NothingMayHideBehindAZeroByte) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"{}\0"sv, "{}\0{\"a\":1}"sv, "\0{}"sv, "[1,\0 2]"sv, "\"a\0b\""sv})
    EXPECT_NE(error_of(text).find("is zero"), std::string::npos) << error_of(text);
}

TEST(Json, DepthAndSizeAreLimited) {
  EXPECT_EQ(error_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(error_of(std::string(65, '[') + std::string(65, ']')).find("deeper"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000000, '[')).find("deeper"), std::string::npos);
  EXPECT_NE(error_of("[1,2,3]", {.max_bytes = 3}).find("limit"), std::string::npos);
}

TEST(Json, ValuesArriveAsWritten) {
  auto r = parse_json(R"({"a":[1,-2,2.5,true,null,"x",{"b":18446744073709551615}]})", "t");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->dump(), R"({"a":[1,-2,2.5,true,null,"x",{"b":18446744073709551615}]})");
}

}  // namespace
}  // namespace zeroulp::io
