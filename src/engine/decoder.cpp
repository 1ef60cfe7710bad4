#include "engine/decoder.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/interrupt.h"
#include "num/sincos.h"

namespace zeroulp::engine {

using model::LinearRole;
using ops::linear_s8::Output;

RopeTable::RopeTable(const model::ModelConfig& c, int64_t max_positions, ops::rope::TableFn* entry)
    : entry_(entry),
      frequencies_(c.rope_frequencies),
      factor_(c.rope_attention_factor),
      cos_(static_cast<size_t>(max_positions) * frequencies_.size()),
      sin_(cos_.size()) {}

void RopeTable::fill_to(int64_t positions, ThreadPool& pool) {
  const auto half = static_cast<int64_t>(frequencies_.size());
  const int64_t first = filled_;
  if (positions <= first) return;
  ZU_CHECK(static_cast<size_t>(positions * half) <= cos_.size());
  pool.parallel_for(positions - first, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = first + begin; p < first + end; ++p)
      for (int64_t i = 0; i < half; ++i) {
        const num::SinCosBf16 v = entry_(static_cast<uint32_t>(p), frequencies_[static_cast<size_t>(i)], factor_);
        cos_[static_cast<size_t>(p * half + i)] = v.cos;
        sin_[static_cast<size_t>(p * half + i)] = v.sin;
      }
  });
  filled_ = positions;
}

namespace {

// Rows of k elements that are worth a thread of their own: fewer are done before another thread has begun.
int64_t row_grain(int64_t k) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, k)); }  // k is 0 on a rank without heads

// Address space for all pages, reserved at once and touched only where used.
class PageArena {
 public:
  explicit PageArena(int64_t bytes) : bytes_(static_cast<size_t>(std::max<int64_t>(bytes, 4096))) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~PageArena() { ::munmap(data_, bytes_); }
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;
  std::byte* data() { return static_cast<std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace

struct Decoder::Buffers {
  // q_size, kv_size, inner, vocab: this rank's parts.
  Buffers(const model::ModelConfig& c, int64_t rows, int64_t q_size, int64_t kv_size, int64_t inner, int64_t vocab, bool parallel,
          int64_t arena_bytes)
      : x(n(rows, c.hidden)), h(n(rows, c.hidden)), y(n(rows, c.hidden)), q(n(rows, q_size)), k(n(rows, kv_size)), v(n(rows, kv_size)),
        att(n(rows, q_size)), gate(n(rows, inner)), up(n(rows, inner)), codes(n(std::max(rows, kHeadRows), std::max({c.hidden, q_size, inner}))),
        q_codes(n(rows, q_size)), scales(n(std::max(rows, kHeadRows), 1)), q_scales(n(rows, q_size / c.head_dim)),
        absmax(n(std::max(rows, kHeadRows), 1) + 1), faults(n(std::max(rows, kHeadRows), std::max<int64_t>(1, q_size / c.head_dim))),
        sums(parallel ? n(rows, c.hidden) : 0), head_x(n(kHeadRows, c.hidden)), logits(n(kHeadRows, c.vocab)),
        local_logits(parallel ? n(kHeadRows, vocab) : 0), gathered(parallel ? n(kHeadRows, c.vocab) : 0), arena(arena_bytes) {}
  static size_t n(int64_t a, int64_t b) { return static_cast<size_t>(a * b); }

  std::vector<uint16_t> x, h, y, q, k, v, att, gate, up;
  std::vector<int16_t> codes, q_codes;
  std::vector<float> scales, q_scales;
  std::vector<uint16_t> absmax;
  std::vector<uint8_t> faults;
  std::vector<int64_t> sums;
  std::vector<uint16_t> head_x;
  std::vector<float> logits, local_logits, gathered;
  PageArena arena;
  std::vector<const std::byte*> page_pointers;
  struct Task {
    int64_t chunk, kv_head, first_row, rows;
  };
  std::vector<Task> tasks;
  std::vector<std::byte> scratch;  // of kernels: parts of scratch_bytes each, from a multiple of 64 on
  int64_t scratch_bytes = 0;

  void reserve_scratch(int64_t bytes, int parts) {
    scratch_bytes = (bytes + 63) / 64 * 64;
    scratch.resize(static_cast<size_t>(scratch_bytes * parts + 64));
  }
  std::byte* scratch_of(int part) {
    return scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64 + scratch_bytes * part;
  }
};

namespace {

Part kv_part(Part heads, int64_t group) {
  if (heads.size() == 0) return {0, 0};
  return {heads.begin / group, (heads.end - 1) / group + 1};
}

}  // namespace

Decoder::Decoder(const model::QuantizedModel& m, const ops::Kernels& kernels, Exchange* exchange, int threads, const Options& options)
    : model_(m), config_(m.config()), kernels_(kernels), exchange_(exchange), pool_(threads), options_(options) {
  const int rank = exchange ? exchange->rank() : 0, size = exchange ? exchange->size() : 1;
  heads_ = part_of(config_.heads, rank, size);
  kv_ = kv_part(heads_, config_.heads / config_.kv_heads);
  inner_ = part_of(config_.intermediate, rank, size);
  vocab_ = part_of(config_.vocab, rank, size);
  for (const model::QuantizedLayer& layer : m.layers()) {
    layouts_.push_back({config_.head_dim, layer.key_width});
    layer_offsets_.push_back(page_bytes_);
    page_bytes_ += (layouts_.back().bytes() + 63) / 64 * 64 * kv_.size();
  }
  if (options.plant == Plant::kVariant && kernels_.linear_s8.name != "reference") kernels_.linear_s8.run = planted::linear_bf16_intermediates;
  const int64_t d = config_.head_dim;
  b_ = std::make_unique<Buffers>(config_, options.max_rows, heads_.size() * d, kv_.size() * d, inner_.size(), vocab_.size(), exchange != nullptr,
                                 options.pages * page_bytes_);
  const int64_t rows = std::max(options.max_rows, kHeadRows), widest = std::max({config_.hidden, heads_.size() * d, inner_.size()});
  int64_t scratch = ops::linear_s8::scratch_bytes(rows, widest);
  for (const auto& layout : layouts_) scratch = std::max(scratch, ops::attention::scratch_bytes(layout));
  b_->reserve_scratch(scratch, threads);
  b_->tasks.reserve(Buffers::n(options.max_rows, kv_.size()));
  b_->page_pointers.reserve(Buffers::n(options.max_rows, options.max_context / ops::kv_cache::kBlock + 1));
}

Decoder::~Decoder() = default;

std::byte* Decoder::page_block(int32_t page, int64_t layer, int64_t local_head) {
  const int64_t block = (layout(layer).bytes() + 63) / 64 * 64;
  return b_->arena.data() + page * page_bytes_ + layer_offsets_[static_cast<size_t>(layer)] + local_head * block;
}

void Decoder::copy_page(int32_t from, int32_t to) {
  std::memcpy(page_block(to, 0, 0), page_block(from, 0, 0), static_cast<size_t>(page_bytes_));
}

Status Decoder::read_block(int32_t page, int64_t layer, int64_t head, std::span<std::byte> to) {
  std::memcpy(to.data(), page_block(page, layer, head), to.size());
  return {};
}
Status Decoder::write_block(int32_t page, int64_t layer, int64_t head, std::span<const std::byte> from) {
  std::memcpy(page_block(page, layer, head), from.data(), from.size());
  return {};
}

Status Decoder::forward(const Plan& plan, const RopeTable& rope) {
  ZU_CHECK(plan.rows() >= 1 && plan.rows() <= options_.max_rows);
  chunks_ = plan.chunks.size();
  b_->page_pointers.clear();
  for (const Plan::Chunk& c : plan.chunks)
    for (int64_t i = 0; i < c.page_count; ++i) b_->page_pointers.push_back(page_block(c.pages[i], 0, 0));
  embed(plan);
  stopped_ = false;
  for (int64_t layer = 0; layer < config_.layers && !stopped_; ++layer) {
    attention_part(plan, rope, layer);
    mlp_part(plan, layer);
    if (exchange_ == nullptr) stopped_ = interrupt_requested();
  }
  return {};
}

void Decoder::embed(const Plan& plan) {
  const model::QuantizedLinear& e = model_.embedding();
  kernels_.embedding.run({plan.tokens.data(), plan.rows(), config_.hidden, e.codes, e.scales, b_->x.data()});
  if (trace) trace(0, TraceOp::kEmbedding, plan.rows(), config_.hidden, b_->x.data());
}

void Decoder::norm(const uint16_t* x, const uint16_t* weight, uint16_t* y, const Plan& plan) {
  const int64_t d = config_.hidden;
  pool_.parallel_for(plan.rows(), row_grain(d), [&](int64_t begin, int64_t end, int) {
    kernels_.rmsnorm.run({x + begin * d, d, end - begin, d, weight, config_.rms_eps, y + begin * d, d});
  });
  if (options_.plant == Plant::kChunk)
    for (const Plan::Chunk& c : plan.chunks)
      if (c.rows > 1) planted::rmsnorm_bf16_factor({x + c.first_row * d, d, c.rows, d, weight, config_.rms_eps, y + c.first_row * d, d});
  at_hand_ = {};
}

// QK-norm: weights [heads, head_dim], each head a row of its own.
void Decoder::head_norm(uint16_t* x, int64_t heads, const uint16_t* weights, int64_t rows) {
  const int64_t d = config_.head_dim, stride = heads * d;
  pool_.parallel_for(rows, row_grain(stride), [&](int64_t begin, int64_t end, int) {
    for (int64_t head = 0; head < heads; ++head) {
      uint16_t* at = x + begin * stride + head * d;
      kernels_.rmsnorm.run({at, stride, end - begin, d, weights + head * d, config_.rms_eps, at, stride});
    }
  });
}

void Decoder::note_faults(int64_t flags, int64_t flags_per_row, int64_t layer, const char* op) {
  const auto end = b_->faults.begin() + flags;
  const auto it = std::find(b_->faults.begin(), end, uint8_t{1});
  if (it == end) return;
  if (!fault_.any) fault_ = {true, layer, op, (it - b_->faults.begin()) / flags_per_row};
  std::fill(b_->faults.begin(), end, uint8_t{0});
}

void Decoder::quantize(const uint16_t* x, int64_t rows, int64_t k, int width, bool sharded, int64_t layer, const char* op) {
  if (at_hand_.source == x && at_hand_.width == width) return;
  const bool batch_plant = options_.plant == Plant::kBatch && chunks_ > 1;
  const bool external = (sharded && exchange_) || batch_plant;
  if (external) {
    for (int64_t r = 0; r < rows; ++r) b_->absmax[static_cast<size_t>(r)] = ops::quant_rows::row_absmax(x + r * k, k);
    const std::span<uint16_t> tops(b_->absmax.data(), static_cast<size_t>(rows));
    if (sharded && exchange_) {
      // Ctrl-C travels with the maxima, so that all ranks stop after the same layer.
      b_->absmax[static_cast<size_t>(rows)] = interrupt_requested() ? 1 : 0;
      exchange_->max({b_->absmax.data(), static_cast<size_t>(rows) + 1});
      stopped_ |= b_->absmax[static_cast<size_t>(rows)] != 0;
    }
    if (batch_plant) std::fill(tops.begin(), tops.end(), *std::max_element(tops.begin(), tops.end()));
  }
  at_hand_ = {x, width};
  pool_.parallel_for(rows, row_grain(k), [&](int64_t begin, int64_t end, int) {
    kernels_.quant_rows.run({x + begin * k, k, end - begin, k, width, model_.head().rows, external ? b_->absmax.data() + begin : nullptr,
                             b_->codes.data() + begin * k, k, b_->scales.data() + begin, b_->faults.data() + begin});
  });
  note_faults(rows, 1, layer, op);
}

// Threads share the channels, and with many rows the rows too, since a kernel packs all rows that it is given.
void Decoder::run_linears(std::span<const ops::linear_s8::Args> linears) {
  constexpr int64_t kGrain = 16;       // channels
  constexpr int64_t kLeastRows = 128;  // of a part
  const auto grains_of = [](const ops::linear_s8::Args& l) { return (l.n + kGrain - 1) / kGrain; };
  const int64_t rows = linears.front().rows;
  int64_t row_parts = 1, grains = 0;
  for (int64_t parts = 2; parts <= pool_.size(); ++parts)
    if (pool_.size() % parts == 0 && rows >= parts * kLeastRows) row_parts = parts;
  const int64_t part_rows = (rows / row_parts + 31) / 32 * 32;
  for (const ops::linear_s8::Args& l : linears) grains += grains_of(l);
  pool_.parallel_for(row_parts * grains, 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t part = begin / grains; part * grains < end; ++part) {
      const int64_t first_row = std::min(rows, part * part_rows), last_row = part + 1 == row_parts ? rows : std::min(rows, first_row + part_rows);
      int64_t first_grain = std::max<int64_t>(0, begin - part * grains), last_grain = std::min(grains, end - part * grains);
      for (const ops::linear_s8::Args& l : linears) {
        const int64_t first = std::max<int64_t>(first_grain, 0) * kGrain, last = std::min(last_grain * kGrain, l.n);
        first_grain -= grains_of(l);
        last_grain -= grains_of(l);
        if (first >= last || first_row >= last_row) continue;
        ops::linear_s8::Args work = ops::linear_s8::channels(ops::linear_s8::rows(l, first_row, last_row), first, last);
        work.scratch = b_->scratch_of(worker);
        kernels_.linear_s8.run(work);
      }
    }
  });
}

ops::linear_s8::Args Decoder::linear_args(const model::QuantizedLinear& l, Part part, int64_t rows, Output output, void* y,
                                          int64_t stride) const {
  return {b_->codes.data(), l.k, b_->scales.data(), rows, l.k, l.width, l.codes + part.begin * l.k, l.k, part.size(),
          l.scales + part.begin, l.bias ? l.bias + part.begin : nullptr, output, y, stride};
}

namespace {

TraceOp trace_op(LinearRole role) {
  switch (role) {
    case LinearRole::kQ: return TraceOp::kQ;
    case LinearRole::kK: return TraceOp::kK;
    case LinearRole::kV: return TraceOp::kV;
    case LinearRole::kO: return TraceOp::kO;
    case LinearRole::kGate: return TraceOp::kGate;
    case LinearRole::kUp: return TraceOp::kUp;
    case LinearRole::kDown: return TraceOp::kDown;
  }
  ZU_CHECK(false);
}

}  // namespace

void Decoder::project(std::span<const Projection> projections, const uint16_t* x, int64_t rows, int64_t layer, const char* op) {
  for (size_t i = 0; i < projections.size();) {
    const int width = projections[i].linear.width;
    const int64_t k = projections[i].linear.k;
    ops::linear_s8::Args linears[model::kLinearsPerLayer];
    size_t count = 0;
    quantize(x, rows, k, width, false, layer, op);
    for (; i < projections.size() && projections[i].linear.width == width; ++i) {
      const Projection& p = projections[i];
      if (capture) capture(layer, p.role, rows, k, x);
      linears[count++] = linear_args(p.linear, p.part, rows, Output::kBf16, p.y, p.part.size());
    }
    run_linears({linears, count});
    for (size_t j = i - count; trace && j < i; ++j) trace(layer, trace_op(projections[j].role), rows, projections[j].part.size(), projections[j].y);
  }
}

void Decoder::row_linear(const model::QuantizedLinear& l, Part part, int64_t rows, uint16_t* y) {
  ops::linear_s8::Args args{b_->codes.data(), part.size(), b_->scales.data(), rows, part.size(), l.width, l.codes + part.begin, l.k, l.n,
                            l.scales, l.bias, Output::kBf16, y, l.n};
  if (exchange_ == nullptr && options_.plant == Plant::kThreads && pool_.size() > 1) return planted::linear_bf16_partials(args, pool_.size());
  if (exchange_ == nullptr) return run_linears({&args, 1});
  args.output = Output::kPartial;
  args.y = b_->sums.data();
  const std::span<int64_t> sums(b_->sums.data(), static_cast<size_t>(rows * l.n));
  if (part.size() > 0)
    run_linears({&args, 1});
  else
    std::fill(sums.begin(), sums.end(), 0);
  if (options_.plant == Plant::kTensorParallel) planted::round_sums_to_bf16(sums);
  exchange_->sum(sums);
  args.output = Output::kBf16;
  args.y = y;
  pool_.parallel_for(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t channel = 0; channel < l.n; ++channel) ops::linear_s8::store(args, row, channel, sums[static_cast<size_t>(row * l.n + channel)]);
  });
}

void Decoder::add_residual(const uint16_t* y, int64_t count) {
  pool_.parallel_for(count, 16384, [&](int64_t begin, int64_t end, int) { kernels_.residual.run({b_->x.data() + begin, y + begin, end - begin}); });
}

void Decoder::attention_part(const Plan& plan, const RopeTable& rope, int64_t layer) {
  const model::QuantizedLayer& w = model_.layers()[static_cast<size_t>(layer)];
  const int64_t rows = plan.rows(), d = config_.head_dim, q_size = heads_.size() * d, kv_size = kv_.size() * d;
  norm(b_->x.data(), w.input_norm, b_->h.data(), plan);
  if (trace) trace(layer, TraceOp::kInputNorm, rows, config_.hidden, b_->h.data());
  const Part q_part{heads_.begin * d, heads_.end * d}, kv_part_{kv_.begin * d, kv_.end * d};
  const auto& q = w[LinearRole::kQ], &k = w[LinearRole::kK], &v = w[LinearRole::kV];
  const Projection projections[] = {{q, LinearRole::kQ, q_part, b_->q.data()},
                                    {k, LinearRole::kK, kv_part_, b_->k.data()},
                                    {v, LinearRole::kV, kv_part_, b_->v.data()}};
  project(projections, b_->h.data(), rows, layer, "input of q, k, v");
  if (config_.qk_norm) {
    head_norm(b_->q.data(), heads_.size(), w.q_norm + heads_.begin * d, rows);
    head_norm(b_->k.data(), kv_.size(), w.k_norm + kv_.begin * d, rows);
  }
  pool_.parallel_for(rows, row_grain(q_size + kv_size), [&](int64_t begin, int64_t end, int) {
    const int32_t* positions = plan.positions.data() + begin;
    kernels_.rope.run({b_->q.data() + begin * q_size, q_size, end - begin, heads_.size(), d, positions, rope.cos(), rope.sin()});
    kernels_.rope.run({b_->k.data() + begin * kv_size, kv_size, end - begin, kv_.size(), d, positions, rope.cos(), rope.sin()});
    // Every query head is a row of its own to the quantiser.
    const int64_t heads = heads_.size();
    kernels_.quant_rows.run({b_->q.data() + begin * q_size, d, (end - begin) * heads, d, 15, num::kAttentionRange, nullptr,
                             b_->q_codes.data() + begin * q_size, d, b_->q_scales.data() + begin * heads, b_->faults.data() + begin * heads});
  });
  note_faults(rows * heads_.size(), heads_.size(), layer, "queries");
  if (trace) trace(layer, TraceOp::kQRope, rows, q_size, b_->q.data()), trace(layer, TraceOp::kKRope, rows, kv_size, b_->k.data());
  store_kv(plan, layer);
  attend(plan, layer);
  if (trace) trace(layer, TraceOp::kAttention, rows, q_size, b_->att.data());
  if (capture) capture(layer, LinearRole::kO, rows, q_size, b_->att.data());
  at_hand_ = {};
  quantize(b_->att.data(), rows, q_size, w[LinearRole::kO].width, true, layer, "input of o");
  row_linear(w[LinearRole::kO], q_part, rows, b_->y.data());
  if (trace) trace(layer, TraceOp::kO, rows, config_.hidden, b_->y.data());
  add_residual(b_->y.data(), rows * config_.hidden);
  if (trace) trace(layer, TraceOp::kAttentionResidual, rows, config_.hidden, b_->x.data());
}

void Decoder::store_kv(const Plan& plan, int64_t layer) {
  const int64_t d = config_.head_dim, kv_size = kv_.size() * d;
  for (const Plan::Chunk& c : plan.chunks) {
    pool_.parallel_for(c.rows, row_grain(2 * kv_size), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t position = c.first_position + r, row = c.first_row + r;
        for (int64_t head = 0; head < kv_.size(); ++head) {
          std::byte* block = page_block(c.pages[position / ops::kv_cache::kBlock], layer, head);
          const int64_t at = row * kv_size + head * d;
          if (!kernels_.store(block, layout(layer), position % ops::kv_cache::kBlock, b_->k.data() + at, b_->v.data() + at))
            b_->faults[static_cast<size_t>(row)] = 1;
        }
      }
    });
  }
  note_faults(plan.rows(), 1, layer, "keys and values");
}

void Decoder::attend(const Plan& plan, int64_t layer) {
  constexpr int64_t kTaskRows = 16;
  const int64_t d = config_.head_dim, q_size = heads_.size() * d, group = config_.heads / config_.kv_heads;
  const std::optional<int64_t> window = config_.window[static_cast<size_t>(layer)];
  b_->tasks.clear();
  for (size_t c = 0; c < plan.chunks.size(); ++c)
    for (int64_t head = 0; head < kv_.size(); ++head) {
      // First and last rows by turns: later ones see more keys, and threads take consecutive tasks.
      const int64_t rows = plan.chunks[c].rows, count = (rows + kTaskRows - 1) / kTaskRows;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = (i % 2 == 0 ? i / 2 : count - 1 - i / 2) * kTaskRows;
        b_->tasks.push_back({static_cast<int64_t>(c), head, row, std::min(kTaskRows, rows - row)});
      }
    }
  pool_.parallel_for(static_cast<int64_t>(b_->tasks.size()), 1, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t t = begin; t < end; ++t) {
      const Buffers::Task& task = b_->tasks[static_cast<size_t>(t)];
      const Plan::Chunk& c = plan.chunks[static_cast<size_t>(task.chunk)];
      int64_t pages_before = 0;
      for (int64_t i = 0; i < task.chunk; ++i) pages_before += plan.chunks[static_cast<size_t>(i)].page_count;
      // Query heads of this KV head that are this rank's.
      const int64_t kv_head = kv_.begin + task.kv_head;
      const int64_t first = std::max(heads_.begin, kv_head * group), last = std::min(heads_.end, (kv_head + 1) * group);
      const int64_t row = c.first_row + task.first_row, head = first - heads_.begin;
      kernels_.attention.run({layout(layer), task.rows, last - first, c.first_position + task.first_row, window.value_or(0),
                              ops::attention::score_constant(d, layout(layer).key_width), b_->q_codes.data() + row * q_size + head * d, q_size,
                              b_->q_scales.data() + row * heads_.size() + head, heads_.size(), b_->page_pointers.data() + pages_before,
                              page_block(0, layer, task.kv_head) - page_block(0, 0, 0), b_->att.data() + row * q_size + head * d, q_size,
                              b_->faults.data() + row * kv_.size() + task.kv_head, kv_.size(), b_->scratch_of(worker)});
    }
  });
  note_faults(plan.rows() * kv_.size(), kv_.size(), layer, "attention");
}

void Decoder::mlp_part(const Plan& plan, int64_t layer) {
  const model::QuantizedLayer& w = model_.layers()[static_cast<size_t>(layer)];
  const int64_t rows = plan.rows(), inner = inner_.size();
  norm(b_->x.data(), w.post_norm, b_->h.data(), plan);
  if (trace) trace(layer, TraceOp::kPostNorm, rows, config_.hidden, b_->h.data());
  const Projection projections[] = {{w[LinearRole::kGate], LinearRole::kGate, inner_, b_->gate.data()},
                                    {w[LinearRole::kUp], LinearRole::kUp, inner_, b_->up.data()}};
  project(projections, b_->h.data(), rows, layer, "input of gate, up");
  pool_.parallel_for(rows * inner, 8192, [&](int64_t begin, int64_t end, int) {
    kernels_.silu_mul.run({b_->gate.data() + begin, b_->up.data() + begin, end - begin, b_->gate.data() + begin});
  });
  if (capture) capture(layer, LinearRole::kDown, rows, inner, b_->gate.data());
  if (trace) trace(layer, TraceOp::kSiluMul, rows, inner, b_->gate.data());
  at_hand_ = {};
  quantize(b_->gate.data(), rows, inner, w[LinearRole::kDown].width, true, layer, "input of down");
  row_linear(w[LinearRole::kDown], inner_, rows, b_->y.data());
  if (trace) trace(layer, TraceOp::kDown, rows, config_.hidden, b_->y.data());
  add_residual(b_->y.data(), rows * config_.hidden);
  if (trace) trace(layer, TraceOp::kMlpResidual, rows, config_.hidden, b_->x.data());
}

Result<const float*> Decoder::head(const Plan& plan, int64_t first, int64_t count) {
  ZU_CHECK(count >= 1 && count <= kHeadRows);
  const int64_t d = config_.hidden;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = plan.wanted[static_cast<size_t>(first + i)];
    kernels_.rmsnorm.run({b_->x.data() + row * d, d, 1, d, model_.final_norm(), config_.rms_eps, b_->head_x.data() + i * d, d});
  }
  at_hand_ = {};
  if (trace) trace(config_.layers, TraceOp::kFinalNorm, count, d, b_->head_x.data());
  quantize(b_->head_x.data(), count, d, model_.head().width, false, config_.layers, "input of the head");
  if (fault_.any && fault_.layer == config_.layers) fault_.row = plan.wanted[static_cast<size_t>(first + fault_.row)];
  if (exchange_ == nullptr) {
    const auto linear = linear_args(model_.head(), vocab_, count, Output::kF32, b_->logits.data(), config_.vocab);
    if (options_.plant == Plant::kHead && pool_.size() > 1)
      planted::linear_bf16_logits(linear);
    else
      run_linears({&linear, 1});
    return static_cast<const float*>(b_->logits.data());
  }
  const auto linear = linear_args(model_.head(), vocab_, count, Output::kF32, b_->local_logits.data(), vocab_.size());
  run_linears({&linear, 1});
  std::vector<int64_t> counts;
  for (int r = 0; r < exchange_->size(); ++r) counts.push_back(part_of(config_.vocab, r, exchange_->size()).size() * count);
  exchange_->gather({b_->local_logits.data(), static_cast<size_t>(vocab_.size() * count)}, counts, {b_->gathered.data(), static_cast<size_t>(config_.vocab * count)});
  const float* from = b_->gathered.data();  // rank by rank, each [count, its vocabulary]
  for (int r = 0; r < exchange_->size(); ++r) {
    const Part part = part_of(config_.vocab, r, exchange_->size());
    for (int64_t row = 0; row < count; ++row, from += part.size())
      std::copy_n(from, part.size(), b_->logits.data() + row * config_.vocab + part.begin);
  }
  return static_cast<const float*>(b_->logits.data());
}

Fault Decoder::take_fault() {
  Fault f = std::exchange(fault_, {});
  f.interrupted = stopped_;
  if (exchange_ == nullptr) return f;
  uint16_t any[1] = {f.any ? uint16_t{1} : uint16_t{0}};
  exchange_->max(any);
  if (any[0] != 0 && !f.any) f = {true, -1, "an op of another rank", 0, stopped_};
  return f;
}

}  // namespace zeroulp::engine
