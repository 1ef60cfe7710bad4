// Section 6: the cache's quantiser and attention. Cases hold keys and values as plain tensors; the layout of zeroulp's blocks does not show.
#include "cases/form_tools.h"
#include "num/quant.h"
#include "ops/attention/cases.h"
#include "ops/attention/reference.h"

namespace zeroulp::cases {

namespace kv = ops::kv_cache;
namespace att = ops::attention;

namespace {

constexpr int64_t kMaxPosition = int64_t{1} << 28;
constexpr int8_t kLeastExponent = -46, kLargestExponent = 42;  // of a value row inside the range: 2^-40 / 127 and 2^48 / 127

Status admit_kv_cache(const Bound& c) {
  ZU_TRY(one_of(c, "key_width", {8, 15}));
  return size_between(c, "d", 1, att::kMaxD);
}
Outputs run_kv_cache(const Bound& c, kv::RowsFn* run) {
  Outputs out = blanks(*c.c);
  run({c.in<uint16_t>("k"), c.in<uint16_t>("v"), c.dim("rows"), c.dim("d"), static_cast<int>(c.integer("key_width")), out[0].as<int16_t>(),
       out[1].as<float>(), out[2].as<int8_t>(), out[3].as<int8_t>(), out[4].as<uint8_t>()});
  return out;
}

bool scale_is_good(float s) { return s >= 0 || std::isnan(s); }

Status admit_attention(const Bound& c) {
  ZU_TRY(one_of(c, "key_width", {8, 15}));
  ZU_TRY(between(c, "first_position", 0, kMaxPosition));
  ZU_TRY(between(c, "window", 0, kMaxPosition));
  ZU_TRY(size_between(c, "d", 1, att::kMaxD));
  const auto width = static_cast<int>(c.integer("key_width"));
  if (c.dim("keys") != c.integer("first_position") + c.dim("rows"))
    return outside("k_codes", fmt::format("has {} keys; first_position + rows is {}", c.dim("keys"), c.integer("first_position") + c.dim("rows")));
  if (c.real("score_constant") != double{att::score_constant(c.dim("d"), width)})
    return outside("score_constant", "is not the contract's for d and key_width");
  ZU_TRY(all_of<int16_t>(c, "q", "codes lie in -16256 to 16256", [](int16_t q) { return std::abs(int32_t{q}) <= 16256; }));
  const auto top = static_cast<int32_t>(num::quant_top(width));
  ZU_TRY(all_of<int16_t>(c, "k_codes", fmt::format("codes lie in -{0} to {0}", top), [top](int16_t q) { return std::abs(int32_t{q}) <= top; }));
  ZU_TRY(all_of<int8_t>(c, "v_codes", "codes lie in -127 to 127", [](int8_t w) { return w != -128; }));
  ZU_TRY(all_of<int8_t>(c, "v_exponents", "exponents are -128 (zero row) or lie in -46 to 42",
                        [](int8_t e) { return e == kv::kZeroRow || (e >= kLeastExponent && e <= kLargestExponent); }));
  ZU_TRY(all_of<float>(c, "q_scales", "scales are NaN or at least 0", scale_is_good));
  return all_of<float>(c, "k_scales", "scales are NaN or at least 0", scale_is_good);
}

// The case's keys and values in blocks; slots behind the last key hold rubbish.
std::vector<std::vector<std::byte>> blocks_of(const Bound& c, const kv::Layout& layout) {
  const int64_t keys = c.dim("keys"), d = layout.d;
  std::vector<std::vector<std::byte>> blocks;
  for (int64_t key = 0; key < keys; ++key) {
    const int64_t slot = key % kv::kBlock;
    if (slot == 0) blocks.emplace_back(static_cast<size_t>(layout.bytes()), std::byte{0x5A});
    const kv::View<std::byte> view(blocks.back().data(), layout);
    for (int64_t i = 0; i < d; ++i) {
      view.set_key(layout, slot, i, c.in<int16_t>("k_codes")[key * d + i]);
      view.values[i * kv::kBlock + slot] = c.in<int8_t>("v_codes")[key * d + i];
    }
    view.key_scales[slot] = c.in<float>("k_scales")[key];
    view.value_exponents[slot] = c.in<int8_t>("v_exponents")[key];
  }
  return blocks;
}

Outputs run_attention(const Bound& c, att::Fn* run) {
  Outputs out = blanks(*c.c);
  const kv::Layout layout{c.dim("d"), static_cast<int>(c.integer("key_width"))};
  const auto blocks = blocks_of(c, layout);
  std::vector<const std::byte*> pages;
  for (const auto& block : blocks) pages.push_back(block.data());
  const int64_t group = c.dim("group"), width = group * layout.d;
  run({layout, c.dim("rows"), group, c.integer("first_position"), c.integer("window"), static_cast<float>(c.real("score_constant")), c.in<int16_t>("q"),
       width, c.in<float>("q_scales"), group, pages.data(), 0, out[0].as<uint16_t>(), width, out[1].as<uint8_t>(), 1});
  return out;
}

}  // namespace

std::vector<Runner> runners_of(std::span<const ops::Variant<kv::RowsFn>> table, const CpuFeatures& cpu) { return runners<kv::RowsFn, run_kv_cache>(table, cpu); }
std::vector<Runner> runners_of(std::span<const ops::Variant<att::Fn>> table, const CpuFeatures& cpu) { return runners<att::Fn, run_attention>(table, cpu); }

namespace record {

void kv_cache(const kv::RowsArgs& a) {
  Case c;
  c.op = "kv_cache";
  c.attributes = {{"key_width", int64_t{a.key_width}}};
  c.inputs.push_back(dense("k", Dtype::kBF16, {a.rows, a.d}, a.k));
  c.inputs.push_back(dense("v", Dtype::kBF16, {a.rows, a.d}, a.v));
  c.outputs = {{"key_codes", Dtype::kI16, {a.rows, a.d}},
               {"key_scales", Dtype::kF32, {a.rows}},
               {"value_codes", Dtype::kI8, {a.rows, a.d}},
               {"value_exponents", Dtype::kI8, {a.rows}},
               {"faults", Dtype::kU8, {a.rows}}};
  hand_over(std::move(c));
}

void attention(const att::Args& a) {
  Case c;
  c.op = "attention";
  const int64_t d = a.layout.d, keys = a.first_position + a.rows;
  c.attributes = {{"key_width", int64_t{a.layout.key_width}}, {"first_position", a.first_position}, {"window", a.window}, {"score_constant", double{a.score_constant}}};
  c.inputs.push_back(packed("q", Dtype::kI16, {a.rows, a.group, d}, a.q, a.group * d, a.q_stride));
  c.inputs.push_back(packed("q_scales", Dtype::kF32, {a.rows, a.group}, a.q_scales, a.group, a.q_scales_stride));
  Tensor k = blank({"k_codes", Dtype::kI16, {keys, d}}), sk = blank({"k_scales", Dtype::kF32, {keys}}), v = blank({"v_codes", Dtype::kI8, {keys, d}}),
         ev = blank({"v_exponents", Dtype::kI8, {keys}});
  for (int64_t key = 0; key < keys; ++key) {
    const int64_t slot = key % kv::kBlock;
    const kv::View<const std::byte> view(a.pages[key / kv::kBlock] + a.page_offset, a.layout);
    for (int64_t i = 0; i < d; ++i) {
      const int32_t hi = view.key_hi[slot * d + i];
      k.as<int16_t>()[key * d + i] = static_cast<int16_t>(view.key_lo != nullptr ? 128 * hi + view.key_lo[slot * d + i] : hi);
      v.as<int8_t>()[key * d + i] = view.values[i * kv::kBlock + slot];
    }
    sk.as<float>()[key] = view.key_scales[slot];
    ev.as<int8_t>()[key] = view.value_exponents[slot];
  }
  for (Tensor* t : {&k, &sk, &v, &ev}) c.inputs.push_back(std::move(*t));
  c.outputs = {{"out", Dtype::kBF16, {a.rows, a.group, d}}, {"faults", Dtype::kU8, {a.rows}}};
  hand_over(std::move(c));
}

}  // namespace record

Form kv_cache_form() {
  return {"kv_cache", 6, "quantiser of cached keys and values",
          {{"k", Dtype::kBF16, "rows,d", "keys"}, {"v", Dtype::kBF16, "rows,d", "values"}},
          {{"key_width", AttributeType::kInteger, "8 or 15"}},
          {{"key_codes", Dtype::kI16, "rows,d", "section 1 at the attention range; codes 0 for a fault"},
           {"key_scales", Dtype::kF32, "rows", "div_rn(a, T); NaN (0x7FC00000) when the key row or the value row is a fault"},
           {"value_codes", Dtype::kI8, "rows,d", "rne(mul(v, 2^-e)); 0 in a zero row and for a fault"},
           {"value_exponents", Dtype::kI8, "rows", "the least e with a <= 127 * 2^e; -128 for a zero row (a < 2^-40) and a fault"},
           {"faults", Dtype::kU8, "rows", "1 when the key row or the value row is above the range, or has Inf or NaN"}},
          admit_kv_cache,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(kv::row_cases, record::kv_cache, kinds, sink); },
          [](const Bound& c) { return run_kv_cache(c, kv::store_rows); },
          [](const CpuFeatures& cpu) {
            static constexpr ops::Variant<kv::RowsFn> kTable[] = {{"reference", ops::Needs::kNothing, kv::store_rows}};
            return runners_of(std::span(kTable), cpu);
          }};
}

Form attention_form() {
  return {"attention", 6, "integer attention of consecutive rows against one KV head",
          {{"q", Dtype::kI16, "rows,group,d", "15-bit codes; row r stands at position first_position + r"},
           {"q_scales", Dtype::kF32, "rows,group", "sQ"},
           {"k_codes", Dtype::kI16, "keys,d", "codes of key_width bits; keys = first_position + rows"},
           {"k_scales", Dtype::kF32, "keys", "sK; NaN for a fault"},
           {"v_codes", Dtype::kI8, "keys,d", ""},
           {"v_exponents", Dtype::kI8, "keys", "e; -128: a zero row"}},
          {{"key_width", AttributeType::kInteger, "8 or 15"},
           {"first_position", AttributeType::kInteger, ""},
           {"window", AttributeType::kInteger, "visible keys; 0: all"},
           {"score_constant", AttributeType::kReal, "C_d, a binary32"}},
          {{"out", Dtype::kBF16, "rows,group,d", "exact integers in blocks of 128 keys, merged in the mandated order by groups of 8 blocks, bf16(div_rn(O, L)); "
                                                 "0x7FC0 for a head with a range error"},
           {"faults", Dtype::kU8, "rows", "1 when a head of the row met a score that is not finite or at or beyond 2^22, else 0"}},
          admit_attention,
          [](const std::vector<Kind>& kinds, const Sink& sink) { each_case(att::cases, record::attention, kinds, sink); },
          [](const Bound& c) { return run_attention(c, att::reference); },
          [](const CpuFeatures& cpu) { return runners_of(att::variants(), cpu); }};
}

}  // namespace zeroulp::cases
