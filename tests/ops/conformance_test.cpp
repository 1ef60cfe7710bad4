// Every variant that this processor can run equals the reference on every case; every standing mutant is rejected; and the suite
// reports a skip as a skip.
#include "ops/conformance.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fp_env.h"
#include "ops/argmax/cases.h"
#include "ops/argmax/reference.h"
#include "ops/attention/cases.h"
#include "ops/attention/reference.h"
#include "ops/embedding/cases.h"
#include "ops/embedding/reference.h"
#include "ops/kv_cache/cases.h"
#include "ops/linear_s8/cases.h"
#include "ops/linear_s8/reference.h"
#include "ops/mutants/mutants.h"
#include "ops/nll/cases.h"
#include "ops/nll/reference.h"
#include "ops/quant_rows/cases.h"
#include "ops/quant_rows/reference.h"
#include "ops/residual/cases.h"
#include "ops/residual/reference.h"
#include "ops/rmsnorm/cases.h"
#include "ops/rmsnorm/reference.h"
#include "ops/rope/cases.h"
#include "ops/rope/reference.h"
#include "ops/silu_mul/cases.h"
#include "ops/silu_mul/reference.h"
#include "source_dir.h"

namespace zeroulp::ops::conformance {
namespace {

// The committed digest of all outputs of an op's reference: the same with every compiler, level of optimisation and processor.
std::string golden_digest(std::string_view op) {
  std::ifstream file(source_dir() + "/tests/golden/vectors/digests.json");
  return nlohmann::json::parse(file).value(std::string(op), "");
}

template <class Fn>
void check_mutants(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>> mutants, std::span<const Variant<Fn>> equivalents) {
  const FpEnvScope fp_env;
  ASSERT_FALSE(mutants.empty());
  for (const Outcome& o : run(op, cases, reference, mutants, cpu_features(), /*only_first=*/true)) {
    if (o.variant == kReference) continue;
    EXPECT_GT(o.differing, 0) << op << ": the mutant '" << o.variant << "' survives the suite";
    if (o.first) std::printf("[ rejected ] %s, %s: by '%s'\n", o.op.c_str(), o.variant.c_str(), o.first->in.name.c_str());
  }
  if (equivalents.empty()) return;
  for (const Outcome& o : run(op, cases, reference, equivalents, cpu_features()))
    EXPECT_EQ(o.differing, 0) << op << ": '" << o.variant << "' is listed as equal: " << o.first->in.name << "[" << o.first->index << "]: reference "
                              << o.first->want << ", " << o.first->got;
}

// What the variants of an op must show, and what its mutants must.
template <class Fn>
void check_op(std::string_view op, Cases<Fn>* cases, Fn* reference, std::span<const Variant<Fn>> variants,
              std::span<const Variant<Fn>> mutants, std::span<const Variant<Fn>> equivalents = {}) {
  const FpEnvScope fp_env;
  for (const Outcome& o : run(op, cases, reference, variants, cpu_features())) {
    if (o.variant == kReference) {
      EXPECT_EQ(o.digest, golden_digest(op))
          << op << ": the reference's bits moved. That is a new version of the contract, or a bug;"
          << " new cases alone also change it: see tests/golden/vectors/README.md";
      continue;
    }
    if (!o.skipped.empty()) {
      std::printf("[ skipped  ] %s, %s: %s\n", o.op.c_str(), o.variant.c_str(), o.skipped.c_str());
      continue;
    }
    std::printf("[ compared ] %s, %s: %lld cases, %lld elements\n", o.op.c_str(), o.variant.c_str(),
                static_cast<long long>(o.cases), static_cast<long long>(o.elements));
    EXPECT_GT(o.elements, 0);
    EXPECT_EQ(o.differing, 0) << op << ", " << o.variant << ": " << o.first->in.name << ", " << o.first->array << "["
                              << o.first->index << "]: reference " << o.first->want << ", " << o.first->got;
  }
  check_mutants(op, cases, reference, mutants, equivalents);
}

TEST(Conformance, Argmax) { check_op("argmax", argmax::cases, argmax::reference, argmax::variants(), mutants::of_argmax()); }
TEST(Conformance, Attention) {
  check_op("attention", attention::cases, attention::reference, attention::variants(), mutants::of_attention(),
           mutants::equivalents_of_attention());
  static constexpr Variant<attention::Fn> kFrame[] = {{"frame", Needs::kNothing, mutants::attention_without_fault}};
  for (const Outcome& o : run<attention::Fn>("attention", attention::cases, attention::reference, kFrame, cpu_features()))
    EXPECT_EQ(o.differing, 0) << "the mutants' frame itself is wrong: " << o.first->in.name;
}
TEST(Conformance, Embedding) {
  check_op("embedding", embedding::cases, embedding::reference, embedding::variants(), mutants::of_embedding());
}
TEST(Conformance, LinearS8) {
  check_op("linear_s8", linear_s8::cases, linear_s8::reference, linear_s8::variants(), mutants::of_linear_s8(),
           mutants::equivalents_of_linear_s8());
}
TEST(Conformance, KvCache) {
  check_mutants<kv_cache::StoreFn>("kv_cache", kv_cache::cases, kv_cache::store, mutants::of_kv_cache(), mutants::equivalents_of_kv_cache());
}
TEST(Conformance, RopeTable) {
  check_mutants<rope::TableFn>("rope_table", rope::table_cases, num::sincos_bf16, mutants::of_rope_table(), {});
}
TEST(Conformance, Nll) { check_op("nll", nll::cases, nll::reference, nll::variants(), mutants::of_nll()); }
TEST(Conformance, QuantRows) {
  check_op("quant_rows", quant_rows::cases, quant_rows::reference, quant_rows::variants(), mutants::of_quant_rows(),
           mutants::equivalents_of_quant_rows());
}
TEST(Conformance, Residual) {
  check_op("residual", residual::cases, residual::reference, residual::variants(), mutants::of_residual(),
           mutants::equivalents_of_residual());
}
TEST(Conformance, RmsNorm) {
  check_op("rmsnorm", rmsnorm::cases, rmsnorm::reference, rmsnorm::variants(), mutants::of_rmsnorm());
}
TEST(Conformance, Rope) { check_op("rope", rope::cases, rope::reference, rope::variants(), mutants::of_rope()); }
TEST(Conformance, SiluMul) {
  check_op("silu_mul", silu_mul::cases, silu_mul::reference, silu_mul::variants(), mutants::of_silu_mul(),
           mutants::equivalents_of_silu_mul());
}

void one_case(const Visit<residual::Fn>& visit) {
  visit({Kind::kHard, "one", "nothing"}, [](residual::Fn* run, Outputs& out) {
    Guarded<uint16_t> x(std::vector<uint16_t>(5, 0x3F80));
    const std::vector<uint16_t> y(5, 0x3F80);
    run({x.data(), y.data(), 5});
    out.add("x", x);
  });
}
void one_too_far(const residual::Args& a) {
  residual::reference(a);
  a.x[a.count] = 1;
}

TEST(Conformance, AWriteBehindTheEndIsADifference) {
  static constexpr Variant<residual::Fn> kTable[] = {{"far", Needs::kNothing, one_too_far}};
  const std::vector<Outcome> o = run<residual::Fn>("residual", one_case, residual::reference, kTable, cpu_features());
  ASSERT_EQ(o.size(), 2u);
  EXPECT_EQ(o[1].elements, 5);
  EXPECT_EQ(o[1].differing, 1);
  EXPECT_EQ(o[1].first->index, 5);
  EXPECT_NE(o[1].first->got.find("0x0001"), std::string::npos);
}

TEST(Conformance, AProcessorWithoutTheInstructionsSkipsAndSaysSo) {
  const CpuFeatures plain;
  const std::vector<Outcome> outcomes = run("residual", residual::cases, residual::reference, residual::variants(), plain);
  ASSERT_EQ(outcomes.size(), residual::variants().size());
  for (size_t i = 1; i < outcomes.size(); ++i) {
    EXPECT_NE(outcomes[i].skipped, "");
    EXPECT_EQ(outcomes[i].cases, 0);
  }
  const Verdict v = verdict(outcomes);
  EXPECT_TRUE(v.equal);
  EXPECT_EQ(v.ops_not_compared.size(), std::size(kOps)) << "what was skipped was not compared";
  const std::vector<std::string> only{"residual"};
  EXPECT_EQ(verdict(outcomes, only).ops_not_compared, only) << "asked for and skipped is not compared either";
}

TEST(Conformance, OnlyTheOpsAskedForRun) {
  const std::vector<std::string> only{"argmax"};
  const std::vector<Outcome> outcomes = run_all(CpuFeatures{}, {}, only);
  ASSERT_FALSE(outcomes.empty());
  for (const Outcome& o : outcomes) EXPECT_EQ(o.op, "argmax");
  const std::vector<std::string> variant{"argmax=avx2"};
  const std::vector<Outcome> of_variant = run_all(CpuFeatures{}, {}, variant);
  ASSERT_EQ(of_variant.size(), 2u);
  EXPECT_EQ(of_variant[1].variant, "avx2");
  const std::vector<std::string> unknown{"argmax=avx1"};
  EXPECT_EQ(verdict(run_all(CpuFeatures{}, {}, unknown), unknown).ops_not_compared, std::vector<std::string>{"argmax"});
}

}  // namespace
}  // namespace zeroulp::ops::conformance
