#include "ops/vector_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "num/exp2.h"
#include "num/quant.h"
#include "num/sincos.h"
#include "ops/case_inputs.h"

namespace zeroulp::ops::vectors {

using namespace conformance;
using num::float_to_bf16;

template <class T>
std::string hex(const std::vector<T>& values) {
  std::string text;
  for (const T v : values) {
    if (!text.empty()) text += ' ';
    if constexpr (std::is_same_v<T, float>)
      text += fmt::format("{:08x}", num::bits_of(v));
    else
      text += fmt::format("{:04x}", v);
  }
  return text;
}
template std::string hex(const std::vector<uint16_t>&);
template std::string hex(const std::vector<float>&);

template <class T>
std::vector<T> from_hex(const Json& json) {
  std::vector<T> values;
  const auto& text = json.get_ref<const std::string&>();
  for (size_t at = 0; at < text.size(); at += 2 * sizeof(T) + 1) {
    const auto bits = static_cast<uint32_t>(std::stoul(text.substr(at, 2 * sizeof(T)), nullptr, 16));
    if constexpr (std::is_same_v<T, float>)
      values.push_back(num::float_of(bits));
    else
      values.push_back(static_cast<uint16_t>(bits));
  }
  return values;
}
template std::vector<uint16_t> from_hex(const Json&);
template std::vector<float> from_hex(const Json&);

namespace {

Json vector(const std::string& name, Json input) { return {{"name", name}, {"input", std::move(input)}}; }

std::vector<uint16_t> repeated(const std::vector<uint16_t>& values, size_t times) {
  std::vector<uint16_t> all;
  for (size_t i = 0; i < times; ++i) all.insert(all.end(), values.begin(), values.end());
  return all;
}

}  // namespace

std::vector<Json> argmax_inputs() {
  std::vector<float> lanes(512, 0.0f);
  lanes[5] = lanes[256] = 3.0f;
  const auto of = [](const std::string& name, const std::vector<float>& l) { return vector(name, {{"logits", hex(l)}}); };
  return {of("the lowest of equals", {0, 1, 1}),
          of("512 logits, the largest at 5 and 256", lanes),
          of("-0 equals +0", {-1, -0.0f, 0.0f}),
          of("a NaN", {1, 2, NAN, 4}),
          of("an infinity", {1, INFINITY, 3}),
          of("one logit", {-7.5f}),
          of("a subnormal beats 0", {0.0f, num::float_of(1)})};
}

std::vector<Json> nll_inputs() {
  std::vector<float> many(800, -28.0f), steps;
  many[77] = 0;
  for (int i = 0; i <= 100; ++i) steps.push_back(static_cast<float>(-i) * 0.375f);
  const auto of = [](const std::string& name, const std::vector<float>& l, int64_t target) {
    return vector(name, {{"logits", hex(l)}, {"target", target}});
  };
  return {of("certain", {5.0f}, 0),
          of("one bit", {1.0f, 1.0f}, 1),
          of("0 and -1/2", {0.0f, -0.5f}, 1),
          of("0 and -1/4", {0.0f, -0.25f}, 0),
          of("0 and -5/8", {0.0f, -0.625f}, 0),
          of("a ladder, its foot", steps, 100),
          of("a ladder, its head", steps, 0),
          of("many logits of 3/4 of a unit", many, 77),
          of("a NaN", {1, NAN, 0}, 0),
          of("a target 2^22 bits below", {4e6f, 0.0f}, 1)};
}

std::vector<Json> residual_inputs() {
  num::PhiloxStream random(201);
  std::vector<uint16_t> x, y;
  for (const uint16_t a : kSpecialBf16)
    for (const uint16_t b : kSpecialBf16) x.push_back(a), y.push_back(b);
  std::vector<uint16_t> ties, halves;
  for (uint16_t b = 0; b < 32; ++b)
    ties.push_back(static_cast<uint16_t>(0x4380 + b)), halves.push_back(b % 2 ? 0xBF80 : 0x3F80);
  const auto of = [](const std::string& name, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    return vector(name, {{"x", hex(a)}, {"y", hex(b)}});
  };
  const auto p = random_bf16s(random, 45, 120, 130), q = random_bf16s(random, 45, 118, 132);
  return {of("special values", x, y), of("ties of both parities", ties, halves), of("random", p, q)};
}

std::vector<Json> embedding_inputs() {
  std::vector<int> codes;
  for (int row = 0; row < 4; ++row)
    for (int c = 0; c < 19; ++c) codes.push_back((row * 67 + c * 29) % 255 - 127);
  const std::vector<float> scales = {0x1.8p-10f, 0x1.010102p-7f, 0x1.fffffep-40f, 0x1.01p-5f};
  return {vector("ties, and scales that bf16 does not hold",
                 {{"tokens", {2, 0, 3, 1, 0}}, {"k", 19}, {"codes", codes}, {"scales", hex(scales)}})};
}

std::vector<Json> silu_mul_inputs() {
  num::PhiloxStream random(202);
  const std::vector<uint16_t> specials(std::begin(kSpecialBf16), std::end(kSpecialBf16));
  std::vector<uint16_t> large = {0xC2AC, 0xC2AE, 0xC2B0, 0xC2B2, 0xC2C8, 0xC37A, 0xC47A, 0xF180, 0x42AE, 0x42B2};
  const auto of = [](const std::string& name, const std::vector<uint16_t>& g, const std::vector<uint16_t>& u) {
    return vector(name, {{"gate", hex(g)}, {"up", hex(u)}});
  };
  const auto g = bell_bf16s(random, 150, 4.0f), u = bell_bf16s(random, 150, 4.0f);
  std::vector<uint16_t> steps;
  for (uint16_t b = 0; b < 256; ++b) steps.push_back(static_cast<uint16_t>(0xBF00 + b));
  return {of("special gates", specials, std::vector<uint16_t>(specials.size(), 0x3FC0)),
          of("special ups", std::vector<uint16_t>(specials.size(), 0x3FC0), specials),
          of("gates at the clamp", large, std::vector<uint16_t>(10, 0x3F80)),
          of("gates from -1/2 to -2", steps, std::vector<uint16_t>(256, 0x3F80)), of("random", g, u)};
}

std::vector<Json> rope_inputs() {
  num::PhiloxStream random(203);
  const auto of = [](const std::string& name, const std::vector<uint16_t>& x, int heads, int d,
                     const std::vector<int>& positions, const std::vector<uint16_t>& c, const std::vector<uint16_t>& s) {
    return vector(name,
                  {{"heads", heads}, {"d", d}, {"positions", positions}, {"x", hex(x)}, {"cos", hex(c)}, {"sin", hex(s)}});
  };
  std::vector<uint16_t> c, s;
  for (uint32_t p = 0; p < 4; ++p) {
    for (const float w : {1.0f, 0.3162278f, 0.1f, 0.001f, 1e-6f}) {
      const num::SinCosBf16 e = num::sincos_bf16(p * 355, w);
      c.push_back(e.cos);
      s.push_back(e.sin);
    }
  }
  return {of("two heads of 10, three rows", bell_bf16s(random, 60, 2.0f), 2, 10, {3, 0, 1}, c, s),
          of("a product that is not exact", {0x0081, 0x0001}, 1, 2, {0}, {0x3B7F}, {0x3AFD}),
          of("products that overflow", {0x7F00, 0x7F00}, 1, 2, {0}, {0x4000}, {0x4000})};
}

std::vector<Json> rmsnorm_inputs() {
  num::PhiloxStream random(204);
  const auto of = [](const std::string& name, const std::vector<uint16_t>& x, int rows, const std::vector<uint16_t>& w,
                     float eps = 1e-5f) {
    return vector(name,
                  {{"rows", rows}, {"d", w.size()}, {"eps", hex(std::vector<float>{eps})}, {"x", hex(x)}, {"weight", hex(w)}});
  };
  const std::vector<uint16_t> ones(33, 0x3F80);
  std::vector<uint16_t> spread(33, 0x3F7F), far(33, 0x2FFF), subnormal(33, 0x0003), huge(33, 0x3F80), infinite(33, 0x3F80);
  spread[31] = 0x4595;
  far[2] = 0x7095;
  huge[32] = 0x5F80;
  infinite[0] = 0xFF80;
  std::vector<Json> all = {of("three rows of 19", bell_bf16s(random, 57, 1.5f), 3, random_bf16s(random, 19, 122, 129)),
                           of("one element above the others", spread, 1, ones),
                           of("exponents so far apart that shifts pass 64", far, 1, ones),
                           of("zeros", repeated({0x0000, 0x8000}, 17), 1, std::vector<uint16_t>(34, 0x3F80)),
                           of("subnormals", subnormal, 1, std::vector<uint16_t>(33, 0x7F00)),
                           of("a mean that overflows", huge, 1, ones),
                           of("an infinity", infinite, 1, ones)};
  // Rows whose factor differs in its last place between ways to compute it, found among 16,384; with the fractions that show it.
  for (const int row : {141, 1738, 6592}) {
    std::vector<uint16_t> x = {static_cast<uint16_t>(0x3F80 | row >> 7), static_cast<uint16_t>(0x3F00 | (row & 0x7F))};
    for (int b = 0; b < 128; ++b) x.push_back(static_cast<uint16_t>(((127 - 40) << 7) | b));
    all.push_back(of(fmt::format("every fraction by factor {}", row), x, 1, std::vector<uint16_t>(130, 0x3F80)));
  }
  num::PhiloxStream found(1129);  // a row where a sum in floating point gives another factor, found by search
  all.push_back(of("an exact sum", bell_bf16s(found, 100, 1.5f), 1, std::vector<uint16_t>(100, 0x3F80)));
  return all;
}

std::vector<Json> quant_rows_inputs() {
  num::PhiloxStream random(205);
  std::vector<Json> all;
  const auto add = [&](const std::string& name, const std::vector<uint16_t>& x, int rows, const num::RowRange& range,
                       const std::vector<uint16_t>& absmax = {}) {
    for (const int width : {8, 15}) {
      Json in = {{"width", width},
                 {"rows", rows},
                 {"k", x.size() / static_cast<size_t>(rows)},
                 {"least", hex(std::vector<uint16_t>{range.min_bits})},
                 {"largest", hex(std::vector<uint16_t>{range.max_bits})},
                 {"x", hex(x)}};
      if (range.pow2_scale) in["pow2_scale"] = true;
      if (!absmax.empty()) in["absmax"] = hex(absmax);
      all.push_back(vector(fmt::format("{}, {} bits", name, width), in));
    }
  };
  std::vector<uint16_t> halves = {0x42FE};
  for (int q = -126; q < 127; q += 3) halves.push_back(float_to_bf16(static_cast<float>(q) + 0.5f));
  add("ties", halves, 1, num::kLinearRange);
  for (const uint16_t top : {0x3F81, 0x3F84, 0x3F8C, 0x3F8F}) {  // rows where x / s or x * (1 / s) gives other codes
    std::vector<uint16_t> x;
    for (uint16_t v = 0x3D80; v <= top; ++v) x.push_back(v);
    add(fmt::format("largest magnitude 0x{:04x}", top), x, 1, num::kLinearRange);
  }
  const num::RowRange& l = num::kLinearRange;
  const auto low = static_cast<uint16_t>(l.min_bits - 1), high = static_cast<uint16_t>(l.max_bits + 1);
  add("ends of the range, a row each",
      {l.min_bits, 0x0000, low, 0x0000, l.max_bits, 0x3F80, high, 0x3F80, 0x0000, 0x8000, 0x0001, 0x807F, 0x3F80, 0x7F80,
       0x7F81, 0x3F80},
      8, l);
  add("the attention range", {0x2B80, 0x0000, 0x2B7F, 0x0000, 0x5780, 0x3F80, 0x5781, 0x3F80}, 4, num::kAttentionRange);
  add("largest magnitudes given", {0x3F80, 0x3F00, 0xBF80, 0x3E80, 0x3F80, 0x3F80}, 3, l, {0x4040, 0x7FC0, 0x4000});
  add("random", bell_bf16s(random, 2 * 37, 3.0f), 2, l);
  add("power-of-two scale: 126.5, 127, 127.5, 128 and their halves", {0x42FD, 0x3F80, 0x42FE, 0xBF80, 0x42FF, 0x3F00, 0x4300, 0xBF00}, 4, num::kLinearPow2Range);
  return all;
}

std::vector<Json> linear_s8_inputs() {
  num::PhiloxStream random(206);
  std::vector<Json> all;
  const auto add = [&](const std::string& name, int width, int64_t rows, int64_t n, int64_t k, const std::vector<int>& codes,
                       const std::vector<int>& weights, const std::vector<float>& sa, const std::vector<float>& sb,
                       const std::vector<float>& bias, std::vector<const char*> outputs) {
    for (const char* output : outputs) {
      Json in = {{"width", width},
                 {"rows", rows},
                 {"n", n},
                 {"k", k},
                 {"output", output},
                 {"codes", codes},
                 {"weights", weights},
                 {"row_scales", hex(sa)},
                 {"channel_scales", hex(sb)}};
      if (!bias.empty()) in["bias"] = hex(bias);
      all.push_back(vector(fmt::format("{}, {} bits, {}", name, width, output), in));
    }
  };
  for (const int width : {8, 15}) {
    const int top = width == 8 ? 127 : 16256;
    std::vector<int> codes, weights;
    for (int i = 0; i < 3 * 35; ++i) codes.push_back(static_cast<int>(random.below(static_cast<uint64_t>(2 * top + 1))) - top);
    for (int i = 0; i < 20 * 35; ++i) weights.push_back(static_cast<int>(random.below(255)) - 127);
    std::vector<float> sa, sb, bias;
    for (int i = 0; i < 3; ++i) sa.push_back(random_scale(random, -16, -6));
    for (int i = 0; i < 20; ++i) sb.push_back(random_scale(random, -14, -8)), bias.push_back(bell(random, 0.5f));
    add("random", width, 3, 20, 35, codes, weights, sa, sb, {}, {"bf16", "fp32", "sums"});
    add("random with bias", width, 3, 20, 35, codes, weights, sa, sb, bias, {"bf16", "fp32"});
    // Sums whose conversion is a tie or next to one.
    for (const int64_t sum :
         width == 8 ? std::vector<int64_t>{257, 4194305, 16777219} : std::vector<int64_t>{257, 4294967598}) {
      const int64_t t = top, full = sum / (127 * t), rest = sum % (127 * t);
      std::vector<int> q(static_cast<size_t>(full), top), w(static_cast<size_t>(full) + 1, 127);
      q.push_back(static_cast<int>(rest / 127));
      q.push_back(static_cast<int>(rest % 127));
      w.push_back(1);
      add(fmt::format("the sum {}", sum), width, 1, 1, full + 2, q, w, {1.0f}, {1.0f}, {},
          sum < 1000 ? std::vector<const char*>{"bf16", "fp32"} : std::vector<const char*>{"fp32"});
    }
    std::vector<int> extreme(64, top), least(64, -127);
    add("largest codes and weights", width, 1, 1, 64, extreme, least, {0x1.8p-3f}, {0x1.4p-5f}, {}, {"fp32", "sums"});
    add("a faulted row", width, 1, 2, 3, {0, 0, 0}, {1, 2, 3, 4, 5, 6}, {num::bf16_to_float(num::kBf16Nan)}, {0.5f, 0.25f},
        {1.0f, 2.0f}, {"bf16"});
  }
  return all;
}

namespace {

struct Attention {
  std::string name;
  int d, key_width, group, rows, first, window;
};
Json attention_vector(const Attention& s, const std::vector<uint16_t>& keys, const std::vector<uint16_t>& values,
                      const std::vector<uint16_t>& queries) {
  return vector(fmt::format("{}, {}-bit keys", s.name, s.key_width), {{"d", s.d},
                                                                      {"key_width", s.key_width},
                                                                      {"group", s.group},
                                                                      {"rows", s.rows},
                                                                      {"first_position", s.first},
                                                                      {"window", s.window},
                                                                      {"keys", hex(keys)},
                                                                      {"values", hex(values)},
                                                                      {"queries", hex(queries)}});
}
Json random_attention(const Attention& s, float sharpness, uint64_t seed) {
  num::PhiloxStream random(seed);
  const int64_t positions = s.first + s.rows;
  const auto keys = bell_bf16s(random, positions * s.d, sharpness), values = bell_bf16s(random, positions * s.d, 1.0f);
  return attention_vector(s, keys, values, bell_bf16s(random, static_cast<int64_t>(s.rows) * s.group * s.d, sharpness));
}

// Nearly equal keys; the values of the first group of blocks cancel those of the second, so that the order of the merge shows.
Json two_groups() {
  num::PhiloxStream random(9016);
  const int positions = 1154;
  const auto keys = bell_bf16s(random, positions * 2, 0.02f);
  std::vector<uint16_t> values;
  for (int j = 0; j < 2 * positions; ++j) values.push_back(j < 2 * 1024 ? 0x4100 : 0xC27C);
  return attention_vector({"two groups that cancel", 2, 15, 1, 1, positions - 1, 0}, keys, values, bell_bf16s(random, 2, 1.0f));
}

Json with_elements(const Json& from, const char* name, const char* array,
                   const std::function<uint16_t(size_t, uint16_t)>& change) {
  Json v = from;
  v["name"] = name;
  std::vector<uint16_t> values = from_hex<uint16_t>(v["input"][array]);
  for (size_t i = 0; i < values.size(); ++i) values[i] = change(i, values[i]);
  v["input"][array] = hex(values);
  return v;
}

}  // namespace

std::vector<Json> attention_inputs() {
  std::vector<Json> all = {random_attention({"one block", 8, 15, 2, 1, 20, 0}, 1.5f, 207),
                           random_attention({"one block", 8, 8, 2, 1, 20, 0}, 1.5f, 208),
                           random_attention({"d in one rounding", 8, 15, 3, 2, 18, 0}, 1.5f, 5003),  // found by search
                           random_attention({"the first position", 6, 15, 3, 2, 0, 0}, 1.0f, 209),
                           random_attention({"two blocks", 8, 15, 1, 3, 126, 0}, 4.0f, 210),
                           random_attention({"a window across blocks", 8, 8, 1, 2, 140, 20}, 1.0f, 211),
                           two_groups()};
  all.push_back(with_elements(all[0], "a NaN key", "keys", [](size_t i, uint16_t x) { return i == 41 ? num::kBf16Nan : x; }));
  all.push_back(with_elements(all[0], "a value above the range", "values",
                              [](size_t i, uint16_t x) { return i == 41 ? uint16_t{0x5781} : x; }));
  all.push_back(with_elements(all[1], "zero value rows", "values", [](size_t i, uint16_t x) {
    return i / 8 % 2 ? uint16_t{0} : float_to_bf16(num::bf16_to_float(x) * 0x1p-20f);
  }));
  // A probability that is a tie above an even integer, found by search; and 28 equal keys whose values have ties as their means.
  std::vector<uint16_t> keys(128, 0x3F80), values(128, 0);
  std::fill(keys.begin() + 64, keys.end(), uint16_t{0xBE0A});
  values[64 + 9] = 0x3F80;
  all.push_back(
      attention_vector({"a probability that is a tie", 64, 8, 1, 1, 1, 0}, keys, values, std::vector<uint16_t>(64, 0x3EE0)));
  values.clear();
  for (int j = 0; j < 28; ++j)
    for (int i = 0; i < 16; ++i)
      values.push_back(i == 15 ? 0x42FE : float_to_bf16(static_cast<float>(64 + 3 * i + (j % 4 < 1 + i % 2 * 2 ? 1 : 0))));
  all.push_back(attention_vector({"means that are ties", 16, 15, 1, 1, 27, 0}, std::vector<uint16_t>(448, 0), values,
                                 std::vector<uint16_t>(16, 0)));
  return all;
}

std::vector<Json> kv_cache_inputs() {
  num::PhiloxStream random(208);
  std::vector<Json> all;
  const auto add = [&](const std::string& name, const std::vector<uint16_t>& k, const std::vector<uint16_t>& v) {
    for (const int width : {8, 15})
      all.push_back(vector(fmt::format("{}, {}-bit keys", name, width),
                           {{"d", k.size()}, {"key_width", width}, {"key", hex(k)}, {"value", hex(v)}}));
  };
  add("random", bell_bf16s(random, 10, 1.0f), bell_bf16s(random, 10, 1.0f));
  add("the least scale that holds 127, 127.5 and 1", {0x42FE, 0x42FF}, {0x42FE, 0x3F80});
  add("just above a power of the scale", {0x3F80, 0x3F80}, {0x42FF, 0x3F80});
  add("zero rows", {0x0000, 0x8000}, {0x8000, 0x0001});
  add("ends of the range", {0x2B80, 0x0000}, {0x5780, 0x3F80});
  add("a key above the range", {0x5781, 0x3F80}, {0x3F80, 0x3F80});
  add("a value that is not a number", {0x3F80, 0x3F80}, {0x3F80, 0x7FC0});
  return all;
}

std::vector<Json> sample_inputs() {
  std::vector<Json> all;
  const auto add = [&](const std::string& name, const std::vector<float>& logits, float t, int64_t k, double p,
                       uint32_t position, uint64_t request) {
    all.push_back(vector(name, {{"logits", hex(logits)},
                                {"temperature", hex(std::vector<float>{t})},
                                {"top_k", k},
                                {"top_p", p},
                                {"seed", 1234567890123456789},
                                {"position", position},
                                {"request", request}}));
  };
  const std::vector<float> eighths = {-2, 0, -1, -2}, ties = {0, 2, 2, 5, 2, 2};
  num::PhiloxStream random(209);
  std::vector<float> bells;
  for (int i = 0; i < 60; ++i) bells.push_back(bell(random, 2.0f));
  for (uint32_t position = 0; position < 6; ++position) {
    add(fmt::format("weights of eighths, position {}", position), eighths, num::kLog2E, 0, 1.0, position, 3);
    add(fmt::format("top-p at the boundary, position {}", position), eighths, num::kLog2E, 0, 0.75, position, 3);
    add(fmt::format("top-k of ties, position {}", position), ties, 1.0f, 3, 1.0, position, 3);
    add(fmt::format("top-k, then top-p, position {}", position), bells, 0.8f, 20, 0.9, position, uint64_t{1} << 40);
  }
  add("temperature 0", ties, 0.0f, 0, 1.0, 0, 0);
  add("a NaN", {0, NAN}, 1.0f, 0, 1.0, 0, 0);
  return all;
}

}  // namespace zeroulp::ops::vectors
