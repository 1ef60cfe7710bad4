#include "quant/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/quantized_model.h"

namespace zeroulp::quant {
namespace {

num::ScaleRule rule_named(std::string_view name) {
  const auto it = std::find(std::begin(num::kScaleRuleNames), std::end(num::kScaleRuleNames), name);
  return static_cast<num::ScaleRule>(it - std::begin(num::kScaleRuleNames));
}

bool names_a_linear(std::string_view name) {
  return std::find(std::begin(model::kLinearNames), std::end(model::kLinearNames), name) != std::end(model::kLinearNames);
}

// "layers.N.q_proj" with N below `layers`.
bool names_one_linear(std::string_view name, int64_t layers) {
  constexpr std::string_view kPrefix = "layers.";
  const size_t dot = name.rfind('.');
  if (!name.starts_with(kPrefix) || dot <= kPrefix.size() || !names_a_linear(name.substr(dot + 1))) return false;
  const std::string number(name.substr(kPrefix.size(), dot - kPrefix.size()));
  if (number.size() > 6 || !std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  return std::to_string(std::stoll(number)) == number && std::stoll(number) < layers;
}

}  // namespace

Result<Options> profile_options(std::string_view profile, std::string_view exponent) {
  if (std::find(std::begin(kProfiles), std::end(kProfiles), profile) == std::end(kProfiles))
    return usage_error(fmt::format("there is no profile '{}'; the profiles are {}", profile, fmt::join(kProfiles, ", ")));
  if (!exponent.empty() && exponent != "ceil" && exponent != "lsq" && exponent != "nearest")
    return usage_error(fmt::format("there is no exponent rule '{}'; the rules are ceil, lsq, nearest", exponent));
  Options o;
  o.profile = profile;
  const bool free = profile.ends_with("-free");
  if (free && !exponent.empty())
    return usage_error(fmt::format("profile {} has free scales; --exponent is for power-of-two scales", profile));
  o.rule = free ? num::ScaleRule::kFree : exponent.empty() ? num::ScaleRule::kCeil : rule_named(exponent);
  o.width = profile.starts_with("w8a15") ? 15 : 8;
  o.gptq = !free;
  // At 8 bits the stretched rows of up and v make their tokens' scales coarser by as much as their own codes gain.
  o.absorb = !free && o.width == 15;
  o.pow2_rows = profile == "both-po2";
  if (!free && o.width == 8) o.smooth = kDefaultAlpha;
  return o;
}

Status set_width(Options& options, const model::ModelConfig& config, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  const std::string name(assignment.substr(0, equals));
  const std::string_view value = equals == std::string_view::npos ? "" : assignment.substr(equals + 1);
  if (value != "8" && value != "15")
    return usage_error(fmt::format("'{}' sets no width; write NAME=8 or NAME=15", assignment));
  if (name != "head" && !names_a_linear(name) && !names_one_linear(name, config.layers))
    return usage_error(fmt::format("'{}' names no linear of this model; the names are {}, layers.0.q_proj to layers.{}.down_proj, and head",
                                   name, fmt::join(model::kLinearNames, ", "), config.layers - 1));
  options.widths[name] = value == "8" ? 8 : 15;
  return {};
}

std::map<std::string, int> linear_widths(const Options& options, const model::ModelConfig& config) {
  const auto width_of = [&](const std::string& name, int otherwise) {
    const auto it = options.widths.find(name);
    return it == options.widths.end() ? otherwise : it->second;
  };
  std::map<std::string, int> out = {{"head", width_of("head", options.width)}};
  for (int64_t layer = 0; layer < config.layers; ++layer)
    for (const std::string_view linear : model::kLinearNames) {
      const std::string name = fmt::format("layers.{}.{}", layer, linear);
      out[name] = width_of(name, width_of(std::string(linear), options.width));
    }
  return out;
}

bool has_narrow_linear(const Options& options, const model::ModelConfig& config) {
  const auto widths = linear_widths(options, config);
  return std::any_of(widths.begin(), widths.end(), [](const auto& w) { return w.first != "head" && w.second == 8; });
}

io::Json to_json(const Options& o) {
  io::Json json = {{"profile", o.profile},
          {"scales", num::kScaleRuleNames[static_cast<int>(o.rule)]},
          {"width", o.width},
          {"widths", o.widths},
          {"key_width", o.key_width},
          {"rounding", o.gptq ? "gptq" : "nearest"},
          {"smooth", o.smooth ? io::Json(*o.smooth) : io::Json(nullptr)},
          {"absorb", o.absorb},
          {"budget", o.budget ? io::Json(*o.budget) : io::Json(nullptr)}};
  if (o.pow2_rows) json["row_scales"] = "power of two";
  return json;
}

io::Json to_json(const Calibration& c) {
  if (c.tokens.empty()) return nullptr;
  return {{"text_sha256", c.text_sha256},
          {"first_token", c.first_token},
          {"tokens", c.tokens.size()},
          {"held_out", c.held_out},
          {"window", c.window}};
}

}  // namespace zeroulp::quant
