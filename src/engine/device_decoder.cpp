#include "engine/device_decoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "device/nccl.h"
#include "engine/device_weights.h"
#include "engine/kv_pages.h"
#include "ops/attention/fast.h"
#include "ops/fused/fused.h"
#include "ops/linear_s8/fast.h"
#include "ops/quant_rows/fast.h"
#include "ops/sample/device.h"

namespace zeroulp::engine {
namespace {

using ops::linear_s8::Output;

// The ops that can fault, in the order of computing within a layer: flags [layer][op][row], so that the lowest index is the first fault.
enum FaultOp { kInputQkv, kQueries, kKeysValues, kAttention, kInputO, kInputGateUp, kInputDown, kFaultOps };
constexpr const char* kFaultNames[kFaultOps] = {"input of q, k, v", "queries", "keys and values", "attention", "input of o", "input of gate, up", "input of down"};
constexpr int64_t kHeadRows = 64;
constexpr int64_t kFirstBucket = 1024;  // positions that the first graph of a number of rows serves; then twice as many, and so on
constexpr int64_t kGraphRows = 64;  // of a decoding step that is worth a graph

// What decides the launches of a pass: a graph serves every pass with the same shape.
struct Shape {
  int64_t rows = 0, max_positions = 0;
  bool operator==(const Shape&) const = default;
};

class Gpu final : public DeviceDecoder {
 public:
  Gpu(const model::QuantizedModel& m, const ops::DeviceKernels& kernels, Exchange* exchange, const Options& options, device::Stream stream)
      : config_(m.config()), kernels_(kernels), exchange_(exchange), options_(options), stream_(std::move(stream)),
        range_(m.header().pow2_row_scales ? num::kLinearPow2Range : num::kLinearRange) {}

  Status prepare(const model::QuantizedModel& m);

  Status forward(const Plan& plan, const RopeTable& rope) override;
  Result<const float*> head(const Plan& plan, int64_t first, int64_t count) override;
  Result<std::vector<int64_t>> draw(const Plan& plan, int64_t first, std::span<const Draw> draws) override;
  int64_t head_rows() const override { return kHeadRows; }
  void copy_page(int32_t from, int32_t to) override { stream_.on_device(kv_ + to * page_bytes_, kv_ + from * page_bytes_, page_bytes_); }
  Part kv_heads() const override { return parts_.kv; }
  Status read_block(int32_t page, int64_t layer, int64_t head, std::span<std::byte> to) override {
    ZU_TRY(device::use(options_.device));
    stream_.to_host(to.data(), block_at(page, layer, head), static_cast<int64_t>(to.size()));
    return stream_.synchronize();
  }
  Status write_block(int32_t page, int64_t layer, int64_t head, std::span<const std::byte> from) override {
    ZU_TRY(device::use(options_.device));
    stream_.to_device(block_at(page, layer, head), from.data(), static_cast<int64_t>(from.size()));
    return stream_.synchronize();
  }
  Fault take_fault() override;
  const std::vector<std::string>& graph_nodes() const override { return graph_nodes_; }
  Result<double> replay_milliseconds(int repeats) override;
  int64_t weight_bytes() const override { return weights_.linear_bytes(); }

 private:
  struct Recorded {
    Shape shape;
    device::Graph graph;
  };
  // The inputs of a pass, in page-locked memory and on the GPU alike: tokens, positions, first page and wanted rows as int32 [max_rows] each,
  // then the pages' addresses.
  struct Inputs {
    int32_t *tokens, *positions, *begin, *wanted;
    std::byte** pages;
  };
  Inputs inputs_at(std::byte* base) const;
  // Above every launch's max_positions.
  int64_t most_positions() const {
    int64_t most = kFirstBucket;
    while (most < options_.max_context) most *= 2;
    return most;
  }
  int64_t most_pages() const { return options_.max_rows * ((options_.max_context + kPagePositions - 1) / kPagePositions); }

  Status join_nccl();
  Status plan_memory();
  int64_t workspace_bytes() const;
  bool can_fuse() const;
  bool fuses(int64_t rows) const { return fusable_ && rows == 1; }  // the step's linears do their neighbours' work (ops/fused)
  Status send_inputs(const Plan& plan, const RopeTable& rope);
  void layers(const Shape& shape);
  void attention_part(const Shape& shape, size_t index, const uint16_t* add);
  void mlp_part(const Shape& shape, size_t index);
  void norm_quant(uint16_t* x, const uint16_t* add, const uint16_t* weight, int64_t rows, int width, uint8_t* faults);
  void group_linear(const DeviceGroup& group, int64_t rows, uint16_t* y, int width_at_hand, uint8_t* faults);
  ops::linear_s8::Args linear_args(const DeviceLinear& l, int64_t rows, Output output, void* y, int64_t y_stride) const {
    return {codes_, codes_stride_, scales_, rows, l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias, output, y, y_stride};
  }
  void linear(const DeviceLinear& l, int64_t rows, Output output, void* y, int64_t y_stride) { kernels_.linear_s8.run(linear_args(l, rows, output, y, y_stride), launch_); }
  void row_linear(const DeviceLinear& l, int64_t rows, uint16_t* y);
  void exchange_tops(int64_t rows);
  void quantize(const uint16_t* x, int64_t rows, int64_t k, int width, const uint16_t* tops, uint8_t* faults);
  void head_rows_on_device(const uint16_t* x, int64_t rows, uint8_t* faults);
  void find_faults(int64_t flags);
  Status run_head(const Plan& plan, int64_t first, int64_t count);
  uint8_t* faults(size_t layer, FaultOp op, int64_t rows) { return faults_ + (static_cast<int64_t>(layer) * kFaultOps + op) * rows; }
  std::byte* block_at(int32_t page, int64_t layer, int64_t head) const {
    const auto l = static_cast<size_t>(layer);
    return kv_ + page * page_bytes_ + layer_offsets_[l] + head * blocks_[l];
  }
  ops::kv_cache::Pages pages(size_t layer) const { return {on_gpu_.pages, on_gpu_.begin, layer_offsets_[layer], blocks_[layer]}; }
  void note(Status status) {
    if (!status && status_) status_ = std::move(status);
  }

  const model::ModelConfig& config_;
  ops::DeviceKernels kernels_;
  Exchange* exchange_;  // null: one rank
  std::unique_ptr<device::Nccl> nccl_;  // where every rank has a GPU of its own; otherwise sums and maxima go through the host
  Options options_;
  device::Stream stream_;
  num::RowRange range_;  // of the inputs of linears
  bool fusable_ = false;
  device::Launch launch_;
  DeviceArena arena_;
  RankParts parts_{};
  DeviceWeights weights_;
  std::vector<ops::kv_cache::Layout> layouts_;
  std::vector<int64_t> layer_offsets_, blocks_;  // of a layer within a page; of a head within a layer
  int64_t page_bytes_ = 0;
  std::byte* kv_ = nullptr;

  device::PinnedBuffer pinned_inputs_, pinned_faults_, pinned_logits_, pinned_exchange_;
  std::byte* inputs_ = nullptr;
  Inputs staged_{}, on_gpu_{};
  uint16_t *cos_ = nullptr, *sin_ = nullptr;
  int64_t rope_sent_ = 0;

  uint16_t *x_ = nullptr, *h_ = nullptr, *y_ = nullptr, *qkv_ = nullptr, *att_ = nullptr, *gate_up_ = nullptr, *inner_ = nullptr, *head_x_ = nullptr,
           *tops_ = nullptr;
  int16_t *codes_ = nullptr, *q_codes_ = nullptr;
  float *scales_ = nullptr, *q_scales_ = nullptr, *logits_ = nullptr;
  int64_t* sums_ = nullptr;
  int32_t* wide_tops_ = nullptr;
  int64_t* tokens_ = nullptr;
  ops::sample::Draw* draws_ = nullptr;
  uint8_t* faults_ = nullptr;
  int32_t* arrivals_ = nullptr;
  int64_t codes_stride_ = 0;

  std::vector<Recorded> graphs_;
  const Recorded* last_graph_ = nullptr;
  std::vector<std::string> graph_nodes_;
  int64_t rows_ = 0, logits_rows_ = 0;  // of the last pass; how many rows of logits it computed already
  Status status_;
  bool head_fault_ = false;
};

ops::kv_cache::Layout layout_of(const model::ModelConfig& c, const model::QuantizedLayer& layer) { return {c.head_dim, layer.key_width}; }

Part kv_part(Part heads, int64_t group) {
  if (heads.size() == 0) return {0, 0};
  return {heads.begin / group, (heads.end - 1) / group + 1};
}

Gpu::Inputs Gpu::inputs_at(std::byte* base) const {
  auto* words = reinterpret_cast<int32_t*>(base);
  const int64_t n = options_.max_rows;
  return {words, words + n, words + 2 * n, words + 3 * n, reinterpret_cast<std::byte**>(words + 4 * n)};
}

Status Gpu::prepare(const model::QuantizedModel& m) {
  const int rank = exchange_ ? exchange_->rank() : 0, size = exchange_ ? exchange_->size() : 1;
  parts_.heads = part_of(config_.heads, rank, size);
  parts_.kv = kv_part(parts_.heads, config_.heads / config_.kv_heads);
  parts_.inner = part_of(config_.intermediate, rank, size);
  parts_.vocab = part_of(config_.vocab, rank, size);
  for (const model::QuantizedLayer& layer : m.layers()) {
    layouts_.push_back(layout_of(config_, layer));
    layer_offsets_.push_back(page_bytes_);
    blocks_.push_back((layouts_.back().bytes() + 63) / 64 * 64);
    page_bytes_ += blocks_.back() * parts_.kv.size();
  }
  ZU_TRY_ASSIGN(launch_.multiprocessors, device::current_multiprocessors());
  launch_.stream = stream_.handle();
  if (exchange_ != nullptr && options_.own_gpu) ZU_TRY(join_nccl());
  ZU_TRY_ASSIGN(weights_, DeviceWeights::upload(m, parts_, stream_, arena_));
  fusable_ = can_fuse();
  ZU_TRY(plan_memory());
  return stream_.synchronize();
}

// Every layer of one rank, unless a kernel for the linears was asked for: then that one runs, and by itself.
bool Gpu::can_fuse() const {
  if (exchange_ != nullptr || kernels_.linear_s8.name != "cuda") return false;
  const auto fits = [](const DeviceLinear& l, int64_t k) { return l.k == k && ops::fused::linear_fits(k); };
  return fits(weights_.head, config_.hidden) && std::all_of(weights_.layers.begin(), weights_.layers.end(), [&](const DeviceLayer& layer) {
           const auto from_hidden = [&](const DeviceLinear& l) { return fits(l, config_.hidden); };
           return layer.gate_up.parts.size() == 1 && from_hidden(layer.gate_up.parts.front()) && std::all_of(layer.qkv.parts.begin(), layer.qkv.parts.end(), from_hidden) &&
                  fits(layer.o, config_.heads * config_.head_dim) && fits(layer.down, config_.intermediate);
         });
}

// The first rank's id reaches the others as a sum.
Status Gpu::join_nccl() {
  device::Nccl::Id id{};
  Status made;
  if (exchange_->rank() == 0) {
    auto first = device::Nccl::make_id();
    if (first)
      id = *first;
    else
      made = std::move(first).error();
  }
  exchange_->sum(id);
  if (std::all_of(id.begin(), id.end(), [](int64_t word) { return word == 0; })) return made ? unavailable("the first rank found no NCCL") : std::move(made);
  ZU_TRY_ASSIGN(nccl_, device::Nccl::create(id, exchange_->rank(), exchange_->size()));
  return {};
}

Status Gpu::plan_memory() {
  const int64_t rows = std::max(options_.max_rows, kHeadRows), d = config_.head_dim, q = parts_.heads.size() * d, kv = parts_.kv.size() * d;
  const int64_t inner = parts_.inner.size(), widest = padded(std::max({config_.hidden, q, inner})), half = d / 2;
  codes_stride_ = widest;
  constexpr const char* kWhat = "activations";
  ZU_TRY_ASSIGN(x_, arena_.allocate<uint16_t>(rows * config_.hidden, kWhat));
  ZU_TRY_ASSIGN(h_, arena_.allocate<uint16_t>(rows * config_.hidden, kWhat));
  ZU_TRY_ASSIGN(y_, arena_.allocate<uint16_t>(rows * config_.hidden, kWhat));
  ZU_TRY_ASSIGN(qkv_, arena_.allocate<uint16_t>(rows * (q + 2 * kv), kWhat));
  ZU_TRY_ASSIGN(att_, arena_.allocate<uint16_t>(rows * q, kWhat));
  ZU_TRY_ASSIGN(gate_up_, arena_.allocate<uint16_t>(rows * 2 * inner, kWhat));
  ZU_TRY_ASSIGN(inner_, arena_.allocate<uint16_t>(rows * inner, kWhat));
  ZU_TRY_ASSIGN(head_x_, arena_.allocate<uint16_t>(kHeadRows * config_.hidden, kWhat));
  ZU_TRY_ASSIGN(tops_, arena_.allocate<uint16_t>(rows, kWhat));
  ZU_TRY_ASSIGN(codes_, arena_.allocate<int16_t>(rows * widest, kWhat));
  ZU_TRY_ASSIGN(q_codes_, arena_.allocate<int16_t>(rows * q, kWhat));
  ZU_TRY_ASSIGN(scales_, arena_.allocate<float>(rows, kWhat));
  ZU_TRY_ASSIGN(q_scales_, arena_.allocate<float>(rows * parts_.heads.size(), kWhat));
  ZU_TRY_ASSIGN(logits_, arena_.allocate<float>(kHeadRows * parts_.vocab.size(), "logits"));
  if (exchange_ != nullptr) {
    ZU_TRY_ASSIGN(sums_, arena_.allocate<int64_t>(rows * config_.hidden, kWhat));
    ZU_TRY_ASSIGN(wide_tops_, arena_.allocate<int32_t>(rows, kWhat));
  }
  ZU_TRY_ASSIGN(tokens_, arena_.allocate<int64_t>(kHeadRows, kWhat));
  ZU_TRY_ASSIGN(draws_, arena_.allocate<ops::sample::Draw>(kHeadRows, kWhat));
  const int64_t flags = (config_.layers * kFaultOps + 1) * rows, arrivals = ops::attention::cuda_arrivals();
  ZU_TRY_ASSIGN(faults_, arena_.allocate<uint8_t>(flags, kWhat));
  ZU_TRY_ASSIGN(arrivals_, arena_.allocate<int32_t>(arrivals, kWhat));
  ZU_TRY_ASSIGN(cos_, arena_.allocate<uint16_t>(options_.max_context * half, "the rotary table"));
  ZU_TRY_ASSIGN(sin_, arena_.allocate<uint16_t>(options_.max_context * half, "the rotary table"));
  const int64_t input_bytes = 16 * options_.max_rows + 8 * most_pages();
  ZU_TRY_ASSIGN(inputs_, arena_.allocate<std::byte>(input_bytes, kWhat));
  ZU_TRY_ASSIGN(pinned_inputs_, device::PinnedBuffer::allocate(input_bytes, kWhat));
  ZU_TRY_ASSIGN(pinned_faults_, device::PinnedBuffer::allocate(64, kWhat));
  ZU_TRY_ASSIGN(pinned_logits_, device::PinnedBuffer::allocate(kHeadRows * config_.vocab * 4, "logits"));
  if (exchange_ != nullptr) {
    const int64_t most = std::max(rows * config_.hidden * 8, kHeadRows * parts_.vocab.size() * 4);
    ZU_TRY_ASSIGN(pinned_exchange_, device::PinnedBuffer::allocate(most, "the exchange between ranks"));
  }
  staged_ = inputs_at(pinned_inputs_.data());
  on_gpu_ = inputs_at(inputs_);
  // Codes behind a linear's last input meet zero weights, but must be numbers that were written once.
  stream_.fill(codes_, 0, rows * widest * 2);
  stream_.fill(arrivals_, 0, arrivals * 4);
  ZU_TRY_ASSIGN(launch_.workspace, arena_.allocate<std::byte>(std::max<int64_t>(workspace_bytes(), 256), "the kernels' workspace"));
  launch_.workspace_bytes = std::max<int64_t>(workspace_bytes(), 256);
  ZU_TRY_ASSIGN(const int64_t kv_bytes, device::checked_bytes(options_.pages, page_bytes_, "the KV cache"));
  ZU_TRY_ASSIGN(kv_, arena_.allocate<std::byte>(std::max<int64_t>(kv_bytes, 1), "the KV cache"));
  return {};
}

// The most that any launch of any pass can ask for.
int64_t Gpu::workspace_bytes() const {
  int64_t most = 0;
  const auto linear = [&](const DeviceLinear& l, int64_t rows) {
    if (kernels_.linear_s8.workspace == nullptr) return;
    for (int64_t r = 1; r <= rows; r = r < rows ? std::min(rows, 2 * r) : rows + 1) {
      ops::linear_s8::Args a{nullptr, codes_stride_, nullptr, r, l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias, Output::kPartial, nullptr, l.n};
      most = std::max(most, kernels_.linear_s8.workspace(a));
    }
  };
  for (const DeviceLayer& layer : weights_.layers) {
    linear(layer.o, options_.max_rows);
    linear(layer.down, options_.max_rows);
    for (const DeviceGroup* g : {&layer.qkv, &layer.gate_up})
      for (const DeviceLinear& l : g->parts) linear(l, options_.max_rows);
  }
  linear(weights_.head, kHeadRows);
  for (int64_t rows = 1; rows <= options_.max_rows; ++rows) {
    ops::attention::Rows g{};
    g.layout = layouts_.front();
    g.rows = rows;
    g.heads = parts_.heads.size();
    g.group = config_.heads / config_.kv_heads;
    g.first_head = parts_.heads.begin;
    for (g.max_positions = kFirstBucket; g.max_positions <= most_positions(); g.max_positions *= 2)
      most = std::max(most, ops::attention::cuda_workspace(g));
  }
  return most;
}

Status Gpu::send_inputs(const Plan& plan, const RopeTable& rope) {
  const int64_t half = config_.head_dim / 2;
  if (rope.filled() > rope_sent_) {
    const int64_t first = rope_sent_ * half, count = (rope.filled() - rope_sent_) * half;
    stream_.to_device(cos_ + first, rope.cos() + first, 2 * count);
    stream_.to_device(sin_ + first, rope.sin() + first, 2 * count);
    rope_sent_ = rope.filled();
  }
  std::copy(plan.tokens.begin(), plan.tokens.end(), staged_.tokens);
  std::copy(plan.positions.begin(), plan.positions.end(), staged_.positions);
  std::copy(plan.wanted.begin(), plan.wanted.end(), staged_.wanted);
  int64_t pages = 0;
  for (const Plan::Chunk& c : plan.chunks) {
    ZU_CHECK(pages + c.page_count <= most_pages());
    std::fill_n(staged_.begin + c.first_row, c.rows, static_cast<int32_t>(pages));
    for (int64_t i = 0; i < c.page_count; ++i) staged_.pages[pages++] = kv_ + c.pages[i] * page_bytes_;
  }
  stream_.to_device(inputs_, pinned_inputs_.data(), 16 * options_.max_rows + 8 * pages);
  return {};
}

Status Gpu::forward(const Plan& plan, const RopeTable& rope) {
  ZU_TRY(device::use(options_.device));
  ZU_CHECK(plan.rows() >= 1 && plan.rows() <= options_.max_rows);
  ZU_TRY(send_inputs(plan, rope));
  rows_ = plan.rows();
  logits_rows_ = 0;
  last_graph_ = nullptr;
  int64_t positions = 0;
  for (const int32_t p : plan.positions) positions = std::max<int64_t>(positions, p + 1);
  Shape shape{rows_, positions};
  const bool decoding = std::all_of(plan.chunks.begin(), plan.chunks.end(), [](const Plan::Chunk& c) { return c.rows == 1; });
  if (!decoding || !options_.graphs || exchange_ != nullptr || rows_ > std::min(kGraphRows, kHeadRows)) {
    layers(shape);
  } else {
    shape.max_positions = kFirstBucket;
    while (shape.max_positions < positions) shape.max_positions *= 2;
    auto it = std::find_if(graphs_.begin(), graphs_.end(), [&](const Recorded& r) { return r.shape == shape; });
    if (it == graphs_.end()) {
      ZU_TRY_ASSIGN(device::Graph graph, device::Graph::capture(stream_, [&] { layers(shape); head_rows_on_device(x_, shape.rows, faults(weights_.layers.size(), kInputQkv, rows_)); }));
      graphs_.push_back({shape, std::move(graph)});
      it = graphs_.end() - 1;
    }
    it->graph.launch(stream_);
    last_graph_ = &*it;
    graph_nodes_ = it->graph.nodes();
    logits_rows_ = rows_;
  }
  note(stream_.synchronize());
  return std::exchange(status_, {});
}

void Gpu::layers(const Shape& shape) {
  const int64_t rows = shape.rows, flags = config_.layers * kFaultOps * rows;
  stream_.fill(faults_, 0, flags + std::max(rows, kHeadRows));
  kernels_.embedding.run({on_gpu_.tokens, rows, config_.hidden, weights_.embedding, weights_.embedding_scales, x_}, launch_);
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    attention_part(shape, i, i == 0 ? nullptr : y_);
    mlp_part(shape, i);
  }
  if (!fuses(rows)) kernels_.residual.run({x_, y_, rows * config_.hidden}, launch_);
  find_faults(flags);
}

void Gpu::find_faults(int64_t flags) { ops::fused::first_flag(faults_, flags, pinned_faults_.as<int64_t>(), launch_); }

void Gpu::norm_quant(uint16_t* x, const uint16_t* add, const uint16_t* weight, int64_t rows, int width, uint8_t* flags) {
  ops::fused::norm_quant({x, add, rows, config_.hidden, weight, config_.rms_eps, h_, width, range_, codes_, codes_stride_, scales_, flags}, launch_);
}

void Gpu::quantize(const uint16_t* x, int64_t rows, int64_t k, int width, const uint16_t* tops, uint8_t* flags) {
  kernels_.quant_rows.run({x, k, rows, k, width, range_, tops, codes_, codes_stride_, scales_, flags}, launch_);
}

// The rows in h_ are quantised at `width_at_hand` already.
void Gpu::group_linear(const DeviceGroup& group, int64_t rows, uint16_t* y, int width_at_hand, uint8_t* flags) {
  for (const DeviceLinear& l : group.parts) {
    if (l.width != width_at_hand) quantize(h_, rows, config_.hidden, l.width, nullptr, flags);
    width_at_hand = l.width;
    linear(l, rows, Output::kBf16, y + l.first_output, group.n);
  }
}

// y [rows, hidden] of a linear whose inputs are spread over the ranks.
void Gpu::row_linear(const DeviceLinear& l, int64_t rows, uint16_t* y) {
  if (exchange_ == nullptr) return linear(l, rows, Output::kBf16, y, l.n);
  const int64_t count = rows * l.n;
  if (l.k > 0)
    linear(l, rows, Output::kPartial, sums_, l.n);
  else
    stream_.fill(sums_, 0, count * 8);
  if (nccl_) {
    note(nccl_->sum(sums_, count, stream_.handle()));
  } else {
    auto* host = pinned_exchange_.as<int64_t>();
    stream_.to_host(host, sums_, count * 8);
    note(stream_.synchronize());
    exchange_->sum({host, static_cast<size_t>(count)});
    stream_.to_device(sums_, host, count * 8);
  }
  ops::linear_s8::cuda_store({codes_, codes_stride_, scales_, rows, l.k, l.width, l.codes, l.k, l.n, l.scales, l.bias, Output::kBf16, y, l.n}, sums_,
                             launch_);
}

void Gpu::exchange_tops(int64_t rows) {
  if (nccl_) {
    ops::fused::widen(tops_, rows, wide_tops_, launch_);
    note(nccl_->max(wide_tops_, rows, stream_.handle()));
    return ops::fused::narrow(wide_tops_, rows, tops_, launch_);
  }
  auto* host = pinned_exchange_.as<uint16_t>();
  stream_.to_host(host, tops_, rows * 2);
  note(stream_.synchronize());
  exchange_->max({host, static_cast<size_t>(rows)});
  stream_.to_device(tops_, host, rows * 2);
}

void Gpu::attention_part(const Shape& shape, size_t index, const uint16_t* add) {
  const DeviceLayer& w = weights_.layers[index];
  const int64_t rows = shape.rows, d = config_.head_dim, heads = parts_.heads.size(), kv_heads = parts_.kv.size(), q_size = heads * d;
  const int width = w.qkv.parts.front().width;
  uint8_t* flags = faults(index, kInputQkv, rows);
  if (fuses(rows)) {
    for (const DeviceLinear& l : w.qkv.parts)
      ops::fused::norm_linear({{x_, config_.hidden, range_, flags}, w.input_norm, config_.rms_eps}, linear_args(l, rows, Output::kBf16, qkv_ + l.first_output, w.qkv.n), launch_);
  } else {
    norm_quant(x_, add, w.input_norm, rows, width, flags);
    group_linear(w.qkv, rows, qkv_, width, flags);
  }
  const ops::kv_cache::Pages at = pages(index);
  const ops::fused::Heads made{qkv_, w.qkv.n, rows, heads, kv_heads, d, w.q_norm, w.k_norm, config_.rms_eps, on_gpu_.positions, cos_, sin_, q_codes_, q_scales_,
                               layouts_[index], at, faults(index, kQueries, rows), faults(index, kKeysValues, rows)};
  const float constant = ops::attention::score_constant(d, layouts_[index].key_width);
  const ops::attention::Rows attention{layouts_[index], rows, heads, config_.heads / config_.kv_heads, parts_.heads.begin, config_.window[index].value_or(0), constant,
                                       q_codes_, q_size, q_scales_, on_gpu_.positions, shape.max_positions, at, att_, q_size, faults(index, kAttention, rows),
                                       arrivals_};
  if (fuses(rows) && ops::fused::heads_attention_fits(attention)) {
    ops::fused::heads_attention(made, attention, launch_);
  } else {
    ops::fused::heads(made, launch_);
    kernels_.attention.run(attention, launch_);
  }
  flags = faults(index, kInputO, rows);
  if (fuses(rows)) return ops::fused::linear_residual({att_, q_size, range_, flags}, linear_args(w.o, rows, Output::kBf16, x_, w.o.n), x_, launch_);
  if (exchange_ != nullptr) {
    ops::quant_rows::cuda_absmax(att_, q_size, rows, q_size, tops_, launch_);
    exchange_tops(rows);
  }
  quantize(att_, rows, q_size, w.o.width, exchange_ ? tops_ : nullptr, flags);
  row_linear(w.o, rows, y_);
}

void Gpu::mlp_part(const Shape& shape, size_t index) {
  const DeviceLayer& w = weights_.layers[index];
  const int64_t rows = shape.rows, inner = parts_.inner.size();
  const int width = w.gate_up.parts.front().width;
  if (fuses(rows)) {
    const DeviceLinear& both = w.gate_up.parts.front();
    ops::fused::norm_linear_silu({{x_, config_.hidden, range_, faults(index, kInputGateUp, rows)}, w.post_norm, config_.rms_eps},
                                 linear_args(both, rows, Output::kBf16, gate_up_, both.n), inner_, launch_);
    return ops::fused::linear_residual({inner_, inner, range_, faults(index, kInputDown, rows)}, linear_args(w.down, rows, Output::kBf16, x_, w.down.n), x_, launch_);
  }
  norm_quant(x_, y_, w.post_norm, rows, width, faults(index, kInputGateUp, rows));
  group_linear(w.gate_up, rows, gate_up_, width, faults(index, kInputGateUp, rows));
  uint8_t* flags = faults(index, kInputDown, rows);
  ops::fused::silu_quant({gate_up_, gate_up_ + inner, 2 * inner, rows, inner, inner_, w.down.width, range_, codes_, codes_stride_, scales_, flags,
                          exchange_ ? tops_ : nullptr},
                         launch_);
  if (exchange_ != nullptr) {
    exchange_tops(rows);
    quantize(inner_, rows, inner, w.down.width, tops_, flags);
  }
  row_linear(w.down, rows, y_);
}

// Final norm and head of `rows` rows into logits_; `flags` is cleared by layers().
void Gpu::head_rows_on_device(const uint16_t* x, int64_t rows, uint8_t* flags) {
  if (fuses(rows)) {
    ops::fused::norm_linear({{x, config_.hidden, range_, flags}, weights_.final_norm, config_.rms_eps},
                            linear_args(weights_.head, rows, Output::kF32, logits_, parts_.vocab.size()), launch_);
  } else {
    norm_quant(const_cast<uint16_t*>(x), nullptr, weights_.final_norm, rows, weights_.head.width, flags);
    linear(weights_.head, rows, Output::kF32, logits_, parts_.vocab.size());
  }
  ops::fused::first_flag(flags, rows, pinned_faults_.as<int64_t>() + 1, launch_);
}

// Leaves logits of wanted rows [first, first + count) at the start of logits_.
Status Gpu::run_head(const Plan& plan, int64_t first, int64_t count) {
  ZU_CHECK(count >= 1 && count <= kHeadRows);
  ZU_TRY(device::use(options_.device));
  head_fault_ = true;
  if (logits_rows_ > 0 && first == 0 && count == logits_rows_ && static_cast<int64_t>(plan.wanted.size()) == logits_rows_) return {};
  uint8_t* flags = faults(weights_.layers.size(), kInputQkv, rows_);
  stream_.fill(flags, 0, count);
  ops::fused::gather_rows(x_, on_gpu_.wanted + first, count, config_.hidden, head_x_, launch_);
  head_rows_on_device(head_x_, count, flags);
  logits_rows_ = 0;
  return {};
}

Result<const float*> Gpu::head(const Plan& plan, int64_t first, int64_t count) {
  ZU_TRY(run_head(plan, first, count));
  const int64_t mine = parts_.vocab.size();
  auto* logits = pinned_logits_.as<float>();
  if (exchange_ == nullptr) {
    stream_.to_host(logits, logits_, count * mine * 4);
    ZU_TRY(stream_.synchronize());
  } else {
    auto* local = pinned_exchange_.as<float>();
    stream_.to_host(local, logits_, count * mine * 4);
    note(stream_.synchronize());
    std::vector<int64_t> counts;
    for (int r = 0; r < exchange_->size(); ++r) counts.push_back(part_of(config_.vocab, r, exchange_->size()).size() * count);
    std::vector<float> gathered(static_cast<size_t>(config_.vocab * count));
    exchange_->gather({local, static_cast<size_t>(mine * count)}, counts, gathered);
    const float* from = gathered.data();  // rank by rank, each [count, its vocabulary]
    for (int r = 0; r < exchange_->size(); ++r) {
      const Part part = part_of(config_.vocab, r, exchange_->size());
      for (int64_t row = 0; row < count; ++row, from += part.size()) std::copy_n(from, part.size(), logits + row * config_.vocab + part.begin);
    }
  }
  const int64_t bad = pinned_faults_.as<int64_t>()[1];
  if (bad >= 0) pinned_faults_.as<int64_t>()[1] = plan.wanted[static_cast<size_t>(first + bad)];
  return static_cast<const float*>(logits);
}

Result<std::vector<int64_t>> Gpu::draw(const Plan& plan, int64_t first, std::span<const Draw> draws) {
  ZU_CHECK(exchange_ == nullptr);
  const auto count = static_cast<int64_t>(draws.size());
  ZU_TRY(run_head(plan, first, count));
  std::vector<ops::sample::Draw> ready;
  for (const Draw& d : draws) ready.push_back(ops::sample::make_draw(d.settings, d.position, d.request));
  stream_.to_device(draws_, ready.data(), count * static_cast<int64_t>(sizeof ready[0]));
  ops::sample::cuda({logits_, config_.vocab, count, config_.vocab, draws_, tokens_}, launch_);
  std::vector<int64_t> tokens(draws.size());
  stream_.to_host(tokens.data(), tokens_, count * 8);
  ZU_TRY(stream_.synchronize());
  const int64_t bad = pinned_faults_.as<int64_t>()[1];
  if (bad >= 0) pinned_faults_.as<int64_t>()[1] = plan.wanted[static_cast<size_t>(first + bad)];
  return tokens;
}

Fault Gpu::take_fault() {
  Fault f;
  const int64_t* found = pinned_faults_.as<const int64_t>();
  if (head_fault_) {
    if (found[1] >= 0) f = {true, config_.layers, "input of the head", found[1]};
  } else if (found[0] >= 0) {
    const int64_t op = found[0] / rows_;
    f = {true, op / kFaultOps, kFaultNames[op % kFaultOps], found[0] % rows_};
  }
  head_fault_ = false;
  if (exchange_ == nullptr) return f;
  uint16_t any[1] = {f.any ? uint16_t{1} : uint16_t{0}};
  exchange_->max(any);
  if (any[0] != 0 && !f.any) f = {true, -1, "an op of another rank", 0};
  return f;
}

Result<double> Gpu::replay_milliseconds(int repeats) {
  if (last_graph_ == nullptr) return usage_error("no graph has run");
  ZU_TRY_ASSIGN(const device::Timer timer, device::Timer::create());
  timer.start(stream_);
  for (int i = 0; i < repeats; ++i) last_graph_->graph.launch(stream_);
  timer.stop(stream_);
  ZU_TRY_ASSIGN(const double ms, timer.milliseconds());
  ZU_TRY(stream_.synchronize());
  return ms / repeats;
}

}  // namespace

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::create(const model::QuantizedModel& model, const ops::DeviceKernels& kernels, Exchange* exchange,
                                                             const Options& options) {
  ZU_TRY(device::use(options.device));
  ZU_TRY_ASSIGN(device::Stream stream, device::Stream::create());
  auto decoder = std::make_unique<Gpu>(model, kernels, exchange, options, std::move(stream));
  ZU_TRY(decoder->prepare(model));
  return std::unique_ptr<DeviceDecoder>(std::move(decoder));
}

}  // namespace zeroulp::engine
