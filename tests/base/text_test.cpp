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

}  // namespace
}  // namespace zeroulp
