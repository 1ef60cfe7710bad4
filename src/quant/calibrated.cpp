#include "quant/calibrated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/tensor_names.h"
#include "quant/absorb.h"
#include "quant/gptq.h"
#include "quant/smoothing.h"

namespace zeroulp::quant {
namespace {

using model::LinearRole;

// What a linear's input becomes at its width: at 15 bits the bf16 values themselves, at 8 bits the codes times their row's scale.
InputRows inputs_at_width(const std::vector<uint16_t>& x, int64_t k, int width, const num::RowRange& range, const ops::Kernels& kernels) {
  if (width == 15) return input_rows(x, k);
  return {static_cast<int64_t>(x.size()) / k, k, [&x, k, width, range, &kernels](int64_t first, int64_t rows, float* out) {
            std::vector<int16_t> codes(static_cast<size_t>(rows * k));
            std::vector<float> scales(static_cast<size_t>(rows));
            std::vector<uint8_t> faults(static_cast<size_t>(rows));
            kernels.quant_rows.run({x.data() + first * k, k, rows, k, width, range, nullptr, codes.data(), k, scales.data(), faults.data()});
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t j = 0; j < k; ++j)
                out[r * k + j] = num::i2f(int32_t{codes[static_cast<size_t>(r * k + j)]}) * scales[static_cast<size_t>(r)];
          }};
}

}  // namespace

Result<LayerCodes> round_layer(FloatLayer floats, const Options& options, int64_t layer, ThreadPool& pool) {
  LayerCodes out;
  out.floats = std::move(floats);
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    ZU_TRY_ASSIGN(out.linears[r], round_linear(out.floats[role], options.rule, linear_name(layer, role), pool));
  }
  return out;
}

CalibratedRun::CalibratedRun(const model::Checkpoint& checkpoint, const Options& options, const Calibration& calibration,
                             const ops::Kernels& kernels, ThreadPool& pool)
    : checkpoint_(checkpoint),
      config_(checkpoint.config()),
      options_(options),
      calibration_(calibration),
      kernels_(kernels),
      pool_(pool),
      widths_(linear_widths(options, config_)),
      row_range_(options.pow2_rows ? num::kLinearPow2Range : num::kLinearRange),
      teacher_(config_, kernels, pool, static_cast<int64_t>(calibration.fitted().size()), calibration.window) {
  if (options.gptq) student_.emplace(config_, kernels, pool, teacher_.tokens(), calibration.window);
}

Status CalibratedRun::start(const model::QuantizedLinear& embedding) {
  const auto k = static_cast<size_t>(config_.hidden);
  for (size_t t = 0; t < calibration_.fitted().size(); ++t) {
    const int64_t token = calibration_.fitted()[t];
    ZU_TRY_ASSIGN(const auto row, checkpoint_.float_rows(model::kEmbeddingName, token, token + 1));
    for (size_t j = 0; j < k; ++j) teacher_.x[t * k + j] = num::float_to_bf16(row[j]);
  }
  if (student_) student_->embed(calibration_.fitted(), embedding);
  return {};
}

model::TensorMap CalibratedRun::state() const {
  model::TensorMap out;
  out["teacher"] = model::make_tensor(Dtype::kBF16, {teacher_.tokens(), config_.hidden}, teacher_.x);
  if (student_) out["student"] = model::make_tensor(Dtype::kBF16, {teacher_.tokens(), config_.hidden}, student_->x);
  return out;
}

Status CalibratedRun::restore(const model::TensorMap& state) {
  const auto copy = [&](const char* name, std::vector<uint16_t>& x) -> Status {
    const auto it = state.find(name);
    if (it == state.end() || it->second.bytes.size() != x.size() * 2)
      return bad_input(fmt::format("the interrupted conversion's {} state does not fit; start anew with --force", name));
    std::memcpy(x.data(), it->second.bytes.data(), it->second.bytes.size());
    return {};
  };
  ZU_TRY(copy("teacher", teacher_.x));
  return student_ ? copy("student", student_->x) : Status();
}

Result<LayerCodes> CalibratedRun::convert(int64_t layer) {
  ZU_TRY_ASSIGN(FloatLayer floats, load_layer(checkpoint_, layer));
  ZU_TRY(run_teacher(floats, layer));
  ZU_TRY(smooth(floats));
  if (options_.absorb) absorb_mantissas(floats, config_);
  if (!student_) return round_layer(std::move(floats), options_, layer, pool_);
  LayerCodes codes;
  codes.floats = std::move(floats);
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    ZU_TRY_ASSIGN(codes.linears[r], choose_scales(codes.floats[role], options_.rule, linear_name(layer, role), pool_));
  }
  ZU_TRY(round_by_student(codes, layer));
  return codes;
}

Status CalibratedRun::run_teacher(const FloatLayer& floats, int64_t layer) {
  Options free;
  free.rule = num::ScaleRule::kFree;
  model::QuantizedLayer view;
  CodedLinear linears[model::kLinearsPerLayer];
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    const auto role = static_cast<LinearRole>(r);
    ZU_TRY_ASSIGN(linears[r], round_linear(floats[role], num::ScaleRule::kFree, linear_name(layer, role), pool_));
    view.linears[r] = view_of(linears[r], 15);
  }
  view.input_norm = floats.input_norm.data(), view.post_norm = floats.post_norm.data();
  view.q_norm = floats.q_norm.data(), view.k_norm = floats.k_norm.data();
  teacher_.whole_layer(view, layer);
  return teacher_.take_fault(layer);
}

Status CalibratedRun::smooth(FloatLayer& floats) const {
  ChannelMaxima m;
  m.attention_in = channel_maxima(input_rows(teacher_.attention_in, config_.hidden), pool_);
  m.mlp_in = channel_maxima(input_rows(teacher_.mlp_in, config_.hidden), pool_);
  m.down_in = channel_maxima(input_rows(teacher_.down_in, config_.intermediate), pool_);
  m.o_in = channel_maxima(input_rows(teacher_.o_in, config_.q_size()), pool_);
  m.keys = channel_maxima(input_rows(teacher_.keys, config_.kv_size()), pool_);
  Shifts shifts;
  if (options_.smooth) choose_input_shifts(shifts, config_, floats, m, *options_.smooth);
  if (options_.key_width == 8) choose_key_shifts(shifts, config_, m);
  keep_exact(shifts, config_, floats);
  return fold(floats, config_, shifts);
}

model::QuantizedLayer CalibratedRun::view(const LayerCodes& codes, int64_t layer) const {
  model::QuantizedLayer out;
  for (int r = 0; r < model::kLinearsPerLayer; ++r) {
    out.linears[r] = view_of(codes.linears[r], widths_.at(linear_name(layer, static_cast<LinearRole>(r))));
    out.linears[r].rows = row_range_;
  }
  out.input_norm = codes.floats.input_norm.data(), out.post_norm = codes.floats.post_norm.data();
  out.q_norm = codes.floats.q_norm.data(), out.k_norm = codes.floats.k_norm.data();
  out.key_width = options_.key_width;
  return out;
}

Status CalibratedRun::round_by_student(LayerCodes& codes, int64_t layer) {
  LayerRun& run = *student_;
  run.attention_norm(view(codes, layer));
  ZU_TRY(round_group(codes, {LinearRole::kQ, LinearRole::kK, LinearRole::kV}, run.attention_in, layer));
  run.attention(view(codes, layer), layer);
  ZU_TRY(round_group(codes, {LinearRole::kO}, run.o_in, layer));
  run.attention_out(view(codes, layer));
  run.mlp_norm(view(codes, layer));
  ZU_TRY(round_group(codes, {LinearRole::kGate, LinearRole::kUp}, run.mlp_in, layer));
  run.mlp(view(codes, layer));
  ZU_TRY(round_group(codes, {LinearRole::kDown}, run.down_in, layer));
  run.mlp_out(view(codes, layer));
  return run.take_fault(layer);
}

// Linears with one input; those of one width share its Hessian.
Status CalibratedRun::round_group(LayerCodes& codes, std::initializer_list<LinearRole> roles, const std::vector<uint16_t>& inputs, int64_t layer) {
  for (const int width : {8, 15}) {
    std::optional<GptqBasis> basis;
    for (const LinearRole role : roles) {
      if (widths_.at(linear_name(layer, role)) != width) continue;
      CodedLinear& linear = codes.linears[static_cast<int>(role)];
      if (!basis) {
        ZU_TRY_ASSIGN(Hessian h, hessian_of(inputs_at_width(inputs, linear.k, width, row_range_, kernels_), pool_));
        basis = GptqBasis::factor(std::move(h), pool_);
      }
      basis->round(codes.floats[role], linear, pool_);
    }
  }
  return {};
}

}  // namespace zeroulp::quant
