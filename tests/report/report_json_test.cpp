#include "report/json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"

namespace zeroulp::report {
namespace {

TEST(ReportJson, KeysAreSortedAndShortContainersStayOnOneLine) {
  const Json value = {{"b", {1, 2, 3}}, {"a", {{"y", true}, {"x", nullptr}}}, {"runs", {{{"digest", "ab"}, {"threads", 2}}}}};
  EXPECT_EQ(json_text(value),
            "{\n"
            "  \"a\": {\"x\": null, \"y\": true},\n"
            "  \"b\": [1, 2, 3],\n"
            "  \"runs\": [{\"digest\": \"ab\", \"threads\": 2}]\n"
            "}\n");
}

TEST(ReportJson, ListsOfRecordsHaveARecordPerLine) {
  Json value;
  for (int i = 0; i < 8; ++i) value["runs"].push_back({{"digest", "9f31c2aa07d4"}, {"threads", i}});
  const std::string text = json_text(value);
  EXPECT_EQ(text.rfind("{\n  \"runs\": [\n    {\"digest\": \"9f31c2aa07d4\", \"threads\": 0},\n", 0), 0u) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
  EXPECT_EQ(json_text(Json::object()), "{\n}\n");
  EXPECT_EQ(json_text(Json::array({1, 2})), "[1, 2]\n");
}

TEST(ReportJson, FloatsAreShortestAndReadBackEqual) {
  for (const double v : {0.1, 1.0 / 3, 1e300, 5e-324, -0.0, 2.5, 1e22, 123456789.0}) {
    const std::string text = json_text(v);
    EXPECT_EQ(Json::parse(text).get<double>(), v) << text;
    EXPECT_TRUE(Json::parse(text).is_number_float()) << text;
  }
  EXPECT_EQ(json_text(0.1), "0.1\n");
  EXPECT_EQ(json_text(2.0), "2.0\n");
  EXPECT_EQ(json_text({{"v", NAN}, {"w", -INFINITY}}), "{\n  \"v\": \"nan\",\n  \"w\": \"-inf\"\n}\n");
}

TEST(ReportJson, TextReadsBackAsTheSameValue) {
  Json value;
  value["nested"] = {{"empty", Json::object()}, {"none", Json::array()}, {"deep", {{{"a", {1, {2, 3}}}}}}};
  value["text"] = "line\n\"quoted\" \u00e9 \\";
  for (int i = 0; i < 40; ++i) value["long"]["key" + std::to_string(i)] = i;
  EXPECT_EQ(Json::parse(json_text(value)), value);
}

TEST(ReportJson, BytesThatAreNotUtf8DoNotEndTheReport) {
  EXPECT_EQ(json_text({{"name", "a\xff"}}), "{\n  \"name\": \"a\uFFFD\"\n}\n");
}

TEST(ReportJson, TheEnvelopeNamesProgramAndMachineAndOnlyVolatileVaries) {
  Report report("verify");
  report.body["runs"] = 40;
  Json one = report.finished(), two = report.finished();
  EXPECT_EQ(one["schema"], "zeroulp.verify/1");
  for (const char* key : {"version", "commit", "compiler"}) EXPECT_FALSE(one["zeroulp"][key].get<std::string>().empty()) << key;
  EXPECT_TRUE(one["machine"].contains("cpu"));
  EXPECT_EQ(one["volatile"]["time"].get<std::string>().size(), std::string("2026-01-02T03:04:05Z").size());
  EXPECT_GE(one["volatile"]["elapsed_s"].get<double>(), 0);
  one.erase("volatile");
  two.erase("volatile");
  EXPECT_EQ(json_text(one), json_text(two));
  EXPECT_EQ(one, report.body);
}

TEST(ReportJson, FilesAreNotOverwrittenWithoutForce) {
  const auto path = std::filesystem::temp_directory_path() / ("zeroulp_report_" + std::to_string(::getpid()) + ".json");
  ASSERT_TRUE(write_output(path.string(), "one", false));
  EXPECT_FALSE(write_output(path.string(), "two", false));
  EXPECT_EQ(*read_text_file(path, 100), "one");
  ASSERT_TRUE(write_output(path.string(), "two", true));
  EXPECT_EQ(*read_text_file(path, 100), "two");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace zeroulp::report
