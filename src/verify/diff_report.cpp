#include "verify/diff_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/text.h"

namespace zeroulp::verify {
namespace {

using report::Align;
using report::Cell;
using report::count_text;
using report::Json;
using report::Table;
using report::Tone;

std::string index_text(const std::vector<int64_t>& index) { return fmt::format("[{}]", fmt::join(index, ", ")); }

std::string type_text(const TensorDiff& t) {
  const std::string a = fmt::format("{} {}", dtype_name(t.dtype_a), index_text(t.shape_a));
  const std::string b = fmt::format("{} {}", dtype_name(t.dtype_b), index_text(t.shape_b));
  if (t.state == TensorState::kOnlyInA || a == b) return a;
  return t.state == TensorState::kOnlyInB ? b : a + " / " + b;
}

Table tensor_table(const CheckpointDiff& diff, size_t rows) {
  Table table({{"tensor"},
               {"type and shape"},
               {"differing", Align::kRight},
               {"first at"},
               {"in A"},
               {"in B"},
               {"largest distance", Align::kRight}});
  for (const TensorDiff& t : diff.tensors) {
    if (t.state == TensorState::kEqual) continue;
    if (table.rows().size() == rows) break;
    if (t.state == TensorState::kDiffers)
      table.row({t.name, type_text(t), fmt::format("{} of {}", count_text(t.differing), count_text(t.elements)),
                 index_text(t.first), t.first_a, t.first_b, fmt::format("{}", t.largest_distance)});
    else
      table.row({t.name, type_text(t), std::string(state_name(t.state)), "", "", "", ""});
  }
  return table;
}

Table distance_table(const DistanceCounts& counts, int64_t differing) {
  Table table({{"distance in ulp"}, {"elements", Align::kRight}, {"share", Align::kRight}});
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0)
      table.row({std::string(kDistanceNames[i]), count_text(counts[i]),
                 report::percent_text(static_cast<double>(counts[i]), static_cast<double>(differing))});
  return table;
}

Table sequence_table(const DigestLogDiff& diff, size_t rows) {
  Table table({{"sequence", Align::kRight},
               {"differing", Align::kRight},
               {"only in A", Align::kRight},
               {"only in B", Align::kRight},
               {"first diverged at", Align::kRight},
               {"in A"},
               {"in B"}});
  for (const SequenceDiff& s : diff.sequences) {
    if (diff.equal(s)) continue;
    if (table.rows().size() == rows) break;
    table.row({fmt::format("{}", s.sequence), fmt::format("{} of {}", count_text(s.differing), count_text(s.compared)),
               count_text(s.only_in_a), count_text(s.only_in_b),
               s.first_position < 0 ? "" : fmt::format("{}", s.first_position), s.first_a.substr(0, 12),
               s.first_b.substr(0, 12)});
  }
  return table;
}

size_t unequal(const Diff& diff) {
  if (diff.kind == DiffKind::kDigestLogs)
    return static_cast<size_t>(
        std::count_if(diff.digests.sequences.begin(), diff.digests.sequences.end(),
                      [&](const SequenceDiff& s) { return !diff.digests.equal(s); }));
  return static_cast<size_t>(std::count_if(diff.checkpoints.tensors.begin(), diff.checkpoints.tensors.end(),
                                           [](const TensorDiff& t) { return t.state != TensorState::kEqual; }));
}

size_t parts(const Diff& diff) {
  return diff.kind == DiffKind::kDigestLogs ? diff.digests.sequences.size() : diff.checkpoints.tensors.size();
}

// What two logs that were compared where both have digests do not share; nothing otherwise.
std::string one_sided(const Diff& diff) {
  if (!diff.digests.common) return "";
  int64_t only_in_a = 0, only_in_b = 0;
  for (const SequenceDiff& s : diff.digests.sequences) only_in_a += s.only_in_a, only_in_b += s.only_in_b;
  return fmt::format(" that both have; {} only in A, {} only in B", count_text(only_in_a), count_text(only_in_b));
}

std::string headline(const Diff& diff) {
  const bool logs = diff.kind == DiffKind::kDigestLogs;
  const char* part = logs ? "sequences" : "tensors";
  if (diff.equal())
    return fmt::format("Equal: {} {}, {} {}", count_text(static_cast<int64_t>(parts(diff))), part, count_text(diff.compared()),
                       logs ? "positions" : "elements") +
           one_sided(diff);
  if (unequal(diff) == 0 && logs) return "Different: the generated tokens";
  if (unequal(diff) == 0) return fmt::format("Different: all tensors are equal, but not the JSON files");
  if (logs && !diff.digests.any_differs())
    return fmt::format("Different: {} of {} {} have positions that only one log has; no position that both have differs (--common lets those decide)",
                       count_text(static_cast<int64_t>(unequal(diff))), count_text(static_cast<int64_t>(parts(diff))), part);
  return fmt::format("Different: {} of {} {}", count_text(static_cast<int64_t>(unequal(diff))),
                     count_text(static_cast<int64_t>(parts(diff))), part);
}

// Where the two part first, in one line; empty if they do not.
std::string first_divergence(const Diff& diff) {
  if (diff.kind == DiffKind::kDigestLogs) {
    for (const SequenceDiff& s : diff.digests.sequences)
      if (s.first_position >= 0)
        return fmt::format("first divergence: sequence {}, position {}: {} in A, {} in B{}", s.sequence, s.first_position, s.first_a, s.first_b,
                           diff.digests.first_layer.empty() ? "" : "; it comes from " + diff.digests.first_layer);
    return diff.digests.first_token.empty() ? "" : "tokens differ though their logits do not: " + diff.digests.first_token;
  }
  const TensorDiff* t = diff.checkpoints.first_difference();
  if (t == nullptr) return "";
  if (t->state != TensorState::kDiffers)
    return fmt::format("first difference in model order: {}: {}, {}", t->name, state_name(t->state), type_text(*t));
  return fmt::format("first difference in model order: {} {}: {} in A, {} in B", t->name, index_text(t->first), t->first_a,
                     t->first_b);
}

Json tensor_json(const TensorDiff& t) {
  Json out{{"name", t.name}, {"state", state_name(t.state)}};
  if (t.state != TensorState::kOnlyInB) out["a"] = {{"dtype", dtype_name(t.dtype_a)}, {"shape", t.shape_a}};
  if (t.state != TensorState::kOnlyInA) out["b"] = {{"dtype", dtype_name(t.dtype_b)}, {"shape", t.shape_b}};
  if (t.state != TensorState::kDiffers) return out;
  out["elements"] = t.elements;
  out["differing"] = t.differing;
  out["first"] = {{"index", t.first}, {"a", t.first_a}, {"b", t.first_b}};
  out["largest_distance"] = t.largest_distance;
  for (size_t i = 0; i < t.distances.size(); ++i)
    if (t.distances[i] > 0) out["distances"][std::string(kDistanceNames[i])] = t.distances[i];
  return out;
}

}  // namespace

std::string diff_text(const Diff& diff, int64_t rows) {
  const size_t limit = rows == 0 ? SIZE_MAX : static_cast<size_t>(rows);
  std::string out = headline(diff) + "\n";
  for (const std::string& line : diff.checkpoints.differing_json) out += on_one_line(line) + "\n";
  if (const std::string first = first_divergence(diff); !first.empty()) out += on_one_line(first) + "\n";
  if (unequal(diff) == 0) return out;
  const Table table =
      diff.kind == DiffKind::kDigestLogs ? sequence_table(diff.digests, limit) : tensor_table(diff.checkpoints, limit);
  out += "\n" + table.text();
  if (unequal(diff) > table.rows().size())
    out += fmt::format("and {} more; --rows 0 lists all\n", unequal(diff) - table.rows().size());
  if (diff.checkpoints.differing > 0)
    out += "\n" + distance_table(diff.checkpoints.distances, diff.checkpoints.differing).text();
  return out;
}

void add_diff(const Diff& diff, Json& body) {
  body["equal"] = diff.equal();
  body["compared"] = diff.compared();
  if (diff.kind == DiffKind::kDigestLogs) {
    body["kind"] = "digest logs";
    body["common"] = diff.digests.common;
    if (!diff.digests.first_token.empty()) body["first_token"] = diff.digests.first_token;
    body["notes"] = diff.digests.notes;
    if (!diff.digests.first_layer.empty()) body["first_layer"] = diff.digests.first_layer;
    body["sequences"] = Json::array();
    for (const SequenceDiff& s : diff.digests.sequences) {
      Json one{{"sequence", s.sequence},
               {"compared", s.compared},
               {"differing", s.differing},
               {"only_in_a", s.only_in_a},
               {"only_in_b", s.only_in_b}};
      if (s.first_position >= 0) one["first"] = {{"position", s.first_position}, {"a", s.first_a}, {"b", s.first_b}};
      body["sequences"].push_back(std::move(one));
    }
    return;
  }
  body["kind"] = "checkpoints";
  body["differing"] = diff.checkpoints.differing;
  body["differing_json"] = diff.checkpoints.differing_json;
  body["notes"] = diff.checkpoints.notes;
  body["tensors"] = Json::array();
  for (const TensorDiff& t : diff.checkpoints.tensors) body["tensors"].push_back(tensor_json(t));
}

report::Page diff_page(const Diff& diff, const std::string& name_a, const std::string& name_b) {
  report::Page page("What changed", fmt::format("A: {}; B: {}", name_a, name_b));
  const std::string first = first_divergence(diff);
  page.verdict(diff.equal() ? Tone::kGood : Tone::kBad, headline(diff),
               first.empty() ? "Every bit that both hold was compared." : first);
  for (const std::string& note : diff.checkpoints.notes) page.note(Tone::kWarn, note);
  if (!diff.checkpoints.differing_json.empty()) {
    page.section("Configuration");
    page.list(diff.checkpoints.differing_json);
  }
  if (diff.checkpoints.differing > 0) {
    page.section("How far apart",
                 "Elements whose bits differ, by their distance in units in the last place; integers by their difference.");
    report::Histogram histogram{"distance in ulp", "elements", {}, {}, {{}}, report::Scale::kLog};
    for (size_t i = 0; i < kDistanceNames.size(); ++i) {
      histogram.bins.emplace_back(kDistanceNames[i]);
      histogram.counts[0].push_back(static_cast<double>(diff.checkpoints.distances[i]));
    }
    page.chart(histogram, fmt::format("{} of {} elements differ", count_text(diff.checkpoints.differing),
                                      count_text(diff.checkpoints.elements)));
    page.folded_table(distance_table(diff.checkpoints.distances, diff.checkpoints.differing), "The counts");
  }
  if (unequal(diff) > 0) {
    const bool logs = diff.kind == DiffKind::kDigestLogs;
    page.section(logs ? "Sequences" : "Tensors",
                 logs ? "Digests of the logits at each position." : "In the order in which a model computes.");
    page.table(logs ? sequence_table(diff.digests, SIZE_MAX) : tensor_table(diff.checkpoints, SIZE_MAX));
  }
  return page;
}

}  // namespace zeroulp::verify
