#include "engine/kv_pages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace zeroulp::engine {
namespace {

std::vector<int32_t> range(int64_t count, int32_t first = 0) {
  std::vector<int32_t> v(static_cast<size_t>(count));
  std::iota(v.begin(), v.end(), first);
  return v;
}

void run(KvPages& pages, KvPages::Sequence& s, std::span<const int32_t> tokens) {
  const auto more = static_cast<int64_t>(tokens.size());
  ASSERT_LE(pages.pages_wanted(s, more), pages.free_pages());
  std::vector<KvPages::Copy> copies;
  pages.extend(s, more, copies);
  ASSERT_TRUE(copies.empty());
  pages.append(s, tokens);
}

TEST(KvPages, APrefixIsReusedOnlyInFullPagesAndOneTokenIsAlwaysLeft) {
  for (const auto& [length, reused] : {std::pair<int64_t, int64_t>{127, 0}, {128, 0}, {129, 128}, {256, 128}, {257, 256}}) {
    KvPages pages(16, true);
    KvPages::Sequence first, second;
    const std::vector<int32_t> prompt = range(length);
    run(pages, first, prompt);
    EXPECT_EQ(pages.reuse_prefix(second, prompt), reused) << length;
    for (int64_t i = 0; i < reused / kPagePositions; ++i) EXPECT_EQ(second.pages[static_cast<size_t>(i)], first.pages[static_cast<size_t>(i)]);
  }
}

TEST(KvPages, AnotherPrefixBeforeAnEqualBlockIsNoHit) {
  KvPages pages(16, true);
  KvPages::Sequence a, b, c;
  std::vector<int32_t> first = range(257), second = first;
  second[0] = 9999;
  run(pages, a, first);
  EXPECT_EQ(pages.reuse_prefix(b, second), 0) << "keys of a block depend on all tokens before it";
  second = first;
  second[200] = 9999;
  EXPECT_EQ(pages.reuse_prefix(c, second), 128);
}

TEST(KvPages, CachedPagesAreGivenUpOldestFirstAndUsedOnesNever) {
  KvPages pages(3, true);
  KvPages::Sequence a, b, c;
  run(pages, a, range(128));
  run(pages, b, range(128, 1000));
  pages.release(a);
  EXPECT_EQ(pages.free_pages(), 2);
  run(pages, c, range(200, 5000));  // needs two pages: the free one and a's
  EXPECT_EQ(pages.free_pages(), 0);
  KvPages::Sequence d;
  EXPECT_EQ(pages.reuse_prefix(d, range(129)), 0) << "a's page went to another sequence";
  EXPECT_GT(pages.pages_wanted(d, 1), pages.free_pages());
  EXPECT_EQ(pages.reuse_prefix(d, range(129, 1000)), 128) << "b's page is shared though the cache is full";
  pages.release(d);
  pages.release(b);
  pages.release(c);
  EXPECT_EQ(pages.free_pages(), 3);
}

TEST(KvPages, AForkSharesItsPagesUntilOneOfThemWrites) {
  KvPages pages(8, true);
  KvPages::Sequence a, b;
  std::vector<KvPages::Copy> copies;
  run(pages, a, range(150));
  const std::vector<int32_t> before = a.pages;
  pages.fork(a, b);
  EXPECT_EQ(b.pages, before);
  EXPECT_EQ(pages.free_pages(), 6);
  EXPECT_EQ(pages.pages_wanted(a, 1), 1) << "a copy of the page that both write to";
  pages.extend(a, 1, copies);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].from, before[1]);
  EXPECT_EQ(copies[0].to, a.pages[1]);
  EXPECT_EQ(a.pages[0], before[0]) << "full pages stay shared";
  EXPECT_EQ(b.pages, before) << "the other one's pages are not touched";
  pages.append(a, range(1));
  copies.clear();
  EXPECT_EQ(pages.pages_wanted(b, 1), 0);
  pages.extend(b, 1, copies);
  EXPECT_TRUE(copies.empty()) << "the last owner writes in place";
  pages.append(b, range(1, 7));
  pages.release(a);
  EXPECT_EQ(pages.free_pages(), 6) << "b's two pages are in use";
  pages.release(b);
  EXPECT_EQ(pages.free_pages(), 8);
}

TEST(KvPages, WithoutTheCacheNothingIsReused) {
  KvPages pages(4, false);
  KvPages::Sequence a, b;
  run(pages, a, range(200));
  EXPECT_EQ(pages.reuse_prefix(b, range(200)), 0);
}

}  // namespace
}  // namespace zeroulp::engine
