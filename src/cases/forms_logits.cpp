// Section 8: argmax, nll, sampling.
#include "cases/form_tools.h"
#include "ops/argmax/cases.h"
#include "ops/argmax/reference.h"
#include "ops/nll/cases.h"
#include "ops/nll/reference.h"

namespace zeroulp::cases {
namespace {

constexpr int64_t kMaxVocabulary = int64_t{1} << 23;

Status admit_argmax(const Bound&) { return {}; }
Outputs run_argmax(const Bound& c, ops::argmax::Fn* run) {
  Outputs out = blanks(*c.c);
  ops::argmax::Args args{c.in<float>("logits"), c.dim("count")};
  run(args);
  *out[0].as<int64_t>() = args.index;
  return out;
}

Status admit_nll(const Bound& c) {
  ZU_TRY(size_between(c, "count", 1, kMaxVocabulary - 1));
  return between(c, "target", 0, c.dim("count") - 1);
}
Outputs run_nll(const Bound& c, ops::nll::Fn* run) {
  Outputs out = blanks(*c.c);
  ops::nll::Args args{c.in<float>("logits"), c.dim("count"), c.integer("target")};
  run(args);
  *out[0].as<int64_t>() = args.result;
  return out;
}

Status admit_sample(const Bound& c) {
  ZU_TRY(size_between(c, "count", 1, kMaxVocabulary - 1));
  ZU_TRY(is_float(c, "temperature"));
  const double t = c.real("temperature"), p = c.real("top_p");
  if (t != 0 && !(t >= 0x1p-20 && t <= 0x1p20)) return outside("temperature", "must be 0 or lie in 2^-20 to 2^20");
  if (!(p > 0 && p <= 1)) return outside("top_p", "must be above 0 and at most 1");
  ZU_TRY(between(c, "top_k", 0, INT64_MAX));
  return between(c, "position", 0, UINT32_MAX);
}
Outputs run_sample(const Bound& c, ops::sample::DrawFn* run) {
  Outputs out = blanks(*c.c);
  ops::sample::DrawArgs args{c.in<float>("logits"), c.dim("count"),
                             {static_cast<float>(c.real("temperature")), c.integer("top_k"), c.real("top_p"), static_cast<uint64_t>(c.integer("seed"))},
                             static_cast<uint32_t>(c.integer("position")), static_cast<uint64_t>(c.integer("request"))};
  run(args);
  *out[0].as<int64_t>() = args.token;
  return out;
}

Case logits_case(std::string_view op, const float* logits, int64_t count, std::string_view output) {
  Case c;
  c.op = op;
  c.inputs.push_back(dense("logits", Dtype::kF32, {count}, logits));
  c.outputs = {{std::string(output), Dtype::kI64, {1}}};
  return c;
}

}  // namespace

std::vector<Runner> runners_of(std::span<const ops::Variant<ops::argmax::Fn>> table, const CpuFeatures& cpu) { return runners<ops::argmax::Fn, run_argmax>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::nll::Fn>> table, const CpuFeatures& cpu) { return runners<ops::nll::Fn, run_nll>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<ops::sample::DrawFn>> table, const CpuFeatures& cpu) { return runners<ops::sample::DrawFn, run_sample>(table, cpu); }

namespace record {

void argmax(ops::argmax::Args& a) { hand_over(logits_case("argmax", a.logits, a.count, "index")); }

void nll(ops::nll::Args& a) {
  Case c = logits_case("nll", a.logits, a.count, "result");
  c.attributes = {{"target", a.target}};
  hand_over(std::move(c));
}

void sample(ops::sample::DrawArgs& a) {
  Case c = logits_case("sample", a.logits, a.count, "token");
  c.attributes = {{"temperature", double{a.settings.temperature}},
                  {"top_k", a.settings.top_k},
                  {"top_p", a.settings.top_p},
                  {"seed", static_cast<int64_t>(a.settings.seed)},
                  {"position", int64_t{a.position}},
                  {"request", static_cast<int64_t>(a.request)}};
  hand_over(std::move(c));
}

}  // namespace record

Form argmax_form() {
  return {"argmax", 8, "greedy choice",
          {{"logits", Dtype::kF32, "count", ""}},
          {},
          {{"index", Dtype::kI64, "1", "the lowest index of the largest logit, -0 equal to +0; -1 when any logit is NaN or infinite"}},
          admit_argmax,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::argmax::cases, record::argmax, kinds, sink); },
          [](const Bound& c) { return run_argmax(c, ops::argmax::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::argmax::variants(), cpu); }};
}

Form nll_form() {
  return {"nll", 8, "negative log-likelihood in units of 2^-24 bits",
          {{"logits", Dtype::kF32, "count", ""}},
          {{"target", AttributeType::kInteger, "0 to count - 1"}},
          {{"result", Dtype::kI64, "1", "log2_q24(S) - 40 * 2^24 + rne(mul(2^24, z)); -1 when a logit is NaN or infinite, or z at or beyond 2^22"}},
          admit_nll,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::nll::cases, record::nll, kinds, sink); },
          [](const Bound& c) { return run_nll(c, ops::nll::reference); },
          [](const CpuFeatures& cpu) { return runners_of(ops::nll::variants(), cpu); }};
}

Form sample_form() {
  return {"sample", 8, "seeded sampling",
          {{"logits", Dtype::kF32, "count", ""}},
          {{"temperature", AttributeType::kReal, "a binary32: 0 (argmax), or 2^-20 to 2^20"},
           {"top_k", AttributeType::kInteger, "0: off"},
           {"top_p", AttributeType::kReal, "a binary64; 1: off"},
           {"seed", AttributeType::kInteger, "64 bits"},
           {"position", AttributeType::kInteger, "32 bits"},
           {"request", AttributeType::kInteger, "64 bits"}},
          {{"token", Dtype::kI64, "1", "the first kept index, ascending, whose cumulative integer weight passes floor(r64 * S / 2^64); -1 when a logit is NaN or infinite"}},
          admit_sample,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(ops::sample::cases, record::sample, kinds, sink); },
          [](const Bound& c) { return run_sample(c, ops::sample::draw_one); },
          [](const CpuFeatures& cpu) {
            static constexpr ops::Variant<ops::sample::DrawFn> kTable[] = {{"reference", ops::Needs::kNothing, ops::sample::draw_one}};
            return runners_of(std::span(kTable), cpu);
          }};
}

}  // namespace zeroulp::cases
