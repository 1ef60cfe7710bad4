#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace zeroulp {
namespace {

Result<std::unique_ptr<int>> make(bool good) {
  if (!good) return bad_input("no");
  return std::make_unique<int>(7);
}

Result<int> use(bool good) {
  ZU_TRY_ASSIGN(const std::unique_ptr<int> p, make(good));
  return *p;
}

Status chain(bool good) {
  ZU_TRY(use(good));
  return {};
}

TEST(Result, ErrorsPassThroughBothMacros) {
  EXPECT_EQ(*use(true), 7);
  ASSERT_FALSE(use(false));
  EXPECT_EQ(chain(false).error().text, "no");
  EXPECT_EQ(chain(false).error().code, ExitCode::kBadInput);
  EXPECT_TRUE(chain(true));
}

}  // namespace
}  // namespace zeroulp
