// One self-contained HTML page: no scripts, no outside resources, readable on a desk, on a phone and on paper, light and dark.
// The same calls give the same bytes.
//
//   Page page("zeroulp verify", "SmolLM2-135M-Instruct, w8a15-free");
//   page.verdict(Tone::kGood, "The same bits in all 40 runs", "9 axes, 163,840 positions compared");
//   page.facts({{"perplexity", "+0.08 %"}, {"kernels", "3"}});
//   page.section("Digests", "Every position of every run was compared with the reference kernel.");
//   page.table(table, "Runs and their digests");
//   page.chart(histogram, "Distance between epilogues in bf16 spacings");
//   page.provenance(report.finished());
//   ZU_TRY(page.write("out/verify.html", force));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/chart.h"
#include "report/json.h"
#include "report/table.h"

namespace zeroulp::report {

class Page {
 public:
  Page(std::string title, std::string subtitle);

  // The answer, above everything else. Call once.
  void verdict(Tone tone, std::string headline, std::string detail);

  struct Fact {
    std::string name, value, remark;
    Tone tone = Tone::kPlain;
  };
  void facts(const std::vector<Fact>& facts);  // the few figures that matter, large

  void section(std::string title, std::string lead = "");  // starts a section; it is listed in the contents
  void heading(std::string_view text);                     // inside a section
  void paragraph(std::string_view text);
  void note(Tone tone, std::string_view text);
  void list(const std::vector<std::string>& items);
  void code(std::string_view text);  // as it stands, monospaced: commands, mismatch blocks
  void table(const Table& table, std::string_view caption = "");
  void folded_table(const Table& table, std::string_view summary);  // shown on a click; printed open

  template <class Chart>
  void chart(const Chart& chart, std::string_view caption) {
    figure(svg(chart, kWide), svg(chart, kNarrow), caption);
  }

  // What made this page, from a report's envelope: version, commit, compiler, machine, time. Last on the page.
  void provenance(const Json& report);

  std::string html() const;
  Status write(const std::string& path, bool force) const;

 private:
  static constexpr int kWide = 760, kNarrow = 340;
  void figure(const std::string& wide, const std::string& narrow, std::string_view caption);
  void append_table(const Table& table, std::string_view caption);

  std::string title_, subtitle_, verdict_, body_, provenance_;
  std::vector<std::string> sections_;
};

// The page's style sheet.
std::string_view page_style();

}  // namespace zeroulp::report
