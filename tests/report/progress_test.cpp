#include "report/progress.h"

#include <gtest/gtest.h>

#include "report/text.h"

namespace zeroulp::report {
namespace {

TEST(Progress, TheLineShowsShareRateAndTimeLeft) {
  EXPECT_EQ(progress_line("quantize", 30, 120, "layers", 10, "q_proj", 200),
            "quantize [#####...............] 30/120 layers, 3.00/s, 30.0 s left  q_proj");
  EXPECT_EQ(progress_line("read", 1 << 20, 1 << 22, "B", 1, "", 200),
            "read [#####...............] 1.00 MiB/4.00 MiB, 1.00 MiB/s, 3.0 s left");
}

TEST(Progress, NothingIsPromisedWithoutATotalOrAtTheVeryStart) {
  EXPECT_EQ(progress_line("tokens", 7, 0, "", 2, "", 200), "tokens 7, 3.50/s");
  EXPECT_EQ(progress_line("tokens", 0, 10, "", 0, "", 200), "tokens [....................] 0/10");
  EXPECT_EQ(progress_line("tokens", 10, 10, "", 5, "", 200), "tokens [####################] 10/10, 2.00/s");
  EXPECT_EQ(progress_line("tokens", 12, 10, "", 0.1, "", 200), "tokens [####################] 10/10") << "never beyond the end";
}

TEST(Progress, TheLineNeverWraps) {
  for (int width = 1; width < 100; ++width)
    EXPECT_LE(display_width(progress_line("a rather long label", 3, 9, "things", 3, "and a detail \u6f22\u5b57", width)),
              width);
}

TEST(Progress, OffATerminalItIsSilent) {
  testing::internal::CaptureStderr();
  {
    Progress progress("quiet", 10);
    for (int i = 0; i < 10; ++i) progress.advance();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace zeroulp::report
