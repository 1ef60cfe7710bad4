// What a conversion is asked to do: profiles, rules and widths, and their spelling in a recipe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/json.h"
#include "model/config.h"
#include "num/weight_scale.h"

namespace zeroulp::quant {

// Tokens of a text that GPTQ, smoothing and the choice of widths look at.
struct Calibration {
  std::vector<int32_t> tokens;
  int64_t first_token = 0;   // of the text's tokens
  std::string text_sha256;   // of the whole text file
  int64_t window = 1024;     // tokens that see each other
  int64_t held_out = 0;      // the last of `tokens`: only measured on, for the choice of widths

  std::span<const int32_t> fitted() const { return std::span(tokens).first(tokens.size() - static_cast<size_t>(held_out)); }
  std::span<const int32_t> measured() const { return std::span(tokens).last(static_cast<size_t>(held_out)); }
};

struct Options {
  std::string profile = "w8a15-free";
  num::ScaleRule rule = num::ScaleRule::kFree;
  int width = 15;                     // of every linear that `widths` does not name
  std::map<std::string, int> widths;  // "q_proj", "layers.3.q_proj" or "head"; the longer name wins
  int key_width = 15;
  bool gptq = false;
  std::optional<double> smooth;  // alpha of the smoothing of linears' inputs; absent: none
  bool absorb = false;           // scales' mantissas of up and v into down and o (quant/absorb.h); for power-of-two scales
  bool pow2_rows = false;        // activations' scales are powers of two as well
  std::optional<double> budget;  // mean KL up to which inputs are narrowed to 8 bits (quant/budget.h); widths must then be 15
};

inline constexpr double kDefaultAlpha = 0.5;
inline constexpr std::string_view kProfiles[] = {"w8a15-free", "w8a8-po2", "w8a15-po2", "w8a8-free", "both-po2"};

// A profile's options. `exponent` ("ceil", "lsq", "nearest") is for power-of-two scales; empty: the profile's own rule.
Result<Options> profile_options(std::string_view profile, std::string_view exponent);

// "q_proj=8" and the like into options.widths; refuses names that no linear of the model has.
Status set_width(Options& options, const model::ModelConfig& config, std::string_view assignment);

// The width of every linear, by the names of QuantizedHeader::linear_widths.
std::map<std::string, int> linear_widths(const Options& options, const model::ModelConfig& config);

// True when some linear's input has 8 bits.
bool has_narrow_linear(const Options& options, const model::ModelConfig& config);

io::Json to_json(const Options& options);
io::Json to_json(const Calibration& calibration);

}  // namespace zeroulp::quant
