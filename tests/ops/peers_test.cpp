// Our statements of other stacks' arithmetic (ops/peers) against vectors that their own code produced (tests/golden/foreign, made by
// tools/golden/peers.py).
#include "ops/peers/peers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fp_env.h"
#include "ops/linear_s8/reference.h"
#include "source_dir.h"

namespace zeroulp::ops::peers {
namespace {

using Json = nlohmann::json;

Json golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/golden/foreign/" + name);
  return file ? Json::parse(file) : Json();
}

template <class T>
std::vector<T> numbers(const Json& text) {
  std::vector<T> out;
  std::istringstream words(text.get<std::string>());
  for (std::string word; words >> word;) {
    const auto bits = static_cast<uint32_t>(std::stoul(word, nullptr, 16));
    if constexpr (std::is_same_v<T, float>)
      out.push_back(num::float_of(bits));
    else
      out.push_back(static_cast<T>(bits));
  }
  return out;
}

struct Inputs {
  Json j;
  int64_t rows = j["rows"], n = j["channels"], k = j["k"];
  std::vector<int16_t> codes;
  std::vector<int8_t> weights = numbers<int8_t>(j["weights"]);
  std::vector<float> row_scales = numbers<float>(j["row_scales"]), bias;

  explicit Inputs(const std::string& folder = "") : j(golden(folder + "inputs.json")) {
    for (const int8_t q : numbers<int8_t>(j["codes"])) codes.push_back(q);
    for (const uint16_t b : numbers<uint16_t>(j["bias"])) bias.push_back(num::bf16_to_float(b));
  }
  std::vector<uint16_t> run(linear_s8::Fn* linear, const std::string& kind, bool biased) const {
    const std::vector<float> scales = numbers<float>(j[kind]);
    std::vector<uint16_t> y(static_cast<size_t>(rows * n));
    linear({codes.data(), k, row_scales.data(), rows, k, 8, weights.data(), k, n, scales.data(), biased ? bias.data() : nullptr, linear_s8::Output::kBf16, y.data(), n});
    return y;
  }
};

int differing(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

class Peers : public testing::Test {
 protected:
  FpEnvScope fp_env_;
  Inputs in_;

  void linear_is_the_peers(const std::string& file, Linear which) { linear_is_the_peers(file, which, in_); }
  static void linear_is_the_peers(const std::string& file, Linear which, const Inputs& inputs) {
    const Json j = golden(file);
    ASSERT_FALSE(j.is_null()) << file;
    int compared = 0;
    for (const std::string kind : {"free", "po2"})
      for (const bool biased : {false, true}) {
        const auto want = numbers<uint16_t>(j["linear"][kind + (biased ? ", bias" : "")]);
        EXPECT_EQ(differing(want, inputs.run(linear_of(which), kind, biased)), 0) << file << ": " << kind << (biased ? ", with bias" : "");
        compared += static_cast<int>(want.size());
      }
    EXPECT_GE(compared, 4 * 64);
  }

  // `codes_off`: of those, so many differ, all by one: where an approximate division decides (see triton_quotient in peers.cpp).
  void quantiser_is_the_peers(const std::string& file, Quantiser which, int64_t k, int codes_off = 0) { quantiser_is_the_peers(file, which, k, codes_off, in_); }
  static void quantiser_is_the_peers(const std::string& file, Quantiser which, int64_t k, int codes_off, const Inputs& inputs) {
    const Json j = golden(file);
    ASSERT_FALSE(j.is_null()) << file;
    const auto x = numbers<uint16_t>(inputs.j["x"]);
    const auto codes = numbers<int8_t>(j["quantiser"]["codes"]);
    const auto scales = numbers<uint32_t>(j["quantiser"]["scales"]);
    const auto rows = static_cast<int64_t>(x.size()) / k;
    std::vector<int16_t> q(x.size());
    std::vector<float> s(static_cast<size_t>(rows));
    std::vector<uint8_t> faults(static_cast<size_t>(rows));
    quantiser_of(which)({x.data(), k, rows, k, 8, num::kLinearRange, nullptr, q.data(), k, s.data(), faults.data()});
    ASSERT_EQ(codes.size(), q.size());
    ASSERT_GE(codes.size(), 64u);
    int wrong = 0;
    for (size_t i = 0; i < q.size(); ++i) {
      wrong += q[i] != codes[i];
      EXPECT_LE(std::abs(q[i] - codes[i]), codes_off > 0 ? 1 : 0) << file << ": code " << i;
    }
    EXPECT_EQ(wrong, codes_off) << file << ": codes";
    if (which == Quantiser::kLlamaQ80) return;  // the peer keeps them in fp16
    wrong = 0;
    for (size_t i = 0; i < s.size(); ++i) wrong += num::bits_of(s[i]) != scales[i];
    EXPECT_EQ(wrong, 0) << file << ": scales";
  }
};

TEST_F(Peers, Torchao) { linear_is_the_peers("torchao.json", Linear::kTorchao); }
TEST_F(Peers, DequantiseFirst) { linear_is_the_peers("dequantise.json", Linear::kDequantiseFirst); }
TEST_F(Peers, LlamaQ80) { linear_is_the_peers("ggml.json", Linear::kLlamaQ80); }
TEST_F(Peers, LlamaQ80Quantiser) { quantiser_is_the_peers("ggml.json", Quantiser::kLlamaQ80, 32); }

TEST_F(Peers, VllmCutlass2x) { linear_is_the_peers("vllm_cutlass_2x.json", Linear::kVllmCutlass); }
TEST_F(Peers, VllmCutlass3x) { linear_is_the_peers("vllm_cutlass_3x.json", Linear::kVllmCutlass); }
TEST_F(Peers, SglangOnSm90) { linear_is_the_peers("sglang_sm90.json", Linear::kVllmCutlass); }
TEST_F(Peers, SglangPremultiplied) { linear_is_the_peers("sglang_premultiplied.json", Linear::kSglangPremultiplied); }
TEST_F(Peers, VllmDynamicQuantiser) { quantiser_is_the_peers("vllm_dynamic.json", Quantiser::kVllm, 128); }
TEST_F(Peers, VllmStaticQuantiser) { quantiser_is_the_peers("vllm_static.json", Quantiser::kVllmStatic, 128); }
TEST_F(Peers, VllmTriton) { linear_is_the_peers("vllm_triton.json", Linear::kVllmTriton); }
TEST_F(Peers, SglangBlock) { linear_is_the_peers("sglang_block.json", Linear::kSglangBlock); }
TEST_F(Peers, SglangToken) { quantiser_is_the_peers("sglang_token.json", Quantiser::kSglangToken, 128); }
TEST_F(Peers, SglangGroup) { quantiser_is_the_peers("sglang_group.json", Quantiser::kSglangGroup, 128, /*codes_off=*/1); }

// Inputs at which the orders differ, which are too near each other to differ on the ordinary ones: what each statement says can be seen there.
TEST_F(Peers, TellingInputsTellTheOrdersApart) {
  const Inputs telling("telling/");
  linear_is_the_peers("telling/dequantise.json", Linear::kDequantiseFirst, telling);
  linear_is_the_peers("telling/torchao.json", Linear::kTorchao, telling);
  linear_is_the_peers("telling/ggml.json", Linear::kLlamaQ80, telling);
  linear_is_the_peers("telling/vllm_cutlass_2x.json", Linear::kVllmCutlass, telling);
  linear_is_the_peers("telling/vllm_cutlass_3x.json", Linear::kVllmCutlass, telling);
  linear_is_the_peers("telling/sglang_sm90.json", Linear::kVllmCutlass, telling);
  linear_is_the_peers("telling/sglang_premultiplied.json", Linear::kSglangPremultiplied, telling);
  linear_is_the_peers("telling/vllm_triton.json", Linear::kVllmTriton, telling);
  linear_is_the_peers("telling/sglang_block.json", Linear::kSglangBlock, telling);
  quantiser_is_the_peers("telling/ggml.json", Quantiser::kLlamaQ80, 32, 0, telling);
  quantiser_is_the_peers("telling/vllm_dynamic.json", Quantiser::kVllm, 128, 0, telling);
  quantiser_is_the_peers("telling/vllm_static.json", Quantiser::kVllmStatic, 128, 0, telling);
  quantiser_is_the_peers("telling/sglang_token.json", Quantiser::kSglangToken, 128, 2, telling);  // rows at ties, where the hardware's reciprocal decides
  quantiser_is_the_peers("telling/sglang_group.json", Quantiser::kSglangGroup, 128, 7, telling);
  const auto differ = [&](linear_s8::Fn* a, Linear b, const std::string& kind, bool biased) { return differing(telling.run(a, kind, biased), telling.run(linear_of(b), kind, biased)); };
  for (const std::string kind : {"free", "po2"})
    for (const bool biased : {false, true}) EXPECT_EQ(differ(linear_s8::reference, Linear::kVllmCutlass, kind, biased), 0) << kind;
  for (const Linear which : {Linear::kVllmTriton, Linear::kSglangPremultiplied}) {
    EXPECT_GT(differ(linear_s8::reference, which, "free", false), 0);
    EXPECT_EQ(differ(linear_s8::reference, which, "po2", false), 0) << "powers of two make the orders equal";
    for (const std::string kind : {"free", "po2"}) EXPECT_GT(differ(linear_s8::reference, which, kind, true), 0) << "the bias is added after a rounding: " << kind;
  }
  EXPECT_GT(differ(linear_of(Linear::kVllmTriton), Linear::kSglangPremultiplied, "free", false), 0);
}

// Rows and channels go several at a time there: parts of a linear are what the whole has.
TEST_F(Peers, DequantiseFirstOfAPartIsThePartOfTheWhole) {
  const auto run = [&](int64_t rows, int64_t n) {
    const std::vector<float> scales = numbers<float>(in_.j["free"]);
    std::vector<float> y(static_cast<size_t>(rows * n));
    linear_of(Linear::kDequantiseFirst)({in_.codes.data(), in_.k, in_.row_scales.data(), rows, in_.k, 8, in_.weights.data(), in_.k, n, scales.data(), in_.bias.data(), linear_s8::Output::kF32, y.data(), n});
    return y;
  };
  const std::vector<float> whole = run(in_.rows, in_.n);
  for (const int64_t rows : {1, 3, 5, 7})
    for (const int64_t n : {1, 7, 8, 13}) {
      const std::vector<float> part = run(rows, n);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < n; ++c) EXPECT_EQ(num::bits_of(part[static_cast<size_t>(r * n + c)]), num::bits_of(whole[static_cast<size_t>(r * in_.n + c)])) << rows << ' ' << n;
    }
}

TEST_F(Peers, CutlassOrderIsTheContracts) {
  for (const std::string kind : {"free", "po2"})
    for (const bool biased : {false, true}) EXPECT_EQ(differing(in_.run(linear_s8::reference, kind, biased), in_.run(linear_of(Linear::kVllmCutlass), kind, biased)), 0);
}

// What the table of docs/foreign.md says, on these vectors: equal under power-of-two weights without a bias, and who is not even then.
TEST_F(Peers, PowersOfTwoMakeOrdersEqualAndNothingElse) {
  const auto differs = [&](Linear which, const std::string& kind, bool biased) { return differing(in_.run(linear_s8::reference, kind, biased), in_.run(linear_of(which), kind, biased)); };
  for (const Linear which : {Linear::kVllmTriton, Linear::kSglangPremultiplied, Linear::kTorchao}) EXPECT_EQ(differs(which, "po2", false), 0);
  EXPECT_GT(differs(Linear::kVllmTriton, "po2", true), 0) << "the bias is added after a rounding";
  EXPECT_GT(differs(Linear::kTorchao, "po2", true), 0) << "the same";
  EXPECT_GT(differs(Linear::kTorchao, "free", false), 0);
  EXPECT_GT(differs(Linear::kLlamaQ80, "po2", false), 0) << "the activation's scale is kept in fp16";
}

}  // namespace
}  // namespace zeroulp::ops::peers
