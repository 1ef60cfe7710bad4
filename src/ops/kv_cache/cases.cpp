#include "ops/kv_cache/cases.h"

#include <fmt/format.h>

#include "ops/case_inputs.h"

namespace zeroulp::ops::kv_cache {
namespace {

using namespace conformance;

struct Row {
  std::vector<uint16_t> k, v;
};

// Slots are filled in order from 0, as a sequence grows.
void visit_rows(const Visit<StoreFn>& visit, Kind kind, const std::string& name, const std::string& catches, int64_t d, const std::vector<Row>& rows) {
  for (const int width : {8, 15}) {
    visit({kind, fmt::format("{}, {} of {} elements, keys of {} bits", name, rows.size(), d, width), catches}, [&](StoreFn* run, Outputs& out) {
      const Layout layout{d, width};
      Guarded<uint8_t> block(std::vector<uint8_t>(static_cast<size_t>(layout.bytes()), uint8_t{0}));
      Guarded<uint8_t> good(static_cast<int64_t>(rows.size()));
      for (size_t i = 0; i < rows.size(); ++i)
        good.data()[i] = run(reinterpret_cast<std::byte*>(block.data()), layout, static_cast<int64_t>(i), rows[i].k.data(), rows[i].v.data());
      out.add("block", block);
      out.add("stored", good);
    });
  }
}

}  // namespace

void cases(const Visit<StoreFn>& visit) {
  num::PhiloxStream random(130);
  // Every fraction as the largest magnitude, at several exponents: where 127 * 2^e begins to hold it.
  for (const int exponent : {-40, -1, 0, 6, 47}) {
    std::vector<Row> rows;
    for (int fraction = 0; fraction < 128; ++fraction) {
      Row row;
      for (int i = 0; i < 16; ++i) row.k.push_back(random_bf16(random, exponent + 127 - 6, exponent + 126));
      row.v = row.k;
      row.k[3] = row.v[5] = static_cast<uint16_t>(((exponent + 127) << 7) | fraction);
      rows.push_back(row);
    }
    visit_rows(visit, Kind::kExhaustive, fmt::format("every fraction at 2^{}", exponent), "an exponent one off, codes truncated", 16, rows);
  }
  std::vector<Row> ends;
  for (const uint16_t top : {uint16_t{0}, uint16_t{0x8000}, uint16_t{1}, num::kAttentionRange.min_bits, num::kAttentionRange.max_bits, uint16_t(num::kAttentionRange.min_bits - 1),
                             uint16_t(num::kAttentionRange.max_bits + 1), uint16_t{0x7F80}, uint16_t{0x7FC0}, uint16_t{0xFF81}})
    for (const bool key : {false, true}) {
      Row row{random_bf16s(random, 8, 120, 124), random_bf16s(random, 8, 120, 124)};
      std::fill((key ? row.k : row.v).begin(), (key ? row.k : row.v).end(), uint16_t{0});
      (key ? row.k : row.v)[2] = top;
      ends.push_back(row);
    }
  visit_rows(visit, Kind::kHard, "ends of the range", "zero rows, faults passed over", 8, ends);
  for (const int64_t d : {2, 16, 64, 80, 128}) {
    std::vector<Row> rows;
    for (int64_t i = 0; i < kBlock; ++i) rows.push_back({bell_bf16s(random, d, 1.0f), bell_bf16s(random, d, 0.3f)});
    visit_rows(visit, Kind::kRandom, "a whole block", "another slot's scale, another layout", d, rows);
  }
}

}  // namespace zeroulp::ops::kv_cache
