#include "report/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zeroulp::report {
namespace {

TEST(Text, CountsAreGroupedByThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(491400064), "491,400,064");
  EXPECT_EQ(count_text(-999), "-999");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(count_text(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Text, BytesAndDurationsCarryTheirUnit) {
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(491400064), "468.6 MiB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "16.00 EiB");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(3.14), "3.1 s");
  EXPECT_EQ(duration_text(59.96), "1 min 00 s");
  EXPECT_EQ(duration_text(245), "4 min 05 s");
  EXPECT_EQ(duration_text(3725), "1 h 02 min");
  EXPECT_EQ(duration_text(NAN), "-");
}

TEST(Text, SignificantDigitsAreKeptAcrossSizes) {
  EXPECT_EQ(significant(0, 3), "0");
  EXPECT_EQ(significant(0.00345, 3), "0.00345");
  EXPECT_EQ(significant(12.34, 3), "12.3");
  EXPECT_EQ(significant(9.999, 3), "10.0");
  EXPECT_EQ(significant(12345, 3), "12345");
  EXPECT_EQ(significant(1.2e-9, 2), "1.2e-09");
  EXPECT_EQ(significant(-INFINITY, 3), "-inf");
  EXPECT_EQ(percent_text(1, 8), "12.5 %");
  EXPECT_EQ(percent_text(1, 0), "-");
}

TEST(Text, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("\u00e9"), 1);
  EXPECT_EQ(display_width("e\u0301"), 1) << "combining mark";
  EXPECT_EQ(display_width("\u6f22\u5b57"), 4) << "East Asian wide";
  EXPECT_EQ(display_width("\U0001F600"), 2) << "emoji";
  EXPECT_EQ(display_width("\xff\xfe"), 2) << "not UTF-8: a column per byte";
}

TEST(Text, ShortenedTextEndsInAnEllipsisAndFits) {
  EXPECT_EQ(shorten("model.layers", 12), "model.layers");
  EXPECT_EQ(shorten("model.layers", 6), "model\u2026");
  for (int width = 1; width < 12; ++width)
    EXPECT_LE(display_width(shorten("\u6f22a\u5b57e\u0301\U0001F600\xff", width)), width);
}

TEST(Text, HtmlCannotBreakOutOfTextOrAttributes) {
  EXPECT_EQ(escape_html("<script>alert('x' & \"y\")</script>"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;");
  EXPECT_EQ(escape_html("\u00e9\u6f22\n"), "\u00e9\u6f22\n");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1b\x7f", 5)), "a\uFFFDb\uFFFD\uFFFD") << "control characters";
  EXPECT_EQ(escape_html("\xc0\xbc"), "\uFFFD\uFFFD") << "an overlong '<' is two bad bytes, not a '<'";
  EXPECT_EQ(escape_html("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "surrogate";
  EXPECT_EQ(escape_html("\xe6\xbc"), "\uFFFD\uFFFD") << "cut off";
}

}  // namespace
}  // namespace zeroulp::report
