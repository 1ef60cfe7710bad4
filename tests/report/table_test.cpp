#include "report/table.h"

#include <gtest/gtest.h>

namespace zeroulp::report {
namespace {

TEST(Table, TextIsAlignedMarkdown) {
  Table table({{"kernel"}, {"tokens", Align::kRight}});
  table.row({"reference", "12"});
  table.row({Cell("avx2", Tone::kGood), "1,024"});
  EXPECT_EQ(table.text(),
            "| kernel    | tokens |\n"
            "|:----------|-------:|\n"
            "| reference |     12 |\n"
            "| avx2      |  1,024 |\n");
}

TEST(Table, WideAndCombiningCharactersKeepTheColumnsStraight) {
  Table table({{"text"}, {"n", Align::kRight}});
  table.row({"\u6f22\u5b57", "1"});
  table.row({"e\u0301", "22"});
  table.row({"abcd", "3"});
  EXPECT_EQ(table.text(),
            "| text |  n |\n"
            "|:-----|---:|\n"
            "| \u6f22\u5b57 |  1 |\n"
            "| e\u0301    | 22 |\n"
            "| abcd |  3 |\n");
}

TEST(Table, CellsCannotBreakRowsOrColumns) {
  Table table({{"a|b"}});
  table.row({"x\n| y\tz"});
  EXPECT_EQ(table.text(),
            "| a\\|b     |\n"
            "|:---------|\n"
            "| x \\| y z |\n");
}

TEST(Table, AnEmptyTableStillHasItsHead) { EXPECT_EQ(Table({{""}, {"n", Align::kRight}}).text(), "|   | n |\n|:--|--:|\n"); }

}  // namespace
}  // namespace zeroulp::report
