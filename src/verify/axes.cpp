#include "verify/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/interrupt.h"
#include "ops/linear_s8/contract.h"

namespace zeroulp::verify {
namespace {

std::vector<std::vector<int>> whole_product(const std::vector<int>& sizes) {
  std::vector<std::vector<int>> rows = {{}};
  for (const int size : sizes) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& row : rows)
      for (int value = 0; value < size; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    rows = std::move(longer);
  }
  return rows;
}

// Which axes change the bits by themselves. When the kernel does, the other axes are judged with the baseline's kernel: a faulty kernel may
// answer differently along each of them.
Result<std::vector<std::string>> find_guilty(const model::QuantizedModel& model, const Workload& work, const TablePlan& plan) {
  std::vector<std::string> guilty;
  for (AxisPair pair : single_steps(plan)) {
    if (std::find(guilty.begin(), guilty.end(), pair.axis) != guilty.end()) continue;
    if (!guilty.empty() && guilty.front() == "kernel") pair.base.kernel = pair.varied.kernel = plan.baseline.kernel;
    ZU_TRY_ASSIGN(const DigestLog base, run_digests(model, work, pair.base, plan.plant));
    ZU_TRY_ASSIGN(const DigestLog varied, run_digests(model, work, pair.varied, plan.plant));
    if (!compare(base, varied).holds()) guilty.push_back(pair.axis);
  }
  return guilty;
}

}  // namespace

std::vector<int> Axes::sizes() const {
  std::vector<int> sizes;
  for (const size_t n : {kernels.size(), threads.size(), batch.size(), chunk.size(), ranks.size(), prefix_cache.size()})
    sizes.push_back(static_cast<int>(n));
  return sizes;
}

RunConfig Axes::config(const std::vector<int>& i) const {
  const auto at = [&](const auto& values, size_t axis) { return values[static_cast<size_t>(i[axis])]; };
  return {.kernel = at(kernels, 0),
          .threads = at(threads, 1),
          .batch = at(batch, 2),
          .chunk = at(chunk, 3),
          .ranks = at(ranks, 4),
          .prefix_cache = at(prefix_cache, 5)};
}

Axes Axes::on_this_machine(bool fast_only) {
  Axes axes;
  for (const ops::VariantStatus& v : ops::variant_status(cpu_features()))
    if (v.why_not.empty()) axes.kernels.push_back(v.name);
  if (fast_only && axes.kernels.size() > 1) std::erase(axes.kernels, "reference");
  return axes;
}

std::vector<RunConfig> device_configs(int device) {
  std::vector<RunConfig> configs = {{.device = device}, {.device = device, .graphs = false}};
  for (const ops::linear_s8::OnDevice& v : ops::linear_s8::device_variants())
    if (ops::select_device_kernels(fmt::format("linear_s8={}", v.name))) configs.push_back({.kernel = std::string(v.name), .device = device});
  for (const int batch : {2, 8}) configs.push_back({.batch = batch, .device = device});
  for (const int64_t chunk : {1, 7, 64}) configs.push_back({.batch = 3, .chunk = chunk, .device = device});
  for (const int ranks : {2, 3}) configs.push_back({.batch = 3, .ranks = ranks, .device = device});
  configs.push_back({.chunk = 64, .device = device, .prefix_cache = true});
  return configs;
}

std::vector<AxisPair> single_steps(const TablePlan& plan) {
  const Axes& axes = plan.axes;
  const RunConfig base = axes.config(std::vector<int>(axes.sizes().size(), 0));
  std::vector<AxisPair> steps;
  const auto add = [&](const std::string& axis, auto&& values, auto member) {
    for (size_t i = 1; i < values.size(); ++i) {
      RunConfig varied = base;
      varied.*member = values[i];
      steps.push_back({axis, base, varied});
    }
  };
  add("kernel", axes.kernels, &RunConfig::kernel);
  if (base.kernel != plan.baseline.kernel) {
    steps.push_back({"kernel", base, base});
    steps.back().varied.kernel = plan.baseline.kernel;
  }
  add("threads", axes.threads, &RunConfig::threads);
  add("batch", axes.batch, &RunConfig::batch);
  add("prefill chunk", axes.chunk, &RunConfig::chunk);
  add("tensor-parallel degree", axes.ranks, &RunConfig::ranks);
  if (axes.prefix_cache.size() > 1) {
    AxisPair pair{"prefix cache", base, base};
    pair.base.chunk = pair.varied.chunk = 64;
    pair.varied.prefix_cache = true;
    steps.push_back(pair);
  }
  return steps;
}

bool DigestTable::holds() const {
  return rows.size() > 1 && std::all_of(rows.begin(), rows.end(), [](const TableRow& r) { return r.difference.holds(); });
}

Result<DigestTable> run_digest_table(const model::QuantizedModel& model, const Workload& work, const TablePlan& plan, const OnRow& on_row) {
  const std::vector<int> sizes = plan.axes.sizes();
  std::vector<std::vector<int>> points = plan.max_runs == 0 ? whole_product(sizes) : pairwise_covering_array(sizes);
  if (plan.max_runs > 0 && points.size() > static_cast<size_t>(plan.max_runs)) points.resize(static_cast<size_t>(plan.max_runs));
  std::vector<RunConfig> configs = {plan.baseline};
  for (const std::vector<int>& point : points)
    if (plan.axes.config(point) != plan.baseline) configs.push_back(plan.axes.config(point));
  DigestTable table;
  table.coverage = pair_coverage(sizes, points);
  for (const RunConfig& config : configs) {
    if (interrupt_requested()) return interrupted();
    TableRow row{config, "threads", {}, {}, {}, {}, 0};
    const auto started = std::chrono::steady_clock::now();
    ZU_TRY_ASSIGN(DigestLog log, run_digests(model, work, config, plan.plant));
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    row.digest = log.combined();
    row.kernels = log.kernels;
    if (table.rows.empty()) table.baseline = log;
    row.difference = compare(table.baseline, log);
    table.rows.push_back(row);
    if (on_row) on_row(row);
  }
  if (!table.holds()) {
    ZU_TRY_ASSIGN(table.guilty_axes, find_guilty(model, work, plan));
  }
  return table;
}

}  // namespace zeroulp::verify
