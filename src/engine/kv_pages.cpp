#include "engine/kv_pages.h"

#include <algorithm>

#include "base/check.h"

namespace zeroulp::engine {
namespace {

// The key of a page: its own 128 tokens and the key of all pages before it.
num::Digest page_key(const num::Digest& parent, std::span<const int32_t> tokens) {
  std::vector<uint64_t> words = {parent.high, parent.low};
  for (const int32_t t : tokens) words.push_back(static_cast<uint64_t>(static_cast<int64_t>(t)));
  return num::digest_of(std::span<const uint64_t>(words));
}

}  // namespace

KvPages::KvPages(int64_t pages, bool prefix_cache) : pages_(static_cast<size_t>(pages)), prefix_cache_(prefix_cache) {}

int64_t KvPages::free_pages() const {
  return std::count_if(pages_.begin(), pages_.end(), [](const Page& p) { return p.users == 0; });
}

// An unused page that is not cached, else the cached one that was used longest ago; -1 when all are in use.
int32_t KvPages::take_free_page() {
  int32_t best = -1;
  for (size_t i = 0; i < pages_.size(); ++i) {
    const Page& p = pages_[i];
    if (p.users != 0) continue;
    if (!p.cached) {
      best = static_cast<int32_t>(i);
      break;
    }
    if (best < 0 || p.last_use < pages_[static_cast<size_t>(best)].last_use) best = static_cast<int32_t>(i);
  }
  if (best < 0) return best;
  Page& page = pages_[static_cast<size_t>(best)];
  if (page.cached) cache_.erase(page.key);
  page.cached = false;
  page.users = 1;
  return best;
}

int64_t KvPages::reuse_prefix(Sequence& s, std::span<const int32_t> prompt) {
  ZU_CHECK(s.tokens.empty() && s.pages.empty());
  if (!prefix_cache_) return 0;
  while (static_cast<int64_t>(prompt.size()) - s.length() > kPagePositions) {
    const auto tokens = prompt.subspan(static_cast<size_t>(s.length()), static_cast<size_t>(kPagePositions));
    const num::Digest key = page_key(s.prefix, tokens);
    const auto it = cache_.find(key);
    if (it == cache_.end()) break;
    Page& page = pages_[static_cast<size_t>(it->second)];
    if (page.parent != s.prefix || !std::equal(tokens.begin(), tokens.end(), page.tokens.begin(), page.tokens.end())) break;
    ++page.users;
    page.last_use = ++clock_;
    s.pages.push_back(it->second);
    s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
    s.prefix = key;
    ++s.full_pages;
  }
  return s.length();
}

bool KvPages::extend(Sequence& s, int64_t more) {
  const int64_t wanted = (s.length() + more + kPagePositions - 1) / kPagePositions;
  const int64_t missing = wanted - static_cast<int64_t>(s.pages.size());
  if (missing > 0 && missing > free_pages()) return false;
  for (int64_t i = 0; i < missing; ++i) s.pages.push_back(take_free_page());
  return true;
}

void KvPages::append(Sequence& s, std::span<const int32_t> tokens) {
  s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  while ((s.full_pages + 1) * kPagePositions <= s.length()) {
    const auto block = std::span<const int32_t>(s.tokens).subspan(static_cast<size_t>(s.full_pages * kPagePositions), kPagePositions);
    const num::Digest key = page_key(s.prefix, block);
    const int32_t index = s.pages[static_cast<size_t>(s.full_pages)];
    Page& page = pages_[static_cast<size_t>(index)];
    if (prefix_cache_ && !page.cached && !cache_.contains(key)) {
      page.cached = true;
      page.key = key;
      page.parent = s.prefix;
      page.tokens.assign(block.begin(), block.end());
      page.last_use = ++clock_;
      cache_[key] = index;
    }
    s.prefix = key;
    ++s.full_pages;
  }
}

void KvPages::release(Sequence& s) {
  for (const int32_t page : s.pages) --pages_[static_cast<size_t>(page)].users;
  s = {};
}

}  // namespace zeroulp::engine
