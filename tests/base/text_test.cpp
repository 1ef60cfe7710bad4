#include "base/text.h"

#include <gtest/gtest.h>

namespace zeroulp {
namespace {

TEST(Text, QuotedStaysOnOneLineAndIsCut) {
  EXPECT_EQ(in_quotes("a\tb\"\\\xc3\xa9\xff\xc2\x9b"), "\"a\\x09b\\\"\\\\\xc3\xa9\\xff\\u009b\"");
  EXPECT_EQ(in_quotes(std::string(200, 'a'), 3), "\"aaa...\" (200 bytes)");
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xf8\x88\x80\x80\x80"})
    EXPECT_FALSE(is_utf8(bad)) << in_quotes(bad);
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf\xed\x9f\xbf\xe0\xa0\x80"));
}

TEST(Text, OnOneLineNothingSteersATerminal) {
  EXPECT_EQ(on_one_line("a \"b\" \\ \xc3\xa9 \xe2\x82\xac"), "a \"b\" \\ \xc3\xa9 \xe2\x82\xac") << "what is harmless stays";
  EXPECT_EQ(on_one_line("x\x1b[2J\r\ny\x7f\xc2\x9b\xff"), "x\\x1b[2J\\x0d\\x0ay\\x7f\\u009b\\xff");
  EXPECT_EQ(on_one_line("\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x80\xaf"), "\\u2028|\\u202e|\\u2066|\xe2\x80\xaf");
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const char c : on_one_line(all)) EXPECT_TRUE(static_cast<uint8_t>(c) >= 0x20 && static_cast<uint8_t>(c) < 0x7f) << static_cast<int>(c);
}

}  // namespace
}  // namespace zeroulp
