#include "verify/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace zeroulp::verify {

using report::Align;
using report::Cell;
using report::Json;
using report::Table;
using report::Tone;

namespace {

constexpr std::string_view kSpacingNames[] = {"equal", "1", "2", "3", "4", "5 or more"};

std::string percent(double share) { return fmt::format("{:+.3f} %", 100 * share); }
std::string interval(const engine::Estimate& e, double unit, std::string_view format) {
  if (!e.low || !e.high) return "-";
  return fmt::format("{} to {}", fmt::format(fmt::runtime(format), *e.low * unit), fmt::format(fmt::runtime(format), *e.high * unit));
}

Json histogram_json(const SpacingHistogram& h) {
  Json bins = Json::object();
  for (size_t i = 0; i < kSpacingBins; ++i) bins[std::string(kSpacingNames[i])] = h.count[i];
  return {{"outputs", h.total()}, {"differing", h.differing()}, {"bf16_spacings", bins}};
}

Json order_json(const OrderHistograms& h) {
  Json j = Json::object();
  for (size_t i = 0; i < 2; ++i)
    j[i == 0 ? "without_bias" : "with_bias"] = {{"arbitrary", histogram_json(h.arbitrary[i])}, {"power_of_two", histogram_json(h.power_of_two[i])}};
  return j;
}

Json divergence_json(const Divergence& d) {
  return {{"tokens", d.tokens}, {"first_difference", d.first_difference}, {"prompts_that_part", d.prompts_that_part()}};
}

Json estimate_json(const engine::Estimate& e) {
  return {{"value", e.value}, {"low95", e.low ? Json(*e.low) : Json(nullptr)}, {"high95", e.high ? Json(*e.high) : Json(nullptr)}};
}

std::string rate(const SpacingHistogram& h) {
  return h.total() == 0 ? "-" : fmt::format("{} of {} ({:.2e})", h.differing(), h.total(), static_cast<double>(h.differing()) / static_cast<double>(h.total()));
}

}  // namespace

Table digest_table(const DigestTable& t) {
  Table table({{"kernel"}, {"threads", Align::kRight}, {"batch", Align::kRight}, {"chunk", Align::kRight}, {"ranks", Align::kRight},
               {"prefix cache"}, {"digest"}, {"positions", Align::kRight}, {"against the baseline"}, {"s", Align::kRight}});
  for (const TableRow& r : t.rows) {
    const bool good = r.difference.holds();
    const std::string verdict =
        &r == &t.rows.front() ? "baseline"
        : good               ? "equal"
        : r.difference.differing > 0
            ? fmt::format("DIFFERS: {} positions, first {}:{}", r.difference.differing, r.difference.first.first, r.difference.first.second)
            : "DIFFERS: tokens";
    const std::string where = r.config.device < 0 ? "" : fmt::format("cuda:{}{} ", r.config.device, r.config.graphs ? "" : ", no graphs,");
    table.row({where + (r.config.kernel.empty() ? std::string("fastest") : r.config.kernel), std::to_string(r.config.threads), std::to_string(r.config.batch),
               r.config.chunk == 0 ? std::string("all") : std::to_string(r.config.chunk),
               fmt::format("{}{}", r.config.ranks, r.how == "MPI processes" ? " MPI" : ""), r.config.prefix_cache ? "on" : "off",
               r.digest.hex().substr(0, 12), std::to_string(r.difference.compared), Cell(verdict, good ? Tone::kGood : Tone::kBad),
               fmt::format("{:.1f}", r.seconds)});
  }
  return table;
}

Table order_table(const Answer& a) {
  Table table({{"kernels"}, {"outputs of linears"}, {"scales as they are: bf16 outputs that differ", Align::kRight}, {"power-of-two scales", Align::kRight}});
  const char* names[] = {"without bias", "with bias (Triton adds it after rounding)"};
  const auto rows = [&](const std::string& kernels, const OrderHistograms& h) {
    for (size_t i = 0; i < 2; ++i)
      if (h.arbitrary[i].total() > 0)
        table.row({kernels, names[i], rate(h.arbitrary[i]), Cell(rate(h.power_of_two[i]), h.power_of_two[i].differing() == 0 ? Tone::kGood : Tone::kWarn)});
  };
  rows("CPU, both by the rule", a.orders);
  for (const OrderComparison::OnDevice& d : a.orders.on_device) {
    if (d.why_not.empty())
      rows("GPU: " + d.name, d);
    else
      table.row({"GPU: " + d.name, Cell("not run: " + d.why_not, Tone::kWarn), "-", "-"});
  }
  return table;
}

Table generation_table(const Answer& a) {
  Table table({{"kernels"}, {"scales"}, {"generations that part", Align::kRight}, {"first token that differs, by prompt"}});
  const auto row = [&](const std::string& kernels, const char* scales, const Divergence& d) {
    std::vector<std::string> first;
    for (const int64_t at : d.first_difference) first.push_back(at < 0 ? "-" : std::to_string(at));
    table.row({kernels, scales, fmt::format("{} of {}", d.prompts_that_part(), d.first_difference.size()), fmt::format("{}", fmt::join(first, " "))});
  };
  for (const Answer::Parting& p : a.partings) {
    const std::string kernels = p.kernels.empty() ? "CPU, both by the rule" : "GPU: " + p.kernels;
    row(kernels, "as they are", p.arbitrary);
    row(kernels, "power of two", p.power_of_two);
  }
  return table;
}

Table quality_table(const engine::Quality& q) {
  Table table({{"measure"}, {"value", Align::kRight}, {"95 % interval"}});
  table.row({"perplexity of the reference path", fmt::format("{:.4f}", q.reference_perplexity), ""});
  table.row({"perplexity of this model", fmt::format("{:.4f}", q.perplexity), ""});
  table.row({"change", percent(q.perplexity_change.value), interval(q.perplexity_change, 100, "{:+.3f} %")});
  table.row({"mean KL from the reference, nats", fmt::format("{:.5f}", q.kl.value), interval(q.kl, 1, "{:.5f}")});
  table.row({"same likeliest token", fmt::format("{:.2f} %", 100 * q.top1.value), interval(q.top1, 100, "{:.2f} %")});
  table.row({"positions", std::to_string(q.positions), fmt::format("{} windows", q.windows)});
  return table;
}

void to_json(const Request& r, const Answer& a, Json& body) {
  body["holds"] = a.holds();
  body["verdict"] = a.verdict();
  body["skipped"] = a.skipped;
  body["model"] = {{"identity", r.model->identity()}, {"profile", r.model->header().profile}, {"contract", model::kContract}};
  body["text"] = {{"name", r.text_name}, {"sha256", r.text_sha256}, {"tokens", r.tokens.size()}};
  body["plant"] = engine::kPlantNames[static_cast<size_t>(r.plant)];
  Json rows = Json::array();
  for (const TableRow& row : a.digests.rows) {
    Json j = row.config.to_json();
    j["ranks_are"] = row.how;
    j["digest"] = row.digest.hex();
    j["kernels"] = row.kernels;
    if (!row.graph_kernels.empty()) j["graph_kernels"] = row.graph_kernels;
    j["compared"] = row.difference.compared;
    j["differing"] = row.difference.differing;
    j["equal"] = row.difference.holds();
    rows.push_back(std::move(j));
  }
  if (a.first_difference) {
    const FirstDifference& d = *a.first_difference;
    body["first_divergence"] = {{"run", a.located_in.to_json()},
                                {"layer", d.layer},
                                {"op", engine::kTraceOpNames[static_cast<size_t>(d.op)]},
                                {"sequence", d.sequence},
                                {"position", d.position},
                                {"token", d.token},
                                {"index", d.index},
                                {"baseline", d.hex(d.a)},
                                {"here", d.hex(d.b)},
                                {"differing", d.differing},
                                {"width", d.width},
                                {"rows", d.rows},
                                {"rows_differing", d.rows_differing},
                                {"likely", {{"class", class_name(d.likely.fault_class)}, {"share", d.likely.share}, {"as_in", d.likely.fault}}}};
  }
  body["digests"] = {{"runs", rows}, {"pairs_covered", a.digests.coverage.covered}, {"pairs", a.digests.coverage.total}, {"guilty_axes", a.digests.guilty_axes}};
  if (a.orders.inputs > 0) {
    Json& orders = body["scale_orders"] = order_json(a.orders);
    orders["inputs"] = a.orders.inputs;
    for (const OrderComparison::OnDevice& d : a.orders.on_device) {
      Json j = d.why_not.empty() ? order_json(d) : Json{{"skipped", d.why_not}};
      j["kernels"] = d.name;
      orders["gpu"].push_back(std::move(j));
    }
    for (const Answer::Parting& p : a.partings) {
      Json j = {{"arbitrary", divergence_json(p.arbitrary)}, {"power_of_two", divergence_json(p.power_of_two)}};
      if (p.kernels.empty()) {
        body["generations"].update(j);
      } else {
        j["kernels"] = p.kernels;
        j["graph_kernels"] = {{"cutlass_order", kernels_of_graph(p.arbitrary.graph_nodes[0])}, {"triton_order", kernels_of_graph(p.arbitrary.graph_nodes[1])}};
        body["generations"]["gpu"].push_back(std::move(j));
      }
    }
  }
  if (a.quality) {
    const engine::Quality& q = *a.quality;
    body["quality"] = {{"window", r.effort.window},
                       {"positions", q.positions},
                       {"start_token", nullptr},
                       {"token_range", {0, std::min<int64_t>(static_cast<int64_t>(r.tokens.size()), r.effort.quality_tokens)}},
                       {"perplexity", q.perplexity},
                       {"reference_perplexity", q.reference_perplexity},
                       {"perplexity_change", estimate_json(q.perplexity_change)},
                       {"kl", estimate_json(q.kl)},
                       {"top1", estimate_json(q.top1)}};
  }
}

namespace {

void add_digests(report::Page& page, const Answer& a) {
  page.section("Digests", fmt::format("One workload under {} configurations. Each must give the same logits, bit for bit, at every position; {} of {} pairs of "
                                      "values of two axes occur.",
                                      a.digests.rows.size(), a.digests.coverage.covered, a.digests.coverage.total));
  page.table(digest_table(a.digests), "Runs, each compared with the baseline position by position (XXH3-128 over the logits' bits)");
  if (!a.digests.guilty_axes.empty())
    page.note(Tone::kBad, fmt::format("Changing one axis alone changes the bits: {}.", fmt::join(a.digests.guilty_axes, ", ")));
  if (a.first_difference)
    page.note(Tone::kBad, fmt::format("First divergence, {} against the baseline: {}.", a.located_in.describe(), a.first_difference->text()));
}

void add_orders(report::Page& page, const Answer& a) {
  page.section("Two foreign epilogues", "The same exact integer sums, scaled in the order of vLLM's CUTLASS kernels and in the order of its Triton kernel, on layer "
                                        "inputs captured from this model (8-bit activations); on a GPU by kernels of those stacks.");
  page.table(order_table(a), "bf16 outputs that differ between the two orders");
  report::Histogram h;
  h.bin_label = "distance in bf16 spacings";
  h.count_label = "outputs";
  h.series = {"scales as they are", "power-of-two scales"};
  h.counts.resize(2);
  for (size_t bin = 0; bin < kSpacingBins; ++bin) {
    h.bins.emplace_back(kSpacingNames[bin]);
    h.counts[0].push_back(static_cast<double>(a.orders.arbitrary[0].count[bin] + a.orders.arbitrary[1].count[bin]));
    h.counts[1].push_back(static_cast<double>(a.orders.power_of_two[0].count[bin] + a.orders.power_of_two[1].count[bin]));
  }
  page.chart(h, "How far apart the two epilogues are; power-of-two scales leave only the first bar where no bias is added");
  if (a.partings.empty()) return;
  const Answer::Parting& cpu = a.partings.front();
  page.section("Whole generations", fmt::format("Greedy text under both epilogues: {} prompts of {} tokens each.", cpu.arbitrary.first_difference.size(),
                                                cpu.arbitrary.tokens));
  page.table(generation_table(a), "Where the two kernels' texts part");
  report::DivergenceChart chart;
  chart.length = cpu.arbitrary.tokens;
  chart.series = {"scales as they are", "power-of-two scales"};
  for (size_t i = 0; i < cpu.arbitrary.first_difference.size(); ++i)
    chart.rows.push_back({fmt::format("prompt {}", i + 1), {cpu.arbitrary.first_difference[i], cpu.power_of_two.first_difference[i]}});
  page.chart(chart, "Up to which token the texts of the two epilogues agree");
}

}  // namespace

report::Page to_page(const Request& r, const Answer& a, const Json& finished) {
  report::Page page("zeroulp verify", fmt::format("{}, identity {}", r.model->header().profile, r.model->identity().substr(0, 16)));
  int64_t positions = 0;
  for (const TableRow& row : a.digests.rows) positions += row.difference.compared;
  page.verdict(a.holds() ? Tone::kGood : Tone::kBad, a.verdict(), fmt::format("{} positions compared over {} configurations", positions, a.digests.rows.size()));
  std::vector<report::Page::Fact> facts = {{"configurations", std::to_string(a.digests.rows.size()), "kernel, threads, batch, chunk, ranks, prefix cache"}};
  if (a.quality) {
    facts.push_back({"perplexity", percent(a.quality->perplexity_change.value), "against the BF16 reference path"});
    facts.push_back({"KL", fmt::format("{:.4f}", a.quality->kl.value), "nats per token"});
    facts.push_back({"same top token", fmt::format("{:.1f} %", 100 * a.quality->top1.value), ""});
  }
  page.facts(facts);
  if (a.has_digests) add_digests(page, a);
  if (a.orders.inputs > 0) add_orders(page, a);
  if (a.quality) {
    page.section("Quality", fmt::format("Text {}, windows of {} tokens. Nothing here accepts a kernel: bits do.", r.text_name, r.effort.window));
    page.table(quality_table(*a.quality), "Against the reference path (BF16 weights, FP32 sums, Hugging Face's rounding points)");
  }
  if (!a.skipped.empty()) {
    page.section("Not run");
    page.list(a.skipped);
  }
  page.provenance(finished);
  return page;
}

}  // namespace zeroulp::verify
