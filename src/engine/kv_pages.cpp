#include "engine/kv_pages.h"

#include <algorithm>

#include "base/check.h"

namespace zeroulp::engine {
namespace {

// The key of a page: its own 128 tokens and the key of all pages before it.
num::Digest page_key(const num::Digest& parent, std::span<const int32_t> tokens) {
  std::array<uint64_t, kPagePositions + 2> words = {parent.high, parent.low};
  std::transform(tokens.begin(), tokens.end(), words.begin() + 2, [](int32_t t) { return static_cast<uint64_t>(static_cast<int64_t>(t)); });
  return num::digest_of(std::span<const uint64_t>(words));
}

}  // namespace

KvPages::KvPages(int64_t pages, bool prefix_cache) : pages_(static_cast<size_t>(pages)), prefix_cache_(prefix_cache) {
  cache_.reserve(pages_.size());
}

// The first entry whose key is not below; its own if it has one.
std::vector<KvPages::Entry>::iterator KvPages::find(const num::Digest& key) {
  return std::lower_bound(cache_.begin(), cache_.end(), key, [](const Entry& e, const num::Digest& k) { return e.first < k; });
}

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
  if (page.cached) cache_.erase(find(page.key));
  page.cached = false;
  page.users = 1;
  return best;
}

int64_t KvPages::reuse_prefix(Sequence& s, std::span<const int32_t> prompt) {
  ZU_CHECK(s.positions == 0 && s.pages.empty());
  if (!prefix_cache_) return 0;
  while (static_cast<int64_t>(prompt.size()) - s.length() > kPagePositions) {
    const auto tokens = prompt.subspan(static_cast<size_t>(s.length()), static_cast<size_t>(kPagePositions));
    const num::Digest key = page_key(s.prefix, tokens);
    const auto it = find(key);
    if (it == cache_.end() || it->first != key) break;
    Page& page = pages_[static_cast<size_t>(it->second)];
    if (page.parent != s.prefix || !std::equal(tokens.begin(), tokens.end(), page.tokens.begin(), page.tokens.end())) break;
    ++page.users;
    page.last_use = ++clock_;
    s.pages.push_back(it->second);
    s.positions += kPagePositions;
    s.prefix = key;
  }
  return s.length();
}

void KvPages::fork(const Sequence& from, Sequence& to) {
  ZU_CHECK(to.positions == 0 && to.pages.empty());
  to.pages.assign(from.pages.begin(), from.pages.end());
  to.positions = from.positions;
  to.tail = from.tail;
  to.prefix = from.prefix;
  for (const int32_t page : to.pages) ++pages_[static_cast<size_t>(page)].users;
}

int64_t KvPages::pages_wanted(const Sequence& s, int64_t more) const {
  const int64_t after = (s.positions + more + kPagePositions - 1) / kPagePositions;
  const bool writes_shared = s.full_pages() < static_cast<int64_t>(s.pages.size()) &&
                             pages_[static_cast<size_t>(s.pages[static_cast<size_t>(s.full_pages())])].users > 1;
  return std::max<int64_t>(0, after - static_cast<int64_t>(s.pages.size())) + (writes_shared ? 1 : 0);
}

void KvPages::extend(Sequence& s, int64_t more, std::vector<Copy>& copies) {
  const auto take = [&] {
    const int32_t page = take_free_page();
    ZU_CHECK(page >= 0);
    return page;
  };
  // Pages from the first that is not full on are written, and only the last page of a fork can be both shared and not full.
  if (s.full_pages() < static_cast<int64_t>(s.pages.size())) {
    int32_t& last = s.pages[static_cast<size_t>(s.full_pages())];
    Page& shared = pages_[static_cast<size_t>(last)];
    if (shared.users > 1) {
      --shared.users;
      copies.push_back({last, take()});
      last = copies.back().to;
    }
  }
  while (static_cast<int64_t>(s.pages.size()) * kPagePositions < s.positions + more) s.pages.push_back(take());
}

void KvPages::append(Sequence& s, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    s.tail[static_cast<size_t>(s.positions % kPagePositions)] = token;
    if (++s.positions % kPagePositions != 0) continue;
    const num::Digest key = page_key(s.prefix, s.tail);
    const int32_t index = s.pages[static_cast<size_t>(s.full_pages() - 1)];
    Page& page = pages_[static_cast<size_t>(index)];
    const auto at = find(key);
    if (prefix_cache_ && !page.cached && (at == cache_.end() || at->first != key)) {
      page.cached = true;
      page.key = key;
      page.parent = s.prefix;
      page.tokens = s.tail;
      page.last_use = ++clock_;
      cache_.insert(at, {key, index});
    }
    s.prefix = key;
  }
}

void KvPages::release(Sequence& s) {
  for (const int32_t page : s.pages) --pages_[static_cast<size_t>(page)].users;
  s.pages.clear();
  s.positions = 0;
  s.prefix = {};
}

}  // namespace zeroulp::engine
