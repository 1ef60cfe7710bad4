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
