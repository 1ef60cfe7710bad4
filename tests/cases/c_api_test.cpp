// The C side: a right kernel passes, a wrong one is named, what is written outside an output is found.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ops/residual/contract.h"
#include "zeroulp.h"

namespace {

enum class Fault { kNone, kWrong, kBefore, kBehind, kFails, kDeclines };

int residual(const zu_case* c, void* user) {
  const Fault fault = *static_cast<Fault*>(user);
  if (fault == Fault::kFails) return -5;
  if (fault == Fault::kDeclines) return ZU_DECLINED;
  const zu_tensor *x = zu_case_input(c, "x"), *y = zu_case_input(c, "y"), *out = zu_case_output(c, "x");
  EXPECT_NE(x, nullptr);
  EXPECT_EQ(zu_case_input(c, "z"), nullptr);
  EXPECT_EQ(x->type, ZU_BF16);
  EXPECT_EQ(zu_case_integer(c, "width", 77), 77);
  auto* to = static_cast<uint16_t*>(out->data);
  for (int64_t i = 0; i < x->shape[0]; ++i) to[i] = zeroulp::ops::residual::sum(static_cast<const uint16_t*>(x->data)[i], static_cast<const uint16_t*>(y->data)[i]);
  if (fault == Fault::kWrong && x->shape[0] > 8) to[8] ^= 1;
  if (fault == Fault::kBefore) to[-1] = 0;
  if (fault == Fault::kBehind) to[out->shape[0]] = 0;
  return ZU_DONE;
}

int check(Fault fault, zu_check_report* report) { return zu_check_op("residual", "hard,random", residual, &fault, report); }

TEST(CheckOp, ARightKernelPasses) {
  zu_check_report report;
  EXPECT_EQ(check(Fault::kNone, &report), ZU_CHECK_EQUAL) << report.text;
  EXPECT_GT(report.elements, 1000);
  EXPECT_EQ(report.first_case, -1);
  EXPECT_EQ(check(Fault::kNone, nullptr), ZU_CHECK_EQUAL);
}

TEST(CheckOp, TheFirstWrongElementIsNamed) {
  zu_check_report report;
  EXPECT_EQ(check(Fault::kWrong, &report), ZU_CHECK_DIFFERS);
  EXPECT_EQ(report.first_element, 8);
  EXPECT_STREQ(report.first_output, "x");
  EXPECT_NE(std::string(report.text).find("rule broken: docs/contract.md, section 4"), std::string::npos) << report.text;
  EXPECT_NE(std::string(report.text).find("(0x"), std::string::npos);
}

TEST(CheckOp, WritesOutsideAnOutputAreFound) {
  zu_check_report report;
  EXPECT_EQ(check(Fault::kBefore, &report), ZU_CHECK_DIFFERS);
  EXPECT_EQ(report.first_element, -1);
  EXPECT_EQ(check(Fault::kBehind, &report), ZU_CHECK_DIFFERS);
  EXPECT_GT(report.first_element, 0);
  EXPECT_NE(std::string(report.text).find("outside the output"), std::string::npos) << report.text;
}

TEST(CheckOp, NothingCheckedIsNoPass) {
  zu_check_report report;
  EXPECT_EQ(check(Fault::kDeclines, &report), ZU_CHECK_NOTHING);
  EXPECT_GT(report.declined, 0);
  EXPECT_EQ(check(Fault::kFails, &report), ZU_CHECK_KERNEL);
  EXPECT_NE(std::string(report.text).find("-5"), std::string::npos);
  Fault none = Fault::kNone;
  EXPECT_EQ(zu_check_op("residul", "hard", residual, &none, &report), ZU_CHECK_USAGE);
  EXPECT_EQ(zu_check_op("residual", "captured", residual, &none, &report), ZU_CHECK_USAGE);
  EXPECT_EQ(zu_check_op("residual", "", residual, &none, &report), ZU_CHECK_USAGE);
  EXPECT_EQ(zu_check_op("residual", "hard", nullptr, &none, &report), ZU_CHECK_USAGE);
}

}  // namespace
