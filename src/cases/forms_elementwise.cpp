// Sections 3, 4 and 5: RMSNorm, residual, embedding, SiLU, RoPE.
#include "cases/form_tools.h"
#include "ops/embedding/cases.h"
#include "ops/embedding/reference.h"
#include "ops/residual/cases.h"
#include "ops/residual/reference.h"
#include "ops/rmsnorm/cases.h"
#include "ops/rmsnorm/reference.h"
#include "ops/rope/cases.h"
#include "ops/rope/reference.h"
#include "ops/silu_mul/cases.h"
#include "ops/silu_mul/reference.h"

namespace zeroulp::cases {
namespace {

Status admit_rmsnorm(const Bound& c) {
  ZU_TRY(size_between(c, "d", 1, ops::rmsnorm::kMaxD));
  ZU_TRY(is_float(c, "eps"));
  return c.real("eps") > 0 ? Status() : outside("eps", "must be above zero");
}
Outputs run_rmsnorm(const Bound& c, ops::rmsnorm::Fn* run) {
  Outputs out = blanks(*c.c);
  const int64_t d = c.dim("d");
  run({c.in<uint16_t>("x"), d, c.dim("rows"), d, c.in<uint16_t>("weight"), static_cast<float>(c.real("eps")), out[0].as<uint16_t>(), d});
  return out;
}

Status admit_anything(const Bound&) { return {}; }
Outputs run_residual(const Bound& c, ops::residual::Fn* run) {
  Outputs out = blanks(*c.c);
  out[0].data = c.c->input("x")->data;
  run({out[0].as<uint16_t>(), c.in<uint16_t>("y"), c.dim("count")});
  return out;
}

Status admit_embedding(const Bound& c) {
  const int64_t vocabulary = c.dim("vocabulary");
  ZU_TRY(all_of<int32_t>(c, "tokens", fmt::format("tokens lie in 0 to {}", vocabulary - 1), [vocabulary](int32_t t) { return t >= 0 && t < vocabulary; }));
  ZU_TRY(all_of<int8_t>(c, "codes", "codes lie in -127 to 127", [](int8_t w) { return w != -128; }));
  return all_of<float>(c, "scales", "scales lie in 2^-40 to 2^8", [](float s) { return s >= 0x1p-40f && s <= 0x1p8f; });
}
Outputs run_embedding(const Bound& c, ops::embedding::Fn* run) {
  Outputs out = blanks(*c.c);
  run({c.in<int32_t>("tokens"), c.dim("rows"), c.dim("k"), c.in<int8_t>("codes"), c.in<float>("scales"), out[0].as<uint16_t>()});
  return out;
}

Outputs run_silu(const Bound& c, ops::silu_mul::Fn* run) {
  Outputs out = blanks(*c.c);
  run({c.in<uint16_t>("gate"), c.in<uint16_t>("up"), c.dim("count"), out[0].as<uint16_t>()});
  return out;
}

Status admit_rope(const Bound& c) {
  if (c.dim("d") != 2 * c.dim("half")) return outside("cos", fmt::format("has rows of {}; d / 2 is {}/2", c.dim("half"), c.dim("d")));
  const int64_t table = c.dim("table");
  return all_of<int32_t>(c, "positions", fmt::format("positions lie in 0 to {}", table - 1), [table](int32_t p) { return p >= 0 && p < table; });
}
Outputs run_rope(const Bound& c, ops::rope::Fn* run) {
  Outputs out = blanks(*c.c);
  out[0].data = c.c->input("x")->data;
  const int64_t heads = c.dim("heads"), d = c.dim("d");
  run({out[0].as<uint16_t>(), heads * d, c.dim("rows"), heads, d, c.in<int32_t>("positions"), c.in<uint16_t>("cos"), c.in<uint16_t>("sin")});
  return out;
}

int64_t one_above(const int32_t* values, int64_t count) { return count == 0 ? 1 : int64_t{*std::max_element(values, values + count)} + 1; }

}  // namespace

std::vector<Runner> runners_of(std::span<const ops::Variant<ops::rmsnorm::Fn>> table, const CpuFeatures& cpu) { return runners<ops::rmsnorm::Fn, run_rmsnorm>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::residual::Fn>> table, const CpuFeatures& cpu) { return runners<ops::residual::Fn, run_residual>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::embedding::Fn>> table, const CpuFeatures& cpu) { return runners<ops::embedding::Fn, run_embedding>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::silu_mul::Fn>> table, const CpuFeatures& cpu) { return runners<ops::silu_mul::Fn, run_silu>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::rope::Fn>> table, const CpuFeatures& cpu) { return runners<ops::rope::Fn, run_rope>(table, cpu); }

namespace record {

void rmsnorm(const ops::rmsnorm::Args& a) {
  Case c;
  c.op = "rmsnorm";
  c.attributes = {{"eps", double{a.eps}}};
  c.inputs.push_back(packed("x", Dtype::kBF16, {a.rows, a.d}, a.x, a.d, a.x_stride));
  c.inputs.push_back(dense("weight", Dtype::kBF16, {a.d}, a.weight));
  c.outputs = {{"y", Dtype::kBF16, {a.rows, a.d}}};
  hand_over(std::move(c));
}

void residual(const ops::residual::Args& a) {
  Case c;
  c.op = "residual";
  c.inputs.push_back(dense("x", Dtype::kBF16, {a.count}, a.x));
  c.inputs.push_back(dense("y", Dtype::kBF16, {a.count}, a.y));
  c.outputs = {{"x", Dtype::kBF16, {a.count}}};
  hand_over(std::move(c));
}

void embedding(const ops::embedding::Args& a) {
  Case c;
  c.op = "embedding";
  const int64_t vocabulary = one_above(a.tokens, a.rows);
  c.inputs.push_back(dense("tokens", Dtype::kI32, {a.rows}, a.tokens));
  c.inputs.push_back(dense("codes", Dtype::kI8, {vocabulary, a.k}, a.codes));
  c.inputs.push_back(dense("scales", Dtype::kF32, {vocabulary}, a.scales));
  c.outputs = {{"y", Dtype::kBF16, {a.rows, a.k}}};
  hand_over(std::move(c));
}

void silu_mul(const ops::silu_mul::Args& a) {
  Case c;
  c.op = "silu_mul";
  c.inputs.push_back(dense("gate", Dtype::kBF16, {a.count}, a.gate));
  c.inputs.push_back(dense("up", Dtype::kBF16, {a.count}, a.up));
  c.outputs = {{"y", Dtype::kBF16, {a.count}}};
  hand_over(std::move(c));
}

void rope(const ops::rope::Args& a) {
  Case c;
  c.op = "rope";
  const int64_t table = one_above(a.positions, a.rows), half = a.d / 2;
  c.inputs.push_back(packed("x", Dtype::kBF16, {a.rows, a.heads, a.d}, a.x, a.heads * a.d, a.x_stride));
  c.inputs.push_back(dense("positions", Dtype::kI32, {a.rows}, a.positions));
  c.inputs.push_back(dense("cos", Dtype::kBF16, {table, half}, a.cos));
  c.inputs.push_back(dense("sin", Dtype::kBF16, {table, half}, a.sin));
  c.outputs = {{"x", Dtype::kBF16, {a.rows, a.heads, a.d}}};
  hand_over(std::move(c));
}

}  // namespace record

Form rmsnorm_form() {
  return {"rmsnorm", 3, "RMSNorm and QK-norm",
          {{"x", Dtype::kBF16, "rows,d", "rows"}, {"weight", Dtype::kBF16, "d", "w"}},
          {{"eps", AttributeType::kReal, "a binary32 above zero"}},
          {{"y", Dtype::kBF16, "rows,d", "h = bf16(mul(x, r)), y = bf16(mul(h, w)) with r = div_rn(1, sqrt_rn(add(ms, eps))) from the exact integer sum; "
                                         "the whole row 0x7FC0 if ms is not finite"}},
          admit_rmsnorm,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::rmsnorm::cases, record::rmsnorm, kinds, sink); },
          [](const Bound& c) { return run_rmsnorm(c, ops::rmsnorm::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::rmsnorm::variants(), cpu); }};
}

Form residual_form() {
  return {"residual", 4, "residual addition",
          {{"x", Dtype::kBF16, "count", "the residual stream"}, {"y", Dtype::kBF16, "count", "what is added"}},
          {},
          {{"x", Dtype::kBF16, "count", "x = bf16(add(x, y))"}},
          admit_anything,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::residual::cases, record::residual, kinds, sink); },
          [](const Bound& c) { return run_residual(c, ops::residual::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::residual::variants(), cpu); }};
}

Form embedding_form() {
  return {"embedding", 4, "embedding look-up",
          {{"tokens", Dtype::kI32, "rows", "0 to vocabulary - 1"},
           {"codes", Dtype::kI8, "vocabulary,k", "-127 to 127"},
           {"scales", Dtype::kF32, "vocabulary", "one per row of the table"}},
          {},
          {{"y", Dtype::kBF16, "rows,k", "y = bf16(mul(sB, i2f(q))), the scale in fp32"}},
          admit_embedding,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::embedding::cases, record::embedding, kinds, sink); },
          [](const Bound& c) { return run_embedding(c, ops::embedding::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::embedding::variants(), cpu); }};
}

Form silu_mul_form() {
  return {"silu_mul", 4, "SiLU and multiply",
          {{"gate", Dtype::kBF16, "count", "g"}, {"up", Dtype::kBF16, "count", "u"}},
          {},
          {{"y", Dtype::kBF16, "count", "g' = bf16(div_rn(g, add(1, exp2_5(mul(-g, log2e))))), y = bf16(mul(g', u)): two roundings"}},
          admit_anything,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::silu_mul::cases, record::silu_mul, kinds, sink); },
          [](const Bound& c) { return run_silu(c, ops::silu_mul::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::silu_mul::variants(), cpu); }};
}

Form rope_form() {
  return {"rope", 5, "rotary position embedding",
          {{"x", Dtype::kBF16, "rows,heads,d", "pairs (i, i + d/2)"},
           {"positions", Dtype::kI32, "rows", "rows of the tables"},
           {"cos", Dtype::kBF16, "table,half", "half = d / 2"},
           {"sin", Dtype::kBF16, "table,half", ""}},
          {},
          {{"x", Dtype::kBF16, "rows,heads,d", "y1 = bf16(sub(mul(x1, c), mul(x2, s))), y2 = bf16(add(mul(x2, c), mul(x1, s))), nothing contracted"}},
          admit_rope,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::rope::cases, record::rope, kinds, sink); },
          [](const Bound& c) { return run_rope(c, ops::rope::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::rope::variants(), cpu); }};
}

}  // namespace zeroulp::cases
