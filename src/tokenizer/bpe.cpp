#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "tokenizer/unicode.h"

namespace zeroulp::tokenizer {
namespace {

constexpr uint64_t kEmptySlot = UINT64_MAX;
constexpr uint32_t kAlphabetEnd = 0x144;  // one past the largest code point of the byte alphabet

constexpr bool spelled_as_itself(uint32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct ByteAlphabet {
  std::array<uint16_t, 256> of_byte{};
  std::array<int16_t, kAlphabetEnd> of_code_point{};

  constexpr ByteAlphabet() {
    of_code_point.fill(-1);
    uint16_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      of_byte[b] = spelled_as_itself(b) ? static_cast<uint16_t>(b) : next++;
      of_code_point[of_byte[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr ByteAlphabet kAlphabet;

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  std::string spelling;
  spelling.reserve(bytes.size() * 2);
  for (char b : bytes) append_utf8(spelling, kAlphabet.of_byte[static_cast<uint8_t>(b)]);
  return spelling;
}

std::string unspell_bytes(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size();) {
    const auto [c, length] = decode_valid_utf8(spelling, at);
    if (c >= kAlphabetEnd || kAlphabet.of_code_point[c] < 0) return std::string(spelling);
    bytes.push_back(static_cast<char>(kAlphabet.of_code_point[c]));
    at += length;
  }
  return bytes;
}

void Bpe::MergeTable::reserve(size_t count) {
  const int bits = std::max(4, static_cast<int>(std::bit_width(count * 2)));
  slots_.assign(size_t{1} << bits, {kEmptySlot, {}});
  shift_ = 64 - bits;
}

void Bpe::MergeTable::set(uint32_t left, uint32_t right, Merge merge) {
  const uint64_t key = uint64_t{left} << 32 | right;
  size_t i = start(key);
  while (slots_[i].key != kEmptySlot && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {key, merge};
}

const Bpe::Merge* Bpe::MergeTable::find(uint32_t left, uint32_t right) const {
  const uint64_t key = uint64_t{left} << 32 | right;
  for (size_t i = start(key); slots_[i].key != kEmptySlot; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i].key == key) return &slots_[i].merge;
  return nullptr;
}

Result<Bpe> Bpe::build(BpeModel model) {
  Bpe bpe;
  const auto id_of = [&](std::string_view spelling) {
    const auto it = model.vocabulary.find(spelling);
    return it == model.vocabulary.end() ? kNoToken : it->second;
  };
  bpe.table_.reserve(model.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    joined.assign(left).append(right);
    for (const std::string* token : {&left, &right, static_cast<const std::string*>(&joined)})
      if (id_of(*token) == kNoToken)
        return bad_input(fmt::format("merge {} ({} + {}) needs the token {}, which the vocabulary lacks", rank, in_quotes(left),
                                     in_quotes(right), in_quotes(*token)));
    bpe.table_.set(id_of(left), id_of(right), {static_cast<uint32_t>(rank), id_of(joined)});
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    bpe.byte_ids_[b] = id_of(spell_bytes({&byte, 1}));
  }
  if (!model.unknown_token.empty()) {
    bpe.unknown_id_ = id_of(model.unknown_token);
    if (bpe.unknown_id_ == kNoToken)
      return bad_input(fmt::format("unk_token is {}, which the vocabulary lacks", in_quotes(model.unknown_token)));
  }
  model.merges.clear();
  bpe.model_ = std::move(model);
  return bpe;
}

void Bpe::fill(std::string_view piece, BpeScratch& scratch) const {
  scratch.symbols.clear();
  for (char b : piece) {
    uint32_t id = byte_ids_[static_cast<uint8_t>(b)];
    if (id == kNoToken) id = unknown_id_;
    if (id == kNoToken) {
      ++scratch.bytes_left_out;
      continue;
    }
    const auto at = static_cast<int32_t>(scratch.symbols.size());
    if (at > 0) scratch.symbols.back().next = at;
    scratch.symbols.push_back({id, at - 1, -1, true});
  }
}

namespace {
// A max-heap's order that puts the lowest rank, then the leftmost position, on top.
bool worse(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}
}  // namespace

void Bpe::offer(BpeScratch& scratch, int32_t left) const {
  const BpeScratch::Symbol& symbol = scratch.symbols[left];
  if (symbol.next < 0) return;
  const Merge* merge = table_.find(symbol.id, scratch.symbols[symbol.next].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, static_cast<uint32_t>(left), merge->result});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), worse);
}

void Bpe::merge_all(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(scratch, static_cast<int32_t>(i));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), worse);
    const BpeScratch::Candidate top = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[top.position];
    if (!left.alive || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[left.next];
    // An entry whose neighbours have changed since counts only if the present pair makes the same token: as in `tokenizers`.
    const Merge* merge = table_.find(left.id, right.id);
    if (merge == nullptr || merge->result != top.result) continue;
    left.id = top.result;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[left.next].previous = static_cast<int32_t>(top.position);
    if (left.previous >= 0) offer(scratch, left.previous);
    offer(scratch, static_cast<int32_t>(top.position));
  }
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<uint32_t>& ids) const {
  if (piece.empty()) return;
  if (model_.ignore_merges) {
    const auto it = model_.vocabulary.find(spell_bytes(piece));
    if (it != model_.vocabulary.end()) return ids.push_back(it->second);
  }
  fill(piece, scratch);
  merge_all(scratch);
  for (const BpeScratch::Symbol& s : scratch.symbols)
    if (s.alive) ids.push_back(s.id);
}

}  // namespace zeroulp::tokenizer
