#include "ops/embedding/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::embedding {
namespace {

using namespace conformance;

struct Table {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  int64_t k;
};

void visit_rows(const Visit<Fn>& visit, Kind kind, const std::string& name, const std::string& catches, const Table& table,
                const std::vector<int32_t>& tokens) {
  visit({kind, name, catches}, [&](Fn* run, Outputs& out) {
    const auto rows = static_cast<int64_t>(tokens.size());
    Guarded<uint16_t> y(rows * table.k);
    run({tokens.data(), rows, table.k, table.codes.data(), table.scales.data(), y.data()});
    out.add("y", y);
  });
}

}  // namespace

void cases(const Visit<Fn>& visit) {
  num::PhiloxStream random(103);
  Table every{{}, {}, 255};
  std::vector<int32_t> tokens;
  // The last five make exact ties of bf16: 3, 5, 9, 17 and 257 times a code.
  const std::vector<float> ends = {0x1p-40f,       0x1.fffffep-40f, 0x1p8f,         1.0f,       0x1.000002p0f,
                                   0x1.fffffep-1f, 1.0f / 127,      0x1.010102p-7f, 0x1.8p-10f, 0x1.4p-9f,
                                   0x1.2p-8f,      0x1.1p-6f,       0x1.01p-5f};
  for (int row = 0; row < 4096; ++row) {
    tokens.push_back(row);
    every.scales.push_back(row < static_cast<int>(ends.size()) ? ends[static_cast<size_t>(row)] : random_scale(random, -40, 7));
    for (int code = -127; code <= 127; ++code) every.codes.push_back(static_cast<int8_t>(code));
  }
  visit_rows(visit, Kind::kExhaustive, "every code with 4,096 scales", "scales kept in bf16, ties away, truncation", every,
             tokens);
  for (const int64_t k : kOddLengths) {
    const int32_t vocabulary = 11;
    Table table{random_codes(random, vocabulary * k), {}, k};
    for (int i = 0; i < vocabulary; ++i) table.scales.push_back(random_scale(random, -12, -2));
    visit_rows(visit, Kind::kRandom, fmt::format("rows of {}", k), "tails, the scale of another row", table, {10, 0, 3, 3, 7});
  }
}

}  // namespace zeroulp::ops::embedding
