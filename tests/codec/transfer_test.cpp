#include "codec/transfer.h"

#include <gtest/gtest.h>

#include "codec/samples.h"

namespace zeroulp::codec {
namespace {

TEST(Transfer, WhatArrivesIsWhatWasSentOverEveryLink) {
  const ByteVector raw = exponent_data(Type::kBF16, 500'001, 120, 8, 9, 1, Shape::kBell);
  for (const Link link : {Link::kTcp, Link::kSharedMemory})
    for (const bool coded : {false, true}) {
      TransferOptions o;
      o.link = link;
      o.coded = coded;
      o.chunk_bytes = 1 << 18;
      o.frame.type = Type::kBF16;
      auto r = transfer(kReference, o, raw);
      ASSERT_TRUE(r) << r.error().text;
      if (coded) EXPECT_LT(r->sent_bytes * 10, raw.size() * 8);
      else EXPECT_EQ(r->sent_bytes, raw.size());
    }
}

TEST(Transfer, TensorsOfSeveralTypesArriveAndAreCodedAsTheirTypes) {
  ByteVector raw = exponent_data(Type::kBF16, 100'001, 120, 8, 9, 1, Shape::kBell);
  TransferOptions o;
  o.chunk_bytes = 1 << 16;
  o.runs = {{Type::kBF16, raw.size()}};
  const ByteVector scales = exponent_data(Type::kF32, 5'003, 120, 3, 0, 2, Shape::kHalving), codes(70'001, std::byte{7});
  for (const auto& [type, part] : {std::pair{Type::kF32, scales}, std::pair{Type::kBytes, codes}}) {
    raw.insert(raw.end(), part.begin(), part.end());
    o.runs.push_back({type, part.size()});
  }
  const auto r = transfer(kReference, o, raw);
  ASSERT_TRUE(r) << r.error().text;
  EXPECT_LT(r->sent_bytes, (200'002 * 3 / 4 + 20'012 * 9 / 10 + 2'000));
  const std::vector<Chunk> chunks = chunks_of(o, raw);
  ASSERT_EQ(chunks.size(), 4 + 1 + 2u);
  EXPECT_EQ(chunks[3].bytes.size(), 200'002 - 3 * 65'536u);
  EXPECT_EQ(chunks[4].type, Type::kF32);

  o.runs.back().bytes -= 1;
  EXPECT_FALSE(transfer(kReference, o, raw));
  o.runs = {{Type::kF32, raw.size()}};
  EXPECT_FALSE(transfer(kReference, o, raw)) << "no whole number of elements";
}

TEST(Transfer, TheRateIsKept) {
  const ByteVector raw = random_bytes(1 << 20, 1);
  TransferOptions o;
  o.coded = false;
  o.frame.type = Type::kBF16;
  o.bytes_per_second = 4e6;
  auto r = transfer(kReference, o, raw);
  ASSERT_TRUE(r) << r.error().text;
  EXPECT_GE(r->seconds, 0.26);
}

TEST(Transfer, TheSlowestPartDecides) {
  EXPECT_DOUBLE_EQ(speedup(10, 1.5, 100, 100), 1.5);
  EXPECT_DOUBLE_EQ(speedup(80, 1.5, 100, 200), 1.25);
  EXPECT_LT(speedup(300, 1.5, 100, 200), 1) << "leave it off";
}

}  // namespace
}  // namespace zeroulp::codec
