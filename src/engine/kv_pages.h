// The bookkeeping of the paged KV cache: which pages a sequence owns or shares, and which full pages can be found again by their tokens.
// A page holds 128 positions (a block of the attention contract) of every layer and KV head; its bytes live with each rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "num/digest.h"
#include "ops/kv_cache/contract.h"

namespace zeroulp::engine {

inline constexpr int64_t kPagePositions = ops::kv_cache::kBlock;

class KvPages {
 public:
  KvPages(int64_t pages, bool prefix_cache);

  int64_t capacity() const { return static_cast<int64_t>(pages_.size()); }
  int64_t free_pages() const;  // counting those that only the prefix cache holds

  // What a sequence has so far. `pages` never grows beyond what it was given room for, so that nothing is allocated on the way.
  struct Sequence {
    std::vector<int32_t> pages;
    int64_t positions = 0;
    std::array<int32_t, kPagePositions> tail{};  // tokens behind the last full page
    num::Digest prefix;                          // of all full pages' tokens
    int64_t length() const { return positions; }
    int64_t full_pages() const { return positions / kPagePositions; }
  };
  // The bytes of page `from` must be put into page `to` before the sequence is computed further.
  struct Copy {
    int32_t from, to;
  };

  // Takes over full pages of `prompt` that are cached, always leaving at least one token to compute. The sequence must be empty.
  // Returns the number of positions taken.
  int64_t reuse_prefix(Sequence& s, std::span<const int32_t> prompt);
  // Makes the empty sequence `to` what `from` is; they share all pages until one of them writes.
  void fork(const Sequence& from, Sequence& to);
  // Free pages that extend() takes, at most: new ones, and one for a copy when the page to be written is shared.
  int64_t pages_wanted(const Sequence& s, int64_t more) const;
  // Makes room for `more` positions, pages_wanted() being free. Shared pages are not written: a copy is asked for instead.
  void extend(Sequence& s, int64_t more, std::vector<Copy>& copies);
  // The tokens were computed: appends them, and offers pages that became full to the prefix cache.
  void append(Sequence& s, std::span<const int32_t> tokens);
  // Gives the pages back; the sequence is empty then and keeps its room.
  void release(Sequence& s);

 private:
  struct Page {
    int users = 0;
    bool cached = false;
    uint64_t last_use = 0;
    num::Digest key;
    std::array<int32_t, kPagePositions> tokens;  // kept for comparison while cached: a digest alone is no proof
    num::Digest parent;
  };
  int32_t take_free_page();

  std::vector<Page> pages_;
  // Cached pages by key, ascending; room for all pages.
  using Entry = std::pair<num::Digest, int32_t>;
  std::vector<Entry>::iterator find(const num::Digest& key);
  std::vector<Entry> cache_;
  bool prefix_cache_;
  uint64_t clock_ = 0;
};

}  // namespace zeroulp::engine
