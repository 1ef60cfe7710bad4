// Sections 1 and 2: the quantiser of rows and the integer linear.
#include "cases/form_tools.h"
#include "num/quant.h"
#include "ops/linear_s8/cases.h"
#include "ops/linear_s8/reference.h"
#include "ops/quant_rows/cases.h"
#include "ops/quant_rows/reference.h"

namespace zeroulp::cases {

namespace qr = ops::quant_rows;
namespace lin = ops::linear_s8;

namespace {

constexpr std::string_view kRanges[] = {"linear", "attention", "linear-po2"};

const num::RowRange& range_of(std::string_view name) { return name == kRanges[0] ? num::kLinearRange : name == kRanges[1] ? num::kAttentionRange : num::kLinearPow2Range; }
std::string_view name_of(const num::RowRange& range) { return kRanges[range.pow2_scale ? 2 : range.min_bits == num::kLinearRange.min_bits ? 0 : 1]; }

Status admit_quant_rows(const Bound& c) {
  ZU_TRY(one_of(c, "width", {8, 15}));
  if (std::find(std::begin(kRanges), std::end(kRanges), c.text("range")) == std::end(kRanges))
    return outside("range", "must be 'linear', 'attention' or 'linear-po2'");
  const auto* given = c.in<uint16_t>("absmax");
  const auto* x = c.in<uint16_t>("x");
  const int64_t k = c.dim("k");
  for (int64_t row = 0; given != nullptr && row < c.dim("rows"); ++row)
    if (given[row] < qr::row_absmax(x + row * k, k))
      return outside("absmax", fmt::format("element {} is below the largest magnitude of its own row", row));
  return {};
}

Outputs run_quant_rows(const Bound& c, qr::Fn* run) {
  Outputs out = blanks(*c.c);
  const int64_t k = c.dim("k");
  run({c.in<uint16_t>("x"), k, c.dim("rows"), k, static_cast<int>(c.integer("width")), range_of(c.text("range")), c.in<uint16_t>("absmax"),
       out[0].as<int16_t>(), k, out[1].as<float>(), out[2].as<uint8_t>()});
  return out;
}

Outputs quant_rows_reference(const Bound& c) { return run_quant_rows(c, qr::reference); }

// linear_s8: the tensor type of each kind of output, in the order of lin::Output.
constexpr std::string_view kOutputs[] = {"bf16", "fp32", "sums"};
constexpr Dtype kOutputTypes[] = {Dtype::kBF16, Dtype::kF32, Dtype::kI64};

lin::Output output_of(std::string_view name) {
  return static_cast<lin::Output>(std::find(std::begin(kOutputs), std::end(kOutputs), name) - std::begin(kOutputs));
}

Status admit_linear(const Bound& c) {
  ZU_TRY(one_of(c, "width", {8, 15}));
  if (std::find(std::begin(kOutputs), std::end(kOutputs), c.text("output")) == std::end(kOutputs))
    return outside("output", "must be 'bf16', 'fp32' or 'sums'");
  if (c.text("output") == "sums" && c.in<float>("bias") != nullptr) return outside("bias", "exact sums have none");
  ZU_TRY(size_between(c, "k", 1, lin::kMaxK));
  const auto top = static_cast<int32_t>(num::quant_top(static_cast<int>(c.integer("width"))));
  ZU_TRY(all_of<int16_t>(c, "codes", fmt::format("codes lie in -{0} to {0}", top), [top](int16_t q) { return std::abs(int32_t{q}) <= top; }));
  ZU_TRY(all_of<int8_t>(c, "weights", "weights lie in -127 to 127", [](int8_t w) { return w != -128; }));
  return all_of<float>(c, "channel_scales", "scales lie in 2^-40 to 2^8", [](float s) { return s >= 0x1p-40f && s <= 0x1p8f; });
}

Outputs run_linear(const Bound& c, lin::Fn* run) {
  Outputs out = blanks(*c.c);
  const int64_t k = c.dim("k"), n = c.dim("n");
  run({c.in<int16_t>("codes"), k, c.in<float>("row_scales"), c.dim("rows"), k, static_cast<int>(c.integer("width")), c.in<int8_t>("weights"), k, n,
       c.in<float>("channel_scales"), c.in<float>("bias"), output_of(c.text("output")), out[0].data.data(), n});
  return out;
}

Outputs linear_reference(const Bound& c) { return run_linear(c, lin::reference); }

}  // namespace

std::vector<Runner> runners_of(std::span<const ops::Variant<qr::Fn>> table, const CpuFeatures& cpu) { return runners<qr::Fn, run_quant_rows>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<lin::Fn>> table, const CpuFeatures& cpu) { return runners<lin::Fn, run_linear>(table, cpu); }

namespace record {

void quant_rows(const qr::Args& a) {
  Case c;
  c.op = "quant_rows";
  c.attributes = {{"width", int64_t{a.width}}, {"range", std::string(name_of(a.range))}};
  c.inputs.push_back(packed("x", Dtype::kBF16, {a.rows, a.k}, a.x, a.k, a.x_stride));
  if (a.absmax != nullptr) c.inputs.push_back(dense("absmax", Dtype::kBF16, {a.rows}, a.absmax));
  c.outputs = {{"codes", Dtype::kI16, {a.rows, a.k}}, {"scales", Dtype::kF32, {a.rows}}, {"faults", Dtype::kU8, {a.rows}}};
  hand_over(std::move(c));
}

void linear_s8(const lin::Args& a) {
  Case c;
  c.op = "linear_s8";
  const auto output = static_cast<size_t>(a.output);
  c.attributes = {{"width", int64_t{a.width}}, {"output", std::string(kOutputs[output])}};
  c.inputs.push_back(packed("codes", Dtype::kI16, {a.rows, a.k}, a.codes, a.k, a.codes_stride));
  c.inputs.push_back(dense("row_scales", Dtype::kF32, {a.rows}, a.row_scales));
  c.inputs.push_back(packed("weights", Dtype::kI8, {a.n, a.k}, a.weights, a.k, a.weights_stride));
  c.inputs.push_back(dense("channel_scales", Dtype::kF32, {a.n}, a.channel_scales));
  if (a.bias != nullptr) c.inputs.push_back(dense("bias", Dtype::kF32, {a.n}, a.bias));
  c.outputs = {{"y", kOutputTypes[output], {a.rows, a.n}}};
  hand_over(std::move(c));
}

}  // namespace record

Form quant_rows_form() {
  return {"quant_rows", 1, "quantiser of activation rows",
          {{"x", Dtype::kBF16, "rows,k", "rows to quantise"},
           {"absmax", Dtype::kBF16, "rows", "the rows' largest magnitudes, when they come from elsewhere (tensor parallelism)", true}},
          {{"width", AttributeType::kInteger, "8 (T = 127) or 15 (T = 16256)"}, {"range", AttributeType::kText, "'linear', 'attention', or 'linear-po2': the linear's with power-of-two scales"}},
          {{"codes", Dtype::kI16, "rows,k", "q = rne(mul(x, m)) with m = div_rn(T, a), or 2^-e; codes 0 for a row below or above the range"},
           {"scales", Dtype::kF32, "rows", "s = div_rn(a, T), or 2^e, the least power of two with a <= T * 2^e; 1 below the range, NaN (0x7FC00000) for a fault"},
           {"faults", Dtype::kU8, "rows", "1 for a row with Inf, NaN or a magnitude above the range, else 0"}},
          admit_quant_rows,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(qr::cases, record::quant_rows, kinds, sink); },
          quant_rows_reference,
          [](const CpuFeatures& cpu) { return runners_of(qr::variants(), cpu); }};
}

Form linear_s8_form() {
  constexpr std::string_view kRule = "y = bf16(mul(sA, mul(sB, f))), with bias bf16(fma(sA, mul(sB, f), b)); f = i2f(acc) with one rounding, acc the exact sum";
  constexpr std::string_view kHeadRule = "y = mul(sA, mul(sB, f)) in fp32, with bias fma(sA, mul(sB, f), b); f = i2f(acc) with one rounding; NaN is 0x7FC00000";
  return {"linear_s8", 2, "integer linear",
          {{"codes", Dtype::kI16, "rows,k", "activation codes; |code| at most 127 (width 8) or 16256 (width 15)"},
           {"row_scales", Dtype::kF32, "rows", "sA; NaN for a faulted row"},
           {"weights", Dtype::kI8, "n,k", "-127 to 127"},
           {"channel_scales", Dtype::kF32, "n", "sB"},
           {"bias", Dtype::kF32, "n", "b", true}},
          {{"width", AttributeType::kInteger, "8 or 15"}, {"output", AttributeType::kText, "'bf16', 'fp32' (LM head) or 'sums' (int64, for an exchange)"}},
          {{"y", Dtype::kBF16, "rows,n", kRule, kOutputs[0]},
           {"y", Dtype::kF32, "rows,n", kHeadRule, kOutputs[1]},
           {"y", Dtype::kI64, "rows,n", "acc = the exact sum of code * weight", kOutputs[2]}},
          admit_linear,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(lin::cases, record::linear_s8, kinds, sink); },
          linear_reference,
          [](const CpuFeatures& cpu) { return runners_of(lin::variants(), cpu); }};
}

}  // namespace zeroulp::cases
