// Ctrl-C inside a forward pass. The flag cannot be taken back, so everything happens in one test, in this order.
#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

#include "engine/engine.h"
#include "model/seeded.h"

namespace zeroulp::engine {
namespace {

TEST(Interrupt, EndsAPassAfterTheLayerAtHandOnEveryRank) {
  install_interrupt_handler();
  model::SeededShape shape;
  shape.layers = 6;
  const model::QuantizedModel model = model::make_seeded(shape, 3);
  const std::vector<int32_t> tokens(40, 5);
  const auto sink = [](const LogitsBlock&) -> Status { return {}; };

  auto one = Engine::create(model, {.threads = 2});
  auto three = Engine::create(model, {.ranks = 3});
  ASSERT_TRUE(one && three);
  int64_t deepest = -1;
  (*one)->set_capture([&](int64_t layer, model::LinearRole, int64_t, int64_t, const uint16_t*) {
    deepest = std::max(deepest, layer);
    if (layer == 2 && !interrupt_requested()) std::raise(SIGINT);  // a second one would end the process
  });
  const Engine::Chunk chunk{(*one)->open_sequence(), tokens};
  const Status status = (*one)->forward(std::span(&chunk, 1), sink);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kInterrupted);
  EXPECT_EQ(deepest, 2) << "later layers were computed";
  EXPECT_EQ((*one)->length(chunk.sequence), 0) << "half a pass was appended";
  (*one)->close_sequence(chunk.sequence);

  // Ranks stop together; a rank left alone would wait for the others forever.
  const Engine::Chunk other{(*three)->open_sequence(), tokens};
  const Status stopped = (*three)->forward(std::span(&other, 1), sink);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ExitCode::kInterrupted);
}

}  // namespace
}  // namespace zeroulp::engine
