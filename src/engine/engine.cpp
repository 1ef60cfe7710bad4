#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/together.h"

namespace zeroulp::engine {
namespace {

constexpr int kMaxThreads = 1024;

int64_t pages_for(int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; }

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const model::QuantizedModel& model, const EngineOptions& given) {
  EngineOptions options = given;
  if (options.threads < 1 || options.threads > kMaxThreads) return usage_error(fmt::format("{} threads; 1 to {} can be had", options.threads, kMaxThreads));
  if (options.ranks < 1 || options.ranks > kMaxRanks)
    return usage_error(fmt::format("{} tensor-parallel ranks; 1 to {} can be had", options.ranks, kMaxRanks));
  if (options.ranks * options.threads > kMaxThreads)
    return usage_error(fmt::format("{} ranks of {} threads each; {} threads can be had in all", options.ranks, options.threads, kMaxThreads));
  if (options.exchange != nullptr && options.ranks != 1) return usage_error("ranks inside a process and MPI ranks exclude each other");
  if (options.max_rows < 1 || options.max_context < 1 || options.max_total_positions < 1) return usage_error("an engine needs room for one token");
  options.max_context = std::min(options.max_context, model.config().max_positions);
  const bool gpu = options.device >= 0;
  if (gpu && options.plant != Plant::kNone) return usage_error("planted dependences are in the processor's code, not in the GPU's");
  ZU_TRY_ASSIGN(ops::Kernels kernels, ops::select_kernels(gpu ? "" : options.kernel, cpu_features()));
  if (options.linear != nullptr) kernels.linear_s8 = {"foreign", ops::Needs::kNothing, options.linear};
  if (options.adjust) options.adjust(kernels);
  std::unique_ptr<Engine> engine(new Engine(model, options, kernels));
  ZU_TRY(engine->make_ranks());
  return engine;
}

Engine::Engine(const model::QuantizedModel& model, const EngineOptions& options, const ops::Kernels& kernels)
    : model_(model), options_(options), kernels_(kernels), pages_(pages_for(options.max_total_positions), options.prefix_cache),
      rope_(model.config(), options.max_context, kernels.rope_table) {
  const auto sequences = static_cast<size_t>(std::min(kSequences, pages_.capacity())), rows = static_cast<size_t>(options.max_rows);
  open_.reserve(sequences);
  spare_.reserve(sequences);
  while (spare_.size() < sequences) spare_.push_back(make_sequence());
  copies_.reserve(rows);
  plan_.chunks.reserve(rows);
  plan_sequences_.reserve(rows);
  plan_.tokens.reserve(rows);
  plan_.positions.reserve(rows);
  plan_.wanted.reserve(rows);
}

Status Engine::make_ranks() {
  if (options_.ranks > 1) group_ = std::make_unique<LocalGroup>(options_.ranks);
  const auto exchange = [&](int r) { return group_ ? &group_->rank(r) : options_.exchange; };
  if (options_.device >= 0) {
    ZU_TRY(device::use(options_.device));
    ZU_TRY_ASSIGN(device_kernels_, ops::select_device_kernels(options_.kernel));
    if (options_.device_linear != nullptr) device_kernels_.linear_s8 = *options_.device_linear;
    pool_ = std::make_unique<ThreadPool>(options_.threads);
    // Ranks take GPUs in turn, from the chosen one on; where there is one for each, they exchange by NCCL.
    const int gpus = device::count(), size = options_.exchange != nullptr ? options_.exchange->size() : options_.ranks;
    const DeviceDecoder::Options shared{options_.device, options_.max_rows, options_.max_context, pages_.capacity(), size > 1 && size <= gpus, options_.graphs};
    // Joining NCCL is collective: every rank on a thread of its own.
    std::vector<std::unique_ptr<DeviceDecoder>> made(static_cast<size_t>(options_.ranks));
    std::vector<Status> done(made.size());
    run_together(made.size(), [&](size_t r) {
      DeviceDecoder::Options decoder = shared;
      decoder.device = (options_.device + (options_.exchange != nullptr ? options_.exchange->rank() : static_cast<int>(r))) % gpus;
      auto rank = DeviceDecoder::create(model_, device_kernels_, exchange(static_cast<int>(r)), decoder);
      if (rank)
        made[r] = std::move(*rank);
      else
        done[r] = std::move(rank).error();
    });
    for (Status& s : done) ZU_TRY(std::move(s));
    for (auto& rank : made) ranks_.push_back(std::move(rank));
    on_device_ = static_cast<DeviceDecoder*>(ranks_.front().get());
    return {};
  }
  const Decoder::Options decoder{options_.max_rows, options_.max_context, pages_.capacity(), options_.plant};
  for (int r = 0; r < options_.ranks; ++r) {
    auto rank = std::make_unique<Decoder>(model_, kernels_, exchange(r), options_.threads, decoder);
    cpu_ranks_.push_back(rank.get());
    ranks_.push_back(std::move(rank));
  }
  return {};
}

std::vector<std::string> Engine::kernel_names() const { return on_device_ ? device_kernels_.names() : kernels_.names(); }

Engine::~Engine() = default;

std::unique_ptr<KvPages::Sequence> Engine::make_sequence() const {
  auto s = std::make_unique<KvPages::Sequence>();
  s->pages.reserve(static_cast<size_t>(pages_for(options_.max_context)));
  return s;
}

std::vector<Engine::Open>::const_iterator Engine::find(int64_t id) const {
  const auto it = std::lower_bound(open_.begin(), open_.end(), id, [](const Open& o, int64_t wanted) { return o.id < wanted; });
  ZU_CHECK(it != open_.end() && it->id == id);
  return it;
}
std::vector<Engine::Open>::iterator Engine::find(int64_t id) { return open_.begin() + (std::as_const(*this).find(id) - open_.cbegin()); }

int64_t Engine::open_sequence() {
  if (spare_.empty()) spare_.push_back(make_sequence());
  open_.push_back({next_id_, std::move(spare_.back())});
  spare_.pop_back();
  return next_id_++;
}

int64_t Engine::fork_sequence(int64_t id) {
  const int64_t fork = open_sequence();
  pages_.fork(*find(id)->sequence, *open_.back().sequence);
  return fork;
}

void Engine::close_sequence(int64_t id) {
  const auto it = find(id);
  pages_.release(*it->sequence);
  spare_.push_back(std::move(it->sequence));
  open_.erase(it);
}

int64_t Engine::length(int64_t id) const { return find(id)->sequence->length(); }
int64_t Engine::free_positions() const { return pages_.free_pages() * kPagePositions; }
void Engine::set_capture(CaptureFn capture) {
  ZU_CHECK(!cpu_ranks_.empty());
  cpu_ranks_.front()->capture = std::move(capture);
}

void Engine::set_trace(TraceFn trace) {
  trace_ = std::move(trace);
  ZU_CHECK(!cpu_ranks_.empty());
  auto& hook = cpu_ranks_.front()->trace;
  if (!trace_) hook = {};
  else hook = [this](int64_t layer, TraceOp op, int64_t rows, int64_t width, const uint16_t* values) { trace_rows(layer, op, rows, width, values); };
}

void Engine::trace_rows(int64_t layer, TraceOp op, int64_t rows, int64_t width, const uint16_t* values) const {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = op == TraceOp::kFinalNorm ? plan_.wanted[static_cast<size_t>(head_first_ + i)] : i;
    trace_({layer, op, plan_sequences_[chunk_of(row)], plan_.positions[static_cast<size_t>(row)], width, values + i * width});
  }
}

void Engine::trace_logits(int64_t rows, const float* logits) const {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row = plan_.wanted[static_cast<size_t>(head_first_ + i)];
    trace_({config().layers, TraceOp::kHead, plan_sequences_[chunk_of(row)], plan_.positions[static_cast<size_t>(row)], config().vocab, nullptr, logits + i * config().vocab});
  }
}

size_t Engine::chunk_of(int64_t row) const {
  size_t c = 0;
  while (row >= plan_.chunks[c].first_row + plan_.chunks[c].rows) ++c;
  return c;
}

int64_t Engine::reuse_prefix(int64_t id, std::span<const int32_t> prompt) {
  KvPages::Sequence& s = *find(id)->sequence;
  const int64_t taken = pages_.reuse_prefix(s, prompt);
  if (options_.plant == Plant::kPrefixCache)
    for (Decoder* rank : cpu_ranks_)
      for (const int32_t page : s.pages)
        for (int64_t layer = 0; layer < config().layers; ++layer)
          for (int64_t head = 0; head < rank->local_kv_heads(); ++head)
            planted::round_values(rank->page_block(page, layer, head), rank->layout(layer));
  return taken;
}

ops::kv_cache::Layout Engine::kv_layout(int64_t layer) const { return {config().head_dim, model_.layers()[static_cast<size_t>(layer)].key_width}; }

Status Engine::read_kv(int64_t id, int64_t layer, int64_t head, int64_t block, std::span<std::byte> to) {
  ZU_CHECK(options_.exchange == nullptr);
  const int32_t page = find(id)->sequence->pages[static_cast<size_t>(block)];
  for (auto& rank : ranks_)
    if (const Part heads = rank->kv_heads(); head >= heads.begin && head < heads.end) return rank->read_block(page, layer, head - heads.begin, to);
  ZU_CHECK(false);  // every head has a rank
  return {};
}

Status Engine::restore_kv(int64_t id, std::span<const int32_t> tokens, const FillBlock& fill) {
  ZU_CHECK(options_.exchange == nullptr);
  KvPages::Sequence& s = *find(id)->sequence;
  ZU_CHECK(s.positions == 0 && s.pages.empty());
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > options_.max_context) return bad_input(fmt::format("a sequence of {} tokens is longer than the context of {}", count, options_.max_context));
  if (pages_.pages_wanted(s, count) > pages_.free_pages()) return bad_input(fmt::format("the KV cache of {} positions is full", options_.max_total_positions));
  pages_.extend(s, count, copies_);
  std::vector<std::byte> bytes;
  for (int64_t layer = 0; layer < config().layers; ++layer) {
    bytes.resize(static_cast<size_t>(kv_layout(layer).bytes()));
    for (int64_t head = 0; head < config().kv_heads; ++head)
      for (size_t block = 0; block < s.pages.size(); ++block) {
        fill(layer, head, static_cast<int64_t>(block), bytes);
        for (auto& rank : ranks_)
          if (const Part heads = rank->kv_heads(); head >= heads.begin && head < heads.end)
            ZU_TRY(rank->write_block(s.pages[block], layer, head - heads.begin, bytes));
      }
  }
  pages_.append(s, tokens);
  return {};
}

Status Engine::check(std::span<const Chunk> chunks) {
  ++passes_;
  int64_t rows = 0, pages = 0;
  for (const Chunk& c : chunks) {
    Open& open = *find(c.sequence);
    ZU_CHECK(!c.tokens.empty() && open.pass != passes_);
    open.pass = passes_;
    const auto count = static_cast<int64_t>(c.tokens.size());
    rows += count;
    pages += pages_.pages_wanted(*open.sequence, count);
    const int64_t end = open.sequence->length() + count;
    if (end > options_.max_context)
      return bad_input(fmt::format("a sequence of {} tokens is longer than the context of {}", end, options_.max_context));
    for (const int32_t token : c.tokens)
      if (token < 0 || token >= config().vocab) return bad_input(fmt::format("token {} is outside the model's vocabulary of {}", token, config().vocab));
  }
  if (rows < 1 || rows > options_.max_rows) return bad_input(fmt::format("{} tokens in one pass; this engine was made for 1 to {}", rows, options_.max_rows));
  if (pages > pages_.free_pages()) return bad_input(fmt::format("the KV cache of {} positions is full", options_.max_total_positions));
  return {};
}

void Engine::make_plan(std::span<const Chunk> chunks) {
  plan_.chunks.clear();
  plan_sequences_.clear();
  plan_.tokens.clear();
  plan_.positions.clear();
  plan_.wanted.clear();
  copies_.clear();
  for (const Chunk& c : chunks) {
    KvPages::Sequence& s = *find(c.sequence)->sequence;
    const auto count = static_cast<int64_t>(c.tokens.size());
    pages_.extend(s, count, copies_);
    plan_sequences_.push_back(c.sequence);
    plan_.chunks.push_back({plan_.rows(), count, s.length(), s.pages.data(), static_cast<int64_t>(s.pages.size())});
    for (int64_t i = 0; i < count; ++i) {
      if (c.want == Want::kAll || (c.want == Want::kLast && i == count - 1)) plan_.wanted.push_back(static_cast<int32_t>(plan_.rows()));
      plan_.tokens.push_back(c.tokens[static_cast<size_t>(i)]);
      plan_.positions.push_back(static_cast<int32_t>(s.length() + i));
    }
  }
}

template <class Work>
Status Engine::on_ranks(const Work& work) {
  if (ranks_.size() == 1) return work(*ranks_.front());
  std::vector<Status> done(ranks_.size());
  run_together(ranks_.size(), [&](size_t r) { done[r] = work(*ranks_[r]); });
  for (Status& s : done) ZU_TRY(std::move(s));
  return {};
}

Status Engine::compute(std::span<const Chunk> chunks) {
  ZU_TRY(check(chunks));
  make_plan(chunks);
  int64_t positions = 0;
  for (const int32_t p : plan_.positions) positions = std::max<int64_t>(positions, p + 1);
  rope_.fill_to(std::min((positions + 255) / 256 * 256, options_.max_context), pool_ ? *pool_ : cpu_ranks_.front()->pool());
  Fault fault;
  Status done = on_ranks([&](RankDecoder& rank) -> Status {
    FpEnvScope fp;
    for (const KvPages::Copy& copy : copies_) rank.copy_page(copy.from, copy.to);
    ZU_TRY(rank.forward(plan_, rope_));
    const Fault f = rank.take_fault();
    if (&rank == ranks_.front().get()) fault = f;
    return {};
  });
  ZU_TRY(std::move(done));
  if (fault.interrupted) return interrupted();
  if (fault.any) return fault_error(fault, chunks);
  // No logits of a model that is not what it says it is.
  ZU_TRY(model_.verify_identity());
  for (const Chunk& c : chunks) pages_.append(*find(c.sequence)->sequence, c.tokens);
  return {};
}

Status Engine::forward(std::span<const Chunk> chunks, const LogitsSink& sink) {
  ZU_TRY(compute(chunks));
  return hand_out(sink, chunks);
}

Result<std::vector<int64_t>> Engine::forward_and_draw(std::span<const Chunk> chunks, std::span<const Draw> draws) {
  ZU_CHECK(chunks.size() == draws.size());
  std::vector<int64_t> tokens(chunks.size(), -1);
  if (on_device_ == nullptr || ranks_.size() > 1 || options_.exchange != nullptr) {
    if (!sampler_) sampler_ = std::make_unique<ops::sample::Sampler>(config().vocab, kernels_.argmax.run);
    Status done = forward(chunks, [&](const LogitsBlock& block) -> Status {
      size_t c = 0;
      while (chunks[c].sequence != block.sequence) ++c;
      const int64_t last = block.rows - 1;
      tokens[c] = sampler_->draw(block.row(last), config().vocab, draws[c].settings, static_cast<uint32_t>(block.first_position + last), draws[c].request);
      return {};
    });
    ZU_TRY(std::move(done));
    return tokens;
  }
  ZU_TRY(compute(chunks));
  std::vector<DeviceDecoder::Draw> wanted;
  std::vector<size_t> whose;
  for (size_t c = 0; c < chunks.size(); ++c) {
    ZU_CHECK(chunks[c].want != Want::kAll);
    if (chunks[c].want != Want::kLast) continue;
    const auto row = static_cast<size_t>(plan_.chunks[c].first_row + plan_.chunks[c].rows - 1);
    wanted.push_back({draws[c].settings, static_cast<uint32_t>(plan_.positions[row]), draws[c].request});
    whose.push_back(c);
  }
  const auto most = static_cast<size_t>(on_device_->head_rows());
  for (size_t first = 0; first < wanted.size(); first += most) {
    const size_t count = std::min(most, wanted.size() - first);
    ZU_TRY_ASSIGN(const std::vector<int64_t> drawn, on_device_->draw(plan_, static_cast<int64_t>(first), std::span(wanted).subspan(first, count)));
    if (const Fault fault = on_device_->take_fault(); fault.any) return fault_error(fault, chunks).error();
    for (size_t i = 0; i < count; ++i) tokens[whose[first + i]] = drawn[i];
  }
  return tokens;
}

Status Engine::hand_out(const LogitsSink& sink, std::span<const Chunk> chunks) {
  const auto wanted = static_cast<int64_t>(plan_.wanted.size());
  const int64_t most = ranks_.front()->head_rows();
  for (int64_t first = 0; first < wanted; first += most) {
    const int64_t count = std::min(most, wanted - first);
    const float* logits = nullptr;
    Fault fault;
    head_first_ = first;
    Status done = on_ranks([&](RankDecoder& rank) -> Status {
      FpEnvScope fp;
      ZU_TRY_ASSIGN(const float* mine, rank.head(plan_, first, count));
      const Fault f = rank.take_fault();
      if (&rank == ranks_.front().get()) logits = mine, fault = f;
      return {};
    });
    ZU_TRY(std::move(done));
    if (fault.any) return fault_error(fault, chunks);
    if (trace_) trace_logits(count, logits);
    // Consecutive rows of one chunk make a block.
    for (int64_t i = 0; i < count;) {
      const int64_t row = plan_.wanted[static_cast<size_t>(first + i)];
      const size_t c = chunk_of(row);
      const int64_t end_row = plan_.chunks[c].first_row + plan_.chunks[c].rows;
      int64_t length = 1;
      while (i + length < count && plan_.wanted[static_cast<size_t>(first + i + length)] == row + length && row + length < end_row) ++length;
      ZU_TRY(sink({chunks[c].sequence, plan_.positions[static_cast<size_t>(row)], length, logits + i * config().vocab, config().vocab}));
      i += length;
    }
  }
  return {};
}

Status Engine::fault_error(const Fault& fault, std::span<const Chunk> chunks) {
  std::string where = "another rank";
  for (size_t c = 0; fault.layer >= 0 && c < plan_.chunks.size(); ++c) {
    const Plan::Chunk& chunk = plan_.chunks[c];
    if (fault.row < chunk.first_row || fault.row >= chunk.first_row + chunk.rows) continue;
    where = fmt::format("token {} at position {} of sequence {}, {}, {}", plan_.tokens[static_cast<size_t>(fault.row)],
                        plan_.positions[static_cast<size_t>(fault.row)], chunks[c].sequence,
                        fault.layer == config().layers ? std::string("head") : fmt::format("layer {}", fault.layer), fault.op);
  }
  for (const Chunk& c : chunks) close_sequence(c.sequence);
  return answer_is_no(fmt::format("a value left the contract's range (NaN, Inf or too large): {}", where));
}

std::function<Status(std::span<const int32_t>, const LogitsSink&)> decode_with(Engine& engine) {
  return [&engine](std::span<const int32_t> tokens, const LogitsSink& sink) -> Status {
    const int64_t id = engine.open_sequence();
    const auto step = static_cast<size_t>(engine.options().max_rows);
    for (size_t at = 0; at < tokens.size(); at += step) {
      const Engine::Chunk chunk{id, tokens.subspan(at, std::min(step, tokens.size() - at)), Engine::Want::kAll};
      ZU_TRY(engine.forward(std::span(&chunk, 1), sink));
    }
    engine.close_sequence(id);
    return {};
  };
}

}  // namespace zeroulp::engine
