#include "verify/captured_cases.h"

#include <fmt/format.h>

#include "base/fp_env.h"
#include "cases/record.h"
#include "engine/engine.h"
#include "ops/fastest.h"

namespace zeroulp::verify {
namespace {

// Records what it is given, then computes.
template <auto kRecord, auto kMember, class Args>
void tapped(Args& args) {
  kRecord(args);
  (ops::fastest_kernels().*kMember).run(args);
}

// A position's key and value, as rows of their own.
bool tapped_store(std::byte* block, const ops::kv_cache::Layout& layout, int64_t slot, const uint16_t* k, const uint16_t* v) {
  cases::record::kv_cache({k, v, 1, layout.d, layout.key_width, nullptr, nullptr, nullptr, nullptr, nullptr});
  return ops::kv_cache::store(block, layout, slot, k, v);
}

void tap(std::string_view op, ops::Kernels& k) {
  namespace record = cases::record;
  if (op == "kv_cache") k.store = tapped_store;
  if (op == "quant_rows") k.quant_rows.run = tapped<record::quant_rows, &ops::Kernels::quant_rows, const ops::quant_rows::Args>;
  if (op == "linear_s8") k.linear_s8.run = tapped<record::linear_s8, &ops::Kernels::linear_s8, const ops::linear_s8::Args>;
  if (op == "rmsnorm") k.rmsnorm.run = tapped<record::rmsnorm, &ops::Kernels::rmsnorm, const ops::rmsnorm::Args>;
  if (op == "residual") k.residual.run = tapped<record::residual, &ops::Kernels::residual, const ops::residual::Args>;
  if (op == "embedding") k.embedding.run = tapped<record::embedding, &ops::Kernels::embedding, const ops::embedding::Args>;
  if (op == "silu_mul") k.silu_mul.run = tapped<record::silu_mul, &ops::Kernels::silu_mul, const ops::silu_mul::Args>;
  if (op == "rope") k.rope.run = tapped<record::rope, &ops::Kernels::rope, const ops::rope::Args>;
  if (op == "attention") k.attention.run = tapped<record::attention, &ops::Kernels::attention, const ops::attention::Args>;
}

// The ops that the forward pass does not call by its kernels.
void record_row(std::string_view op, const engine::LogitsBlock& block, int64_t vocabulary, const std::vector<int32_t>& tokens) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const float* logits = block.row(row);
    const auto position = static_cast<size_t>(block.first_position + row);
    if (op == "argmax") {
      ops::argmax::Args args{logits, vocabulary};
      cases::record::argmax(args);
    } else if (op == "nll") {
      ops::nll::Args args{logits, vocabulary, tokens[position + 1 < tokens.size() ? position + 1 : 0]};
      cases::record::nll(args);
    } else if (op == "sample") {
      ops::sample::DrawArgs args{logits, vocabulary, {0.8f, 50, 0.95, 7}, static_cast<uint32_t>(position), 1};
      cases::record::sample(args);
    }
  }
}

Status forward(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, std::string_view op, const std::function<void(cases::Case&&)>& sink) {
  engine::EngineOptions options;
  options.threads = 1;  // calls are then whole, and on this thread
  options.max_rows = options.max_context = options.max_total_positions = static_cast<int64_t>(tokens.size());
  options.adjust = [op](ops::Kernels& kernels) { tap(op, kernels); };
  ZU_TRY_ASSIGN(const std::unique_ptr<engine::Engine> engine, engine::Engine::create(model, options));
  const cases::Recording recording(sink);
  const engine::Engine::Chunk chunk{engine->open_sequence(), tokens, engine::Engine::Want::kAll};
  return engine->forward(std::span(&chunk, 1), [&](const engine::LogitsBlock& block) -> Status {
    record_row(op, block, model.config().vocab, tokens);
    return {};
  });
}

}  // namespace

Result<std::vector<cases::Case>> captured_cases(const model::QuantizedModel& model, const std::vector<int32_t>& tokens, const cases::Form& form, int64_t first,
                                                int64_t count) {
  int64_t calls = 0;
  ZU_TRY(forward(model, tokens, form.op, [&](cases::Case&&) { ++calls; }));
  std::vector<cases::Case> taken;
  if (calls == 0) return unavailable(fmt::format("{}: the model does not call this op by itself, so nothing was captured", form.op));
  int64_t index = 0;
  ZU_TRY(forward(model, tokens, form.op, [&](cases::Case&& c) {
    // Of `calls` the first of each of `count` equal parts.
    const int64_t part = index * count / calls;
    const bool keep = index == 0 || part != (index - 1) * count / calls;
    c.index = index++;
    if (!keep || c.index < first) return;
    c.kind = cases::Kind::kCaptured;
    c.name = fmt::format("call {} of {} while the model read {} tokens", c.index, calls, tokens.size());
    taken.push_back(std::move(c));
  }));
  return taken;
}

}  // namespace zeroulp::verify
