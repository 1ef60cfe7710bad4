#include "codec/frame.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/interrupt.h"

namespace zeroulp::codec {
namespace {

constexpr uint32_t kBlocksPerTurn = 32;  // a thread codes so many blocks before it takes its place in the frame

uint32_t element_bytes(Type type) { return static_cast<uint32_t>(type_info(type).bytes); }
uint32_t block_values(const FrameOptions& o) { return o.block_bytes / element_bytes(o.type); }
uint32_t table_check(std::span<const uint8_t> table) {
  return table.empty() ? 0 : static_cast<uint32_t>(XXH3_64bits(table.data(), table.size()));
}

template <class Byte>
Byte* place(const Pages<Byte>& pages, uint32_t block) {
  return pages.base + (pages.page.empty() ? block : pages.page[block]) * pages.stride;
}

// Tensors that no cache holds go past the caches where the kernels can.
constexpr uint64_t kPastCaches = uint64_t{8} << 20;
bool past_caches(const Kernels& kernels, uint64_t raw_bytes) { return kernels.copy_out != nullptr && raw_bytes >= kPastCaches; }

Soon lines_of(const std::byte* from, size_t bytes) { return {from, static_cast<uint32_t>(bytes / 64)}; }

// One frame in the making. Threads code turns of blocks on their own and then put them down in order, each waiting for the turn before.
class FrameWriter {
 public:
  FrameWriter(const Kernels& kernels, const FrameOptions& options, const ConstPages& pages, uint64_t raw_bytes, uint32_t blocks,
              std::span<std::byte> to)
      : kernels_(kernels), options_(options), pages_(pages), raw_bytes_(raw_bytes), blocks_(blocks), to_(to.data()),
        period_(static_cast<uint32_t>(options.table.size())), payloads_(to_ + payload_offset(period_, blocks)) {}

  Result<uint64_t> run(ThreadPool* pool) {
    const int threads = pool == nullptr ? 1 : pool->size();
    if (threads == 1 || blocks_ <= kBlocksPerTurn) {
      Scratch scratch(block_values(options_));
      if (!past_caches(kernels_, raw_bytes_)) {
        for (uint32_t b = 0; b < blocks_ && !interrupt_requested(); ++b) finish(b, code(b, payloads_ + end_, scratch));
        return close();
      }
      std::vector<std::byte> coded(round_up16(options_.block_bytes));
      for (uint32_t b = 0; b < blocks_ && !interrupt_requested(); ++b) {
        const Entry e = code(b, coded.data(), scratch);
        kernels_.copy_out(coded.data(), e.size, payloads_ + end_);
        finish(b, e);
      }
      kernels_.end_copies();
    } else {
      pool->parallel_for(threads, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) take_turns(static_cast<uint32_t>(i), static_cast<uint32_t>(threads));
      });
    }
    return close();
  }

 private:
  uint32_t values(uint32_t block) const {
    if (!pages_.valid.empty()) return pages_.valid[block];
    const uint64_t left = raw_bytes_ - uint64_t{block} * options_.block_bytes;
    return static_cast<uint32_t>(std::min<uint64_t>(left, options_.block_bytes)) / element_bytes(options_.type);
  }

  Entry code(uint32_t block, std::byte* to, Scratch& scratch) {
    const std::byte* raw = place(pages_, block);
    const uint32_t n = values(block);
    if (block + 1 < blocks_) scratch.soon = lines_of(place(pages_, block + 1), size_t{values(block + 1)} * element_bytes(options_.type));
    Entry e = encode_block(kernels_, {options_.type, options_.table}, options_.level, raw, n, to, scratch);
    if (options_.hashes) e.hash = kernels_.hash(raw, size_t{n} * element_bytes(options_.type), scratch.soon);
    return e;
  }

  void finish(uint32_t block, Entry e) {
    e.offset = static_cast<uint32_t>(end_ / kAlign);
    store_entry(e, to_ + directory_offset(period_) + uint64_t{kEntryBytes} * block);
    end_ += e.size;
  }

  void take_turns(uint32_t thread, uint32_t threads) {
    Scratch scratch(block_values(options_));
    std::vector<std::byte> coded(size_t{kBlocksPerTurn} * round_up16(options_.block_bytes));
    std::array<Entry, kBlocksPerTurn> entries;
    const bool past = past_caches(kernels_, raw_bytes_);
    const uint32_t turns = (blocks_ + kBlocksPerTurn - 1) / kBlocksPerTurn;
    for (uint32_t turn = thread; turn < turns; turn += threads) {
      const uint32_t first = turn * kBlocksPerTurn, count = std::min(kBlocksPerTurn, blocks_ - first);
      size_t bytes = 0;
      for (uint32_t i = 0; i < count && !interrupt_requested(); ++i) {
        entries[i] = code(first + i, coded.data() + bytes, scratch);
        bytes += entries[i].size;
      }
      for (uint32_t now; (now = turn_.load()) != turn;) turn_.wait(now);
      std::byte* at = payloads_ + end_;
      for (uint32_t i = 0; i < count; ++i) finish(first + i, entries[i]);
      turn_.store(turn + 1);
      turn_.notify_all();
      if (past) kernels_.copy_out(coded.data(), bytes, at);
      else std::memcpy(at, coded.data(), bytes);
    }
    if (past) kernels_.end_copies();
  }

  Result<uint64_t> close() {
    if (interrupt_requested()) return interrupted();
    Header h = header_of(options_, raw_bytes_, blocks_, !pages_.valid.empty());
    h.payload_bytes = end_;
    store_header(h, to_);
    std::memset(to_ + kHeaderBytes, 0, directory_offset(period_) - kHeaderBytes);
    if (period_ != 0) std::memcpy(to_ + kHeaderBytes, options_.table.data(), period_);
    const uint64_t used = directory_offset(period_) + uint64_t{kEntryBytes} * blocks_;
    std::memset(to_ + used, 0, payload_offset(period_, blocks_) - used);
    return payload_offset(period_, blocks_) + end_;
  }

  const Kernels& kernels_;
  const FrameOptions& options_;
  const ConstPages& pages_;
  const uint64_t raw_bytes_;
  const uint32_t blocks_;
  std::byte* const to_;
  const uint32_t period_;
  std::byte* const payloads_;
  uint64_t end_ = 0;  // of the payloads; moved only by the thread whose turn it is
  std::atomic<uint32_t> turn_{0};
};

Error fault_error(std::string_view name, Fault fault, uint32_t block, bool in_block) {
  if (in_block) return bad_input(fmt::format("{}: block {}: {}", name, block, fault_text(fault)));
  return bad_input(fmt::format("{}: {}", name, fault_text(fault)));
}

Status check_valid(const FrameOptions& o, std::span<const uint32_t> valid, uint32_t blocks, uint64_t& raw_bytes) {
  raw_bytes = 0;
  if (valid.empty()) {
    raw_bytes = uint64_t{blocks} * o.block_bytes;
    return {};
  }
  if (valid.size() != blocks) return usage_error("codec: the list of valid values is not as long as the list of blocks");
  for (const uint32_t n : valid) {
    if (n == 0 || n > block_values(o)) return usage_error(fmt::format("codec: a block must have 1 to {} values, not {}", block_values(o), n));
    raw_bytes += uint64_t{n} * element_bytes(o.type);
  }
  return {};
}

Result<uint64_t> write_frame(const Kernels& kernels, const FrameOptions& o, const ConstPages& pages, uint64_t raw_bytes, uint64_t blocks,
                             std::span<std::byte> to, ThreadPool* pool) {
  ZU_TRY(check_options(o));
  if (raw_bytes % element_bytes(o.type) != 0)
    return usage_error(fmt::format("codec: {} bytes are no whole number of {} elements", raw_bytes, type_info(o.type).name));
  if (blocks > UINT32_MAX || blocks * round_up16(uint64_t{o.block_bytes}) > kPayloadLimit)
    return usage_error(fmt::format("codec: a frame holds at most {} GiB; split the tensor", kPayloadLimit >> 30));
  const uint64_t bound = frame_bound(o, raw_bytes, static_cast<uint32_t>(blocks), !pages.valid.empty());
  if (to.size() < bound) return usage_error(fmt::format("codec: the output needs frame_bound() = {} bytes and has {}", bound, to.size()));
  return FrameWriter(kernels, o, pages, raw_bytes, static_cast<uint32_t>(blocks), to).run(pool);
}

// Decodes all blocks, block i to where(i); reports the lowest block at fault.
template <class Where>
Status decode_all(const Kernels& kernels, const Frame& frame, const Where& where, std::string_view name, ThreadPool* pool) {
  const uint32_t blocks = frame.header().blocks;
  std::atomic<uint64_t> worst{UINT64_MAX};  // block << 32 | fault
  const bool past = past_caches(kernels, frame.header().raw_bytes);
  const auto body = [&](int64_t begin, int64_t end, int) {
    Scratch scratch(frame.block_values());
    std::vector<std::byte> near(past ? frame.header().block_bytes : 0);
    for (int64_t b = begin; b < end && !interrupt_requested(); ++b) {
      const uint32_t block = static_cast<uint32_t>(b);
      const Fault fault = frame.decode(kernels, block, past ? near.data() : where(block), scratch);
      if (past && fault == Fault::kNone) kernels.copy_out(near.data(), size_t{frame.entries()[block].values} * element_bytes(frame.header().type), where(block));
      if (fault == Fault::kNone) continue;
      const uint64_t mine = uint64_t{block} << 32 | static_cast<uint32_t>(fault);
      for (uint64_t seen = worst.load(); mine < seen && !worst.compare_exchange_weak(seen, mine);) {}
      break;
    }
    if (past) kernels.end_copies();
  };
  if (pool == nullptr) body(0, blocks, 0);
  else pool->parallel_for(blocks, 1, body);
  if (interrupt_requested()) return interrupted();
  if (const uint64_t w = worst.load(); w != UINT64_MAX) return fault_error(name, static_cast<Fault>(w & UINT32_MAX), static_cast<uint32_t>(w >> 32), true);
  return {};
}

}  // namespace

Status check_options(const FrameOptions& o) {
  if (o.block_bytes == 0 || o.block_bytes % element_bytes(o.type) != 0 || block_values(o) > kBlockValuesLimit)
    return usage_error(fmt::format("codec: a block must be a multiple of {} bytes and hold 1 to {} values; {} bytes do not", element_bytes(o.type),
                                   kBlockValuesLimit, o.block_bytes));
  if (o.table.empty()) return {};
  if (type_info(o.type).exponent_bits == 0) return usage_error(fmt::format("codec: {} has no exponents, so it takes no table", type_info(o.type).name));
  if (o.table.size() > kPeriodLimit || block_values(o) % o.table.size() != 0)
    return usage_error(fmt::format("codec: a table of {} channels must divide the {} values of a block", o.table.size(), block_values(o)));
  return {};
}

uint64_t blocks_of(const FrameOptions& o, uint64_t raw_bytes) { return raw_bytes / o.block_bytes + (raw_bytes % o.block_bytes != 0); }

uint64_t frame_bound(const FrameOptions& o, uint64_t raw_bytes, uint32_t blocks, bool ragged) {
  const bool all_padded = ragged || o.block_bytes % kAlign != 0;
  const uint64_t padding = all_padded ? uint64_t{blocks} * (kAlign - 1) : (kAlign - raw_bytes % kAlign) % kAlign;
  return payload_offset(static_cast<uint32_t>(o.table.size()), blocks) + raw_bytes + padding;
}

Header header_of(const FrameOptions& o, uint64_t raw_bytes, uint32_t blocks, bool ragged) {
  Header h;
  h.type = o.type;
  h.flags = static_cast<uint16_t>((o.hashes ? kFlagHashes : 0) | (ragged ? kFlagRagged : 0));
  h.block_bytes = o.block_bytes;
  h.blocks = blocks;
  h.raw_bytes = raw_bytes;
  h.period = static_cast<uint32_t>(o.table.size());
  h.table_check = table_check(o.table);
  return h;
}

Result<uint64_t> encode_frame(const Kernels& kernels, const FrameOptions& o, std::span<const std::byte> raw, std::span<std::byte> to, ThreadPool* pool) {
  ZU_TRY(check_options(o));
  return write_frame(kernels, o, {raw.data(), o.block_bytes, {}, {}}, raw.size(), blocks_of(o, raw.size()), to, pool);
}

Result<uint64_t> encode_pages(const Kernels& kernels, const FrameOptions& o, const ConstPages& pages, uint32_t blocks, std::span<std::byte> to,
                              ThreadPool* pool) {
  ZU_TRY(check_options(o));
  if (!pages.page.empty() && pages.page.size() != blocks) return usage_error("codec: the list of pages is not as long as the list of blocks");
  uint64_t raw_bytes = 0;
  ZU_TRY(check_valid(o, pages.valid, blocks, raw_bytes));
  return write_frame(kernels, o, pages, raw_bytes, blocks, to, pool);
}

Fault Frame::parse(std::span<const std::byte> bytes, Frame& f, uint32_t& at) {
  at = 0;
  if (bytes.size() < kHeaderBytes) return Fault::kTruncated;
  if (const Fault fault = load_header(bytes.data(), f.header_); fault != Fault::kNone) return fault;
  const Header& h = f.header_;
  const uint64_t start = payload_offset(h.period, h.blocks);
  if (bytes.size() < start || bytes.size() - start < h.payload_bytes) return Fault::kTruncated;
  if (bytes.size() - start > h.payload_bytes) return Fault::kHeader;
  const auto zero = [&](uint64_t begin, uint64_t end) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end),
                       [](std::byte b) { return b == std::byte{0}; });
  };
  f.table_ = {reinterpret_cast<const uint8_t*>(bytes.data()) + kHeaderBytes, h.period};
  if (table_check(f.table_) != h.table_check || !zero(kHeaderBytes + h.period, directory_offset(h.period))) return Fault::kTable;
  f.payloads_ = bytes.subspan(start);
  f.entries_.resize(h.blocks);
  const uint32_t element = element_bytes(h.type), full = f.block_values();
  uint64_t end = 0, raw_bytes = 0;
  for (at = 0; at < h.blocks; ++at) {
    Entry& e = f.entries_[at];
    if (const Fault fault = load_entry(bytes.data() + directory_offset(h.period) + uint64_t{kEntryBytes} * at, e); fault != Fault::kNone) return fault;
    if (e.values > full || (e.values < full && (h.flags & kFlagRagged) == 0 && at + 1 != h.blocks)) return Fault::kCount;
    if (uint64_t{e.offset} * kAlign != end || e.size > h.payload_bytes - end) return Fault::kPlace;
    if (e.size == 0 || e.size > round_up16(e.values * element)) return Fault::kSize;
    if ((h.flags & kFlagHashes) == 0 && e.hash != 0) return Fault::kParameters;
    end += e.size;
    raw_bytes += uint64_t{e.values} * element;
  }
  at = h.blocks;
  if (end != h.payload_bytes) return Fault::kPlace;
  if (raw_bytes != h.raw_bytes) return Fault::kCount;
  if (!zero(directory_offset(h.period) + uint64_t{kEntryBytes} * h.blocks, start)) return Fault::kPadding;
  return Fault::kNone;
}

Result<Frame> Frame::open(std::span<const std::byte> bytes, std::string_view name) {
  Frame frame;
  uint32_t at = 0;
  const Fault fault = parse(bytes, frame, at);
  if (fault == Fault::kNone) return frame;
  const bool in_block = static_cast<uint32_t>(fault) >= static_cast<uint32_t>(Fault::kMode) && at < frame.header_.blocks;
  return fault_error(name, fault, at, in_block);
}

Fault Frame::decode(const Kernels& kernels, uint32_t block, std::byte* raw, Scratch& scratch) const {
  ZU_CHECK(block < header_.blocks);
  const Entry& e = entries_[block];
  if (block + 1 < header_.blocks) scratch.soon = lines_of(payloads_.data() + uint64_t{entries_[block + 1].offset} * kAlign, entries_[block + 1].size);
  const Fault fault = decode_block(kernels, coding(), e, payloads_.data() + uint64_t{e.offset} * kAlign, raw, scratch);
  if (fault != Fault::kNone || (header_.flags & kFlagHashes) == 0) return fault;
  const size_t bytes = size_t{e.values} * element_bytes(header_.type);
  if (!past_caches(kernels, header_.raw_bytes)) scratch.soon = lines_of(raw + bytes, bytes);  // where the next block usually goes
  return kernels.hash(raw, bytes, scratch.soon) == e.hash ? Fault::kNone : Fault::kBlockHash;
}

Status decode_frame(const Kernels& kernels, const Frame& frame, std::span<std::byte> raw, std::string_view name, ThreadPool* pool) {
  const Header& h = frame.header();
  if ((h.flags & kFlagRagged) != 0) return bad_input(fmt::format("{}: has short blocks inside, so it is no tensor; decode its pages", name));
  if (raw.size() != h.raw_bytes) return bad_input(fmt::format("{}: holds {} bytes, not the {} expected", name, h.raw_bytes, raw.size()));
  return decode_all(kernels, frame, [&](uint32_t b) { return raw.data() + uint64_t{b} * h.block_bytes; }, name, pool);
}

Status decode_pages(const Kernels& kernels, const Frame& frame, const MutablePages& pages, uint32_t page_count, std::string_view name, ThreadPool* pool) {
  const Header& h = frame.header();
  if (pages.page.empty() ? page_count < h.blocks : pages.page.size() != h.blocks)
    return bad_input(fmt::format("{}: has {} blocks, and the list of pages another number", name, h.blocks));
  if (pages.stride < h.block_bytes) return bad_input(fmt::format("{}: pages of {} bytes are smaller than its blocks of {}", name, pages.stride, h.block_bytes));
  std::vector<bool> used(page_count);
  for (const uint32_t page : pages.page) {
    if (page >= page_count) return bad_input(fmt::format("{}: there is no page {}; there are {}", name, page, page_count));
    if (used[page]) return bad_input(fmt::format("{}: page {} would be written twice", name, page));
    used[page] = true;
  }
  return decode_all(kernels, frame, [&](uint32_t b) { return place(pages, b); }, name, pool);
}

std::vector<uint8_t> calibrate_table(Type type, std::span<const std::byte> raw, uint32_t period) {
  const TypeInfo& t = type_info(type);
  ZU_CHECK(t.exponent_bits != 0 && period != 0);
  const uint32_t element = element_bytes(type), symbols = 1u << t.exponent_bits;
  const uint64_t rows = raw.size() / element / period, step = rows / 4096 + 1;
  std::vector<uint32_t> counts(size_t{period} * symbols);
  for (uint64_t row = 0; row < rows; row += step)
    for (uint32_t c = 0; c < period; ++c) {
      const std::byte* at = raw.data() + (row * period + c) * element;
      uint32_t value = 0;
      for (uint32_t i = 0; i < element; ++i) value |= static_cast<uint32_t>(at[i]) << (8 * i);
      ++counts[size_t{c} * symbols + ((value >> (rest_bits(t) - 1)) & (symbols - 1))];
    }
  std::vector<uint8_t> table(period);
  for (uint32_t c = 0; c < period; ++c) {
    const uint64_t half = (rows + step - 1) / step / 2;
    uint64_t seen = 0;
    uint32_t median = 0;
    while (median + 1 < symbols && (seen += counts[size_t{c} * symbols + median]) <= half) ++median;
    table[c] = static_cast<uint8_t>((median - symbols / 2) & (symbols - 1));
  }
  return table;
}

}  // namespace zeroulp::codec
