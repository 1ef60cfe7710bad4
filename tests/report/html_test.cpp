#include "report/html.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

namespace zeroulp::report {
namespace {

// A page with everything on it, as a verify report might look. Written to the build folder too: tests/report/sample.html.
Page sample_page() {
  Page page("Is it still the same model?", "SmolLM2-135M-Instruct, profile w8a15-free");
  page.verdict(Tone::kGood, "The same bits in all 40 runs",
               "3 kernels, 9 axes, 163,840 positions compared with the reference kernel.");
  page.facts({{"runs compared", "40", "of 40 planned", Tone::kPlain},
              {"positions that differ", "0", "of 163,840", Tone::kGood},
              {"perplexity", "+0.08 %", "noise floor 0.10 %", Tone::kPlain},
              {"mean KL", "0.0061", "goal 0.0065", Tone::kPlain}});

  page.section("Digests", "Each run hashes the logits of every position. Equal hashes mean equal bits.");
  Table runs({{"kernel"}, {"threads", Align::kRight}, {"batch", Align::kRight}, {"chunk"}, {"digest"}, {"result"}});
  for (const char* kernel : {"reference", "avx2", "avx512_vnni"})
    for (const char* batch : {"1", "8"}) runs.row({kernel, "2", batch, "all", "9f31c2aa07d4", Cell("same", Tone::kGood)});
  runs.row({"amx", "2", "1", "all", "", Cell("skipped: this processor has no AMX", Tone::kMuted)});
  page.table(runs, "Runs");
  page.note(Tone::kWarn, "One variant was skipped: it cannot run on this processor.");
  page.folded_table(runs, "All runs with their digests");

  page.section("Foreign epilogues", "Two common orders of the same multiplications, on inputs captured from the model.");
  Histogram steps{"distance in bf16 spacings",
                  "elements",
                  {"arbitrary scales", "power-of-two scales"},
                  {"0", "1", "2", "3-4", "5-8", "more"},
                  {{9.1e6, 412345, 1810, 12, 1, 0}, {9513168, 0, 0, 0, 0, 0}},
                  Scale::kLog};
  page.chart(steps, "How far the two epilogues lie apart");
  DivergenceChart tokens{128, {"arbitrary scales", "power-of-two scales"}, {}};
  for (int i = 0; i < 8; ++i)
    tokens.rows.push_back({"prompt " + std::to_string(i + 1) + ": Write a short poem about rivers", {(i * 37 + 11) % 120, -1}});
  page.chart(tokens, "Where greedy generations first part");
  page.code("next: zeroulp verify models/smollm2-w8a15 --kernel avx2 --case seed:7f3a");

  page.section("Quality");
  BarChart kl{"mean KL divergence (nats)",
              {"SmolLM2", "Qwen2.5"},
              {{"w8a15-free", {0.0061, 0.0032}, {}}, {"w8a8-po2", {0.0258, 0.0121}, {}}, {"mixed widths", {0.0093, NAN}, {}}},
              {{0.0065, "goal"}}};
  page.chart(kl, "Distance from the BF16 model");
  PointChart loss{"position in the window", "mean KL",
                  Scale::kLinear,           Scale::kLog,
                  PointChart::Draw::kLine,  {{"w8a15-free", {}}, {"w8a8-po2", {}}},
                  {{0.003, "noise floor"}}};
  for (int i = 1; i <= 64; ++i) {
    loss.series[0].points.push_back({i * 16.0, 0.004 + 0.004 / i + 0.0006 * ((i * 7) % 5)});
    loss.series[1].points.push_back({i * 16.0, i == 30 ? NAN : 0.02 + 0.02 / i + 0.003 * ((i * 5) % 7)});
  }
  page.chart(loss, "By position");
  PointChart cloud = loss;
  cloud.draw = PointChart::Draw::kPoints;
  cloud.x_scale = Scale::kLog;
  page.chart(cloud, "The same as points");
  HeatMap heat{
      "layer", "linear", "KL when at 8 bits", {}, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
      {},      {},       Scale::kLog};
  for (int layer = 0; layer < 10; ++layer) {
    heat.rows.push_back(std::to_string(layer));
    auto& row = heat.values.emplace_back();
    for (int c = 0; c < 7; ++c) row.push_back(layer == 3 && c == 2 ? NAN : 1e-4 * std::pow(1.9, (layer * 3 + c * 5) % 8));
  }
  page.chart(heat, "Which linears need 15 bits");
  page.heading("What was not measured");
  page.list({"GPU kernels: none on this machine", "Windows above 1,024 tokens"});
  page.provenance(Json{{"schema", "zeroulp.verify/1"},
                       {"zeroulp", {{"version", "0.1.0"}, {"commit", "0123456789ab"}, {"compiler", "g++ 12.2.0"}}},
                       {"machine", {{"cpu", "Example CPU @ 2.0 GHz"}, {"threads", 2}}},
                       {"volatile", {{"time", "2026-01-02T03:04:05Z"}, {"elapsed_s", 241.5}}}});
  return page;
}

int count_of(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

TEST(Html, TheSameCallsGiveTheSameBytes) {
  const std::string once = sample_page().html();
  EXPECT_EQ(once, sample_page().html());
  ASSERT_TRUE(sample_page().write("sample.html", true));
}

TEST(Html, NothingIsLoadedFromElsewhereAndNothingRuns) {
  const std::string html = sample_page().html();
  for (const char* word : {"<script", "<link", "<img", "<iframe", "@import", "url(", "src=", "http:", "https:"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
}

TEST(Html, ElementsAreBalanced) {
  const std::string html = sample_page().html();
  for (const char* tag :
       {"html", "head",  "body",    "main", "section", "table", "thead", "tbody", "tr",  "td",     "th",  "figure", "svg",
        "text", "title", "details", "dl",   "div",     "p",     "ul",    "li",    "pre", "footer", "nav", "span"}) {
    const std::regex open("<" + std::string(tag) + "[ >]");
    const auto opened = std::distance(std::sregex_iterator(html.begin(), html.end(), open), std::sregex_iterator());
    EXPECT_GT(opened, 0) << tag;
    EXPECT_EQ(opened, count_of(html, "</" + std::string(tag) + ">")) << tag;
  }
}

TEST(Html, EveryTextIsEscaped) {
  const std::string evil = "<b>&\"'";
  Page page(evil, evil);
  page.verdict(Tone::kBad, evil, evil);
  page.facts({{evil, evil, evil}});
  page.section(evil, evil);
  page.heading(evil);
  page.paragraph(evil);
  page.note(Tone::kPlain, evil);
  page.list({evil});
  page.code(evil);
  Table table({{evil}});
  table.row({Cell(evil, Tone::kBad)});
  page.table(table, evil);
  page.folded_table(table, evil);
  page.chart(BarChart{evil, {evil, evil}, {{evil, {1, 2}, {evil, evil}}}, {{1, evil}}}, evil);
  page.chart(Histogram{evil, evil, {evil, evil}, {evil}, {{1}, {2}}}, evil);
  page.chart(HeatMap{evil, evil, evil, {evil}, {evil}, {{1}}, {{evil}}}, evil);
  page.chart(
      PointChart{
          evil, evil, Scale::kLinear, Scale::kLinear, PointChart::Draw::kPoints, {{evil, {{1, 2}}}, {evil, {}}}, {{1, evil}}},
      evil);
  page.chart(DivergenceChart{3, {evil, evil}, {{evil, {1, -1}}}}, evil);
  page.provenance(Json{{"schema", evil}, {"machine", {{evil, evil}}}});
  page.section("second");
  const std::string html = page.html();
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(html.find("&\""), std::string::npos);
  EXPECT_GT(count_of(html, "&lt;b&gt;&amp;&quot;&#39;"), 60);
}

TEST(Html, ChartsWithoutDataAreStillDrawn) {
  for (const int width : {760, 340}) {
    for (const std::string& drawing :
         {svg(BarChart{}, width), svg(Histogram{}, width), svg(HeatMap{}, width), svg(PointChart{}, width),
          svg(DivergenceChart{}, width), svg(BarChart{"x", {}, {{"none", {NAN}, {}}}, {}}, width),
          svg(PointChart{"x", "y", Scale::kLog, Scale::kLog, {}, {{"s", {{0, -1}, {NAN, 1}}}}, {}}, width),
          svg(HeatMap{"", "", "v", {"r"}, {"c"}, {{NAN}}, {}}, width)}) {
      EXPECT_EQ(drawing.find("nan\""), std::string::npos) << drawing;
      EXPECT_EQ(drawing.find("inf\""), std::string::npos) << drawing;
    }
  }
}

TEST(Html, AFragmentReadsAsWritten) {
  Table table({{"kernel"}, {"n", Align::kRight}});
  table.row({"avx2", Cell("3", Tone::kBad)});
  Page page("t", "u");
  page.section("One", "Lead.");
  page.table(table, "Caption");
  const std::string html = page.html();
  EXPECT_NE(html.find("<section id=\"s1\">\n<h2>One</h2>\n<p class=\"lead\">Lead.</p>\n"
                      "<figure class=\"table\">\n<figcaption>Caption</figcaption>\n<div class=\"scroll\" tabindex=\"0\"><table>\n"
                      "<thead><tr><th scope=\"col\">kernel</th><th scope=\"col\" class=\"right\">n</th></tr></thead>\n"
                      "<tbody>\n<tr><td>avx2</td><td class=\"right\"><span class=\"tone bad\">3</span></td></tr>\n"
                      "</tbody></table></div>\n</figure>\n</section>\n</main>"),
            std::string::npos)
      << html.substr(html.find("<body>"));
}

}  // namespace
}  // namespace zeroulp::report
