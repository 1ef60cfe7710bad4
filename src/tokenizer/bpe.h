// Byte-level byte-pair encoding: a vocabulary, ranked merges, and the merge loop.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace zeroulp::tokenizer {

inline constexpr uint32_t kNoToken = UINT32_MAX;

// The alphabet in which vocabularies are written: every byte as one printable code point.
std::string spell_bytes(std::string_view bytes);
// The bytes that a token's spelling stands for; a spelling with a foreign character stands for its own UTF-8.
std::string unspell_bytes(std::string_view spelling);

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using Vocabulary = std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>>;

struct BpeModel {
  Vocabulary vocabulary;                                    // spelling -> id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank, as spelled
  std::string unknown_token;                                // stands for a byte without a token; empty: such bytes are left out
  bool ignore_merges = false;                               // a piece that is in the vocabulary is one token, reachable or not
};

// Memory that an encode call reuses from piece to piece.
struct BpeScratch {
  struct Symbol {
    uint32_t id;
    int32_t previous, next;  // -1: none
    bool alive;
  };
  struct Candidate {
    uint32_t rank, position, result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  uint64_t bytes_left_out = 0;
};

class Bpe {
 public:
  // Fails if a merge names a token that the vocabulary lacks. Of a pair that stands twice the later rank counts.
  static Result<Bpe> build(BpeModel model);

  // Appends the ids of one pre-token. n log n in its length.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<uint32_t>& ids) const;
  const Vocabulary& vocabulary() const { return model_.vocabulary; }

 private:
  struct Merge {
    uint32_t rank, result;
  };
  // Open addressing: pairs of ids to merges.
  class MergeTable {
   public:
    void reserve(size_t count);
    void set(uint32_t left, uint32_t right, Merge merge);
    const Merge* find(uint32_t left, uint32_t right) const;

   private:
    struct Slot {
      uint64_t key;
      Merge merge;
    };
    size_t start(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }
    std::vector<Slot> slots_;
    int shift_ = 63;
  };

  void fill(std::string_view piece, BpeScratch& scratch) const;
  void offer(BpeScratch& scratch, int32_t left) const;
  void merge_all(BpeScratch& scratch) const;

  BpeModel model_;
  std::array<uint32_t, 256> byte_ids_{};
  uint32_t unknown_id_ = kNoToken;
  MergeTable table_;
};

}  // namespace zeroulp::tokenizer
