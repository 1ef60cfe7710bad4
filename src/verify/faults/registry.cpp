#include "verify/faults/registry.h"

#include <algorithm>

#include "base/check.h"
#include "ops/mutants/mutants.h"

namespace zeroulp::verify {
namespace {

using enum FaultClass;

// Gates in the order of the letters: suite; equal, one spacing, torch, vLLM Triton, vLLM CUTLASS, cosine, largest; tokens, perplexity.
constexpr Fault kFaults[] = {
    // The linear's epilogue.
    {"scale-order", kOrder, "linear_s8", "activation's scale first", "sB (sA f) for sA (sB f)", "vLLM's Triton kernel beside its CUTLASS kernels", "xx......x.", "",
     "x........."},
    {"scales-premultiplied", kOrder, "linear_s8", "premultiplied scales", "(sA sB) f for sA (sB f)", "SGLang on sm75 to sm89, TensorRT-LLM", "xx......x.", "", "x........."},
    {"rounded-once", kOrder, "linear_s8", "rounded once from binary64", "the product in binary64", "references that are better than the kernel", "xx......x.", "",
     "x........."},
    {"channel-scale-ulp", kOrder, "linear_s8", "channel scale one unit off", "sB + 1 fp32 unit", "a / 127 beside a * (1 / 127)", "xx......x.", "", "xx......x."},
    {"sum-truncated", kOrder, "linear_s8", "sum truncated to fp32", "i2f towards zero", "conversions beyond 2^24", "xx......x.", "", "x........."},
    {"channel-scale-bf16", kExtraRounding, "linear_s8", "channel scale kept in bf16", "bf16(sB)", "checkpoints saved in bf16", "xx......x.", "", "x........."},
    {"row-scale-bf16", kExtraRounding, "linear_s8", "row scale kept in bf16", "bf16(sA)", "", "xx......x.", "", "xx......x."},
    {"bf16-between", kExtraRounding, "linear_s8", "bf16 between the scales", "bf16(sB f)", "", "xx......x.", "", "xx......x."},
    {"bf16-every-step", kExtraRounding, "linear_s8", "bf16 after every step", "bf16(sA bf16(f))", "torchao with bf16 scales", "xxx.....x.", "", "xx......x."},
    {"by-tf32", kExtraRounding, "linear_s8", "rounded by way of tf32", "10 bits of fraction, then bf16", "double rounding on the way to 8-bit floats", "xx......x."},
    {"logits-bf16", kExtraRounding, "linear_s8", "logits kept in bf16", "the head's output in bf16", "heads left in bf16", "xx......x."},
    {"truncated", kFinalRounding, "linear_s8", "truncated to bf16", "the upper half of the fp32 bits", "the classic shift by 16", "xx......x."},
    {"half-away", kFinalRounding, "linear_s8", "ties away from zero", "add 0x8000 and cut", "TensorRT#3009, tt-metal#56525", "xx......x."},
    {"bias-mul-add", kBias, "linear_s8", "bias added after a rounding", "a product and a sum for fma", "CUTLASS built with -fmad=false", "x.........", "xxx.....x."},
    {"bias-bf16", kBias, "linear_s8", "bias added in bf16", "bf16(y) + bf16(b)", "vLLM's Triton kernel", "x.........", "xxxx....x."},
    {"bias-lost", kBias, "linear_s8", "bias left out", "no b", "", "x.........", "xxxxxxxxxx"},
    // The linear's sum.
    {"k-last", kLostElements, "linear_s8", "last element left out", "K - 1 products", "masks of the K tail", "xxxxx..xxx"},
    {"k-tail", kLostElements, "linear_s8", "K cut to whole tiles of 128", "128 floor(K / 128) products", "kernels without a tail", "xxxxxxxxxx", "x.........", ""},
    {"offset-kept", kOffset, "linear_s8", "offset not taken off", "sum of (q + 1) w", "zero points one off", "xxxx....x.", "", "xxxxx..xxx"},
    {"saturating-pairs", kOverflow, "linear_s8", "saturated pair products", "vpmaddubsw on q + 128", "oneDNN#476", "xxxxx..xx."},
    {"fast-conversion", kOverflow, "linear_s8", "fast conversion beyond 2^22", "a magic addition for i2f", "cutlass#127", "xxxxxxxxxx", "", "x........."},
    {"wrapped-sum", kOverflow, "linear_s8", "sum wrapped at 32 bits", "both planes in one int32", "", "x........."},
    {"planes-fp32", kOverflow, "linear_s8", "planes joined in fp32", "fma(128, hi, lo) in the head", "", "x........."},
    {"lanes-swapped", kLayout, "linear_s8", "every two codes exchanged", "q[k ^ 1] w[k]", "fragment layouts", "xxxxxxxxxx"},
    {"split-k-fp32", kFloatSum, "linear_s8", "split-K joined in fp32", "four scaled parts, added in fp32", "split-K with a float workspace", "xxx.....x.", "", "xx......x."},
    {"split-k-bf16", kFloatSum, "linear_s8", "split-K joined in bf16", "four scaled parts, each bf16", "bf16 all-reduce inside a GEMM", "xxxx....x."},
    {"block-scaling", kFloatSum, "linear_s8", "scaled inside the K loop", "128 products at a time, scaled, added in fp32", "SGLang's block-int8 kernel", "xxx.....x.", "",
     "xx......x."},
    {"accumulate-fp16", kFloatSum, "linear_s8", "accumulated in fp16", "64 products at a time, added in fp16", "", "xxxx....x."},
    {"accumulate-fp32", kFloatSum, "linear_s8", "dequantised, then summed in fp32", "sum of (sA q)(sB w) in fp32", "emulation paths", "xxx.....x.", "", "xx......x."},
    {"neighbours-scale", kWrongScale, "linear_s8", "the neighbour's channel scale", "sB of the next channel", "permuted scales", "xxxxxxxxxx"},
    {"first-rows-scale", kWrongScale, "linear_s8", "the first row's scale", "sA of row 0 for all rows", "scales [N] read as [1]", "xxxxxxxxxx"},
    {"stale-row-scale", kWrongScale, "linear_s8", "the scale of the row before", "sA of the row before", "batch indexing", "xxxxxxxxxx"},
    // The quantiser.
    {"quant-half-away", kQuantiserRounding, "quant_rows", "ties away from zero", "round in place of rint", "SGLang's Triton quantiser beside vLLM's CUDA quantiser", "xxxx....x."},
    {"quant-half-up", kQuantiserRounding, "quant_rows", "ties upwards", "floor(t + 0.5)", "", "xxxx....x."},
    {"quant-truncated", kQuantiserRounding, "quant_rows", "truncated", "a cast", "vllm#45361, sglang#4396, tt-metal#51304", "xxxx....x.", "", "xxxxx..xxx"},
    {"quant-divided", kQuantiserRounding, "quant_rows", "x / s", "x / s for x (127 / a)", "vLLM's static quantiser beside its dynamic one", "xxxx....x."},
    {"quant-magic-fma", kQuantiserRounding, "quant_rows", "contracted magic addition", "fma(x, m, 1.5 2^23)", "", "xxxx....x."},
    {"quant-scale", kOrder, "quant_rows", "scale by a reciprocal", "a (1 / 127) for a / 127", "", "xx......x."},
    {"quant-clamp", kQuantiserRange, "quant_rows", "clamped one short", "codes to 126", "", "xxxx....x.", "", "xxxx....xx"},
    {"quant-minus-128", kQuantiserRange, "quant_rows", "codes down to -128", "a / 128, codes -128 to 127", "asymmetric int8", "xxxx....x.", "", "xxxx...xx."},
    {"quant-max-last", kQuantiserRange, "quant_rows", "maximum without the last element", "maximum over K - 1", "", "xxxxx..xx."},
    {"quant-max-batch", kQuantiserRange, "quant_rows", "maximum of all rows", "one maximum for the call", "per tensor for per token", "xxxxx.xxxx"},
    {"quant-max-stale", kQuantiserRange, "quant_rows", "maximum of the row before", "the maximum of the row before", "", "xxxxx.xxxx"},
    // RMSNorm.
    {"norm-one-rounding", kExtraRounding, "rmsnorm", "one rounding instead of two", "bf16(x r w)", "vllm#42325, vllm#49639", "xx......x."},
    {"norm-rsqrt", kApproximation, "rmsnorm", "reciprocal square root rounded once", "a correctly rounded rsqrt", "", "xx......x."},
    {"norm-rsqrt-approximate", kApproximation, "rmsnorm", "approximate reciprocal square root", "12 bits and a Newton step", "rsqrtf", "xx......x."},
    {"norm-float-sum", kFloatSum, "rmsnorm", "sum in floating point", "sum of squares in fp32", "", "xx......x."},
    {"norm-double-sum", kExtraRounding, "rmsnorm", "sum converted by way of binary64", "two conversions", "", "x........."},
    {"norm-epsilon-outside", kConstant, "rmsnorm", "epsilon outside the root", "1 / (sqrt(ms) + eps)", "", "xxx.....x."},
    {"norm-no-epsilon", kConstant, "rmsnorm", "epsilon left out", "1 / sqrt(ms)", "", "xxx.....x."},
    {"norm-count", kConstant, "rmsnorm", "divided by one element fewer", "S / (D - 1)", "sample variance", "xxx.....x."},
    {"norm-last", kLostElements, "rmsnorm", "last element left out", "D - 1 squares", "", "xxx.....x."},
    // RoPE.
    {"rope-three-roundings", kExtraRounding, "rope", "three roundings", "products in bf16", "rotation in bf16", "xxxx....x."},
    {"rope-backwards", kLayout, "rope", "turned backwards", "-sin", "", "xxxxxxxxxx"},
    {"rope-interleaved", kLayout, "rope", "interleaved pairs", "(2i, 2i + 1) for (i, i + d/2)", "GPT-J against NeoX style", "xxxxxxxxxx"},
    {"rope-row", kMask, "rope", "row number for position", "the row's number in the call", "decoding in batches", "x.......xx"},
    {"rope-earlier", kMask, "rope", "one position earlier", "position - 1", "", "xxxxxxxxx."},
    {"rope-position-bf16", kMask, "rope", "positions of 8 bits", "the position cut to 8 significant bits", "positions in bf16", "xxxxxxxx.x"},
    {"rope-angle-fp32", kApproximation, "rope_table", "angle in fp32", "cosf(pos w)", "tables made in fp32", "xxxx....x."},
    {"rope-table-truncated", kFinalRounding, "rope_table", "entries truncated", "the table truncated to bf16", "", "xxxx....x."},
    {"rope-angle-bf16", kExtraRounding, "rope_table", "angle in bf16", "cosf(bf16(pos w))", "rotary caches made in bf16", "xxxxxxxxxx"},
    // Attention.
    {"attention-exponential", kApproximation, "attention", "the other exponential", "degree 5 for degree 3", "another exp2", "xxx.....x."},
    {"attention-reciprocal", kApproximation, "attention", "times the reciprocal", "O (1 / L)", "", "xx......x."},
    {"attention-no-groups", kOrder, "attention", "no groups of blocks", "blocks merged one after another", "another split of the keys", "x........."},
    {"attention-merge-order", kOrder, "attention", "merged from the last block to the first", "descending blocks", "another split of the keys", "xx........"},
    {"attention-scales-joined", kOrder, "attention", "scales joined first", "acc (sK c) for (acc sK) c", "", "xx......x."},
    {"attention-future", kMask, "attention", "keys of later positions", "the whole last block is visible", "causal masks", "xxxxxxxxxx"},
    {"attention-own-key", kMask, "attention", "own key unseen", "j < i for j <= i", "masks one off", "xxxxxxxxxx"},
    {"attention-window", kMask, "attention", "window one short", "W - 1", "masks one off", "x........."},
    {"attention-page", kCache, "attention", "the page before", "page b - 1 for page b", "stale block tables", "xxxxxxxxxx"},
    {"attention-denominator", kConstant, "attention", "denominator from the values' weights", "B from p", "", "xxxxx.xxxx"},
    {"attention-low-planes", kExtraRounding, "attention", "low planes multiplied", "lo lo is not dropped", "", "xx......x.", "", "x........."},
    {"attention-constant-bf16", kConstant, "attention", "score constant kept in bf16", "bf16(log2(e) / sqrt(d))", "scale arguments in bf16", "xxxx...xx."},
    {"attention-8-bits", kExtraRounding, "attention", "probabilities of 8 bits", "127 levels for 16,256", "int8 P", "xxxx....x."},
    {"attention-half-away", kQuantiserRounding, "attention", "ties away from zero", "round in place of rint for p and w", "", "xx......x."},
    {"attention-truncated", kQuantiserRounding, "attention", "probabilities truncated", "a cast of p and w", "", "xxx.....x."},
    // The KV cache, judged on what attention makes of it.
    {"cache-values-truncated", kQuantiserRounding, "kv_cache", "values truncated", "a cast of the value's code", "vllm#45361", "xxxx....x."},
    {"cache-keys-truncated", kQuantiserRounding, "kv_cache", "keys truncated", "a cast of the key's code", "vllm#45361", "xxx.....x."},
    {"cache-exponent-nearest", kQuantiserRange, "kv_cache", "exponent by the nearest power", "clips", "log-nearest scales", "xxxxx.xxxx"},
    {"cache-stale-scale", kCache, "kv_cache", "scale of the block's first key", "sK of slot 0", "stale scales", "xxxxx.xxxx"},
    {"cache-halves", kLayout, "kv_cache", "halves of the value exchanged", "v[i + d/2]", "", "xxxxxxxxxx"},
    // The rest.
    {"silu-one-rounding", kExtraRounding, "silu_mul", "one rounding instead of two", "bf16(silu(g) u)", "fused activations", "xx......x."},
    {"silu-exp-bf16", kExtraRounding, "silu_mul", "exponential in bf16", "bf16(exp(-g))", "", "xxx.....x."},
    {"silu-library-exp", kApproximation, "silu_mul", "the library's exp", "expf", "", "x........."},
    {"silu-exchanged", kLayout, "silu_mul", "gate and up exchanged", "silu(u) g", "fused gate_up weights", "xxxxxxxxxx"},
    {"residual-truncated", kFinalRounding, "residual", "truncated to bf16", "x + y truncated", "", "xx......x."},
    {"residual-half-away", kFinalRounding, "residual", "ties away from zero", "x + y with ties away", "", "xx......x."},
    {"embedding-scale-bf16", kExtraRounding, "embedding", "scale kept in bf16", "bf16(sB)", "", "xx......x."},
    {"argmax-last", kTie, "argmax", "last of equals", ">= for >", "another order of the reduction", "x.------.-"},
};

constexpr bool whole(std::string_view letters) {
  return letters.empty() || (letters.size() == kGates && letters.find_first_not_of("x.-") == letters.npos);
}
static_assert(std::all_of(std::begin(kFaults), std::end(kFaults), [](const Fault& f) {
  return !f.predicted.empty() && whole(f.predicted) && whole(f.predicted_qwen) && whole(f.predicted_w8a8_po2);
}));

constexpr Equivalent kEquivalents[] = {
    {"k-permuted", "linear_s8", "K permuted in both operands", "", "a sum of integers has no order; Conformance.LinearS8"},
    {"split-k-integers", "linear_s8", "split-K joined in integers", "", "the same; Conformance.LinearS8"},
    {"premultiplied-pow2", "linear_s8", "premultiplied power-of-two scales", "no bias, every sB a power of two",
     "a power of two moves through a rounding as long as nothing under- or overflows, which the ranges of sA and sB exclude; one million "
     "samples in ContractNumbers.OrdersOfTheScales"},
    {"scale-order-pow2", "linear_s8", "activation's scale first, the other a power of two", "no bias, every sB a power of two", "the same"},
    {"quant-flush", "quant_rows", "subnormals flushed", "", "a subnormal x gives |x m| < 2^-40, code 0, and no scale is subnormal; all subnormals with the largest and the least "
     "rows in Faults.FlushingSubnormalsChangesNoCode"},
    {"quant-magic", "quant_rows", "magic addition in two steps", "", "|q| <= 2^22; every pair of a binade in ContractNumbers.QuantiserOfFifteenBits"},
    {"attention-backwards", "attention", "keys of a block backwards", "", "the sums of a block are integers; Conformance.Attention"},
    {"cache-log2", "kv_cache", "exponent by the library's log2", "bf16 values", "all 128 fractions of every exponent in Faults.LogarithmGivesTheLeastExponentForBf16"},
    {"silu-reciprocal", "silu_mul", "times a reciprocal", "", "all 65,536 gates in ContractNumbers.SiluIsTheNearestBf16AndAReciprocalGivesTheSame"},
    {"residual-binary64", "residual", "by way of binary64", "", "24 >= 2 * 8 + 2: the second rounding is harmless; all x with 33 addends in Conformance.Residual"},
};

template <class Fn>
Fn* mutant(std::span<const ops::Variant<Fn>> table, std::string_view name) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const auto& v) { return v.name == name; });
  ZU_CHECK(it != table.end());
  return it->run;
}

}  // namespace

std::string_view gate_name(Gate gate) {
  static constexpr std::array<std::string_view, kGates> kNames = {
      "equal bits on the suite's inputs", "equal bits", "one bf16 spacing", "PyTorch's default for bf16", "vLLM's test of Triton int8", "vLLM's test of CUTLASS int8",
      "cosine of at least 0.999", "1 % of the largest value", "the same greedy tokens", "perplexity within 0.5 %"};
  return kNames[static_cast<size_t>(gate)];
}
std::string_view gate_short(Gate gate) {
  static constexpr std::array<std::string_view, kGates> kNames = {"suite", "equal", "1 spacing", "torch", "vLLM Triton", "vLLM CUTLASS", "cosine", "max rel.", "tokens", "perplexity"};
  return kNames[static_cast<size_t>(gate)];
}

std::span<const Fault> faults() { return kFaults; }
std::span<const Equivalent> equivalents() { return kEquivalents; }

const Fault* find_fault(std::string_view name) {
  const auto it = std::find_if(std::begin(kFaults), std::end(kFaults), [&](const Fault& f) { return f.name == name; });
  return it == std::end(kFaults) ? nullptr : it;
}

std::string_view prediction(const Fault& f, bool biases, std::string_view profile) {
  if (profile == "w8a8-po2" && !f.predicted_w8a8_po2.empty()) return f.predicted_w8a8_po2;
  return biases && !f.predicted_qwen.empty() ? f.predicted_qwen : f.predicted;
}

void inject(const Fault& f, ops::Kernels& k) {
  using namespace ops::mutants;
  const auto put = [&f](auto table, auto& variant) { variant = {"fault", ops::Needs::kNothing, mutant(table, f.mutant)}; };
  if (f.op == "linear_s8") return put(of_linear_s8(), k.linear_s8);
  if (f.op == "quant_rows") return put(of_quant_rows(), k.quant_rows);
  if (f.op == "rmsnorm") return put(of_rmsnorm(), k.rmsnorm);
  if (f.op == "rope") return put(of_rope(), k.rope);
  if (f.op == "attention") return put(of_attention(), k.attention);
  if (f.op == "silu_mul") return put(of_silu_mul(), k.silu_mul);
  if (f.op == "residual") return put(of_residual(), k.residual);
  if (f.op == "embedding") return put(of_embedding(), k.embedding);
  if (f.op == "argmax") return put(of_argmax(), k.argmax);
  if (f.op == "rope_table") return void(k.rope_table = mutant(of_rope_table(), f.mutant));
  ZU_CHECK(f.op == "kv_cache");
  k.store = mutant(of_kv_cache(), f.mutant);
}

}  // namespace zeroulp::verify
