// The bookkeeping of the paged KV cache: which pages a sequence owns or shares, and which full pages can be found again by their tokens.
// A page holds 128 positions (a block of the attention contract) of every layer and KV head; its bytes live with each rank.
#pragma once

#include <cstdint>
#include <map>
#include <span>
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

  // A sequence's pages and tokens so far.
  struct Sequence {
    std::vector<int32_t> pages;
    std::vector<int32_t> tokens;
    num::Digest prefix;           // of all full pages' tokens
    int64_t full_pages = 0;       // counted into `prefix`
    int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  };

  // Takes over full pages of `prompt` that are cached, always leaving at least one token to compute. The sequence must be empty.
  // Returns the number of positions taken.
  int64_t reuse_prefix(Sequence& s, std::span<const int32_t> prompt);
  // Makes room for `more` positions; false when the cache is full (nothing is changed then).
  bool extend(Sequence& s, int64_t more);
  // The tokens were computed: appends them, and offers pages that became full to the prefix cache.
  void append(Sequence& s, std::span<const int32_t> tokens);
  void release(Sequence& s);

 private:
  struct Page {
    int users = 0;
    bool cached = false;
    uint64_t last_use = 0;
    num::Digest key;
    std::vector<int32_t> tokens;  // kept for comparison while cached: a digest alone is no proof
    num::Digest parent;
  };
  int32_t take_free_page();

  std::vector<Page> pages_;
  std::map<num::Digest, int32_t> cache_;
  bool prefix_cache_;
  uint64_t clock_ = 0;
};

}  // namespace zeroulp::engine
