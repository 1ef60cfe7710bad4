// Nothing is allocated after load by any of the fast kernels: malloc and its kin and mmap are replaced and counted over hundreds of steps with sequences coming and going.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "engine/engine.h"
#include "model/seeded.h"
#include "num/philox.h"

namespace {
std::atomic<bool> counting = false;
std::atomic<int> allocations = 0;
void count() {
  if (counting.load(std::memory_order_relaxed)) ++allocations;
}
}  // namespace

// glibc's own entry points under other names.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
void* realloc(void* p, size_t bytes) {
  count();
  return __libc_realloc(p, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** p, size_t alignment, size_t bytes) {
  count();
  *p = __libc_memalign(alignment, bytes);
  return *p == nullptr ? 12 : 0;
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  count();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
}

namespace zeroulp::engine {
namespace {

// 512 steps; every eighth one sequence leaves, and another joins with a prompt, or as a fork. Returns the allocations on the way.
int allocations_of_steps(Engine& engine, const LogitsSink& sink) {
  constexpr int kSequences = 4, kSteps = 512;
  std::vector<std::vector<int32_t>> prompts(kSequences);
  num::PhiloxStream random(3);
  for (auto& prompt : prompts)
    for (int i = 0; i < 150; ++i) prompt.push_back(static_cast<int32_t>(random.below(61)));
  std::vector<int64_t> ids(kSequences);
  std::vector<Engine::Chunk> chunks(kSequences);
  const int32_t token = 5;
  bool good = true;
  allocations = 0;
  counting = true;
  for (int64_t& id : ids) id = engine.open_sequence();
  for (int step = 0; step < kSteps; ++step) {
    if (step % 8 == 0) {
      const size_t joining = static_cast<size_t>(step / 8) % ids.size();
      engine.close_sequence(ids[joining]);
      if (step % 16 == 8) {
        ids[joining] = engine.fork_sequence(ids[(joining + 1) % ids.size()]);
      } else {
        ids[joining] = engine.open_sequence();
        const std::span<const int32_t> prompt = std::span<const int32_t>(prompts[joining]).first(static_cast<size_t>(20 + step % 130));
        const auto reused = static_cast<size_t>(engine.reuse_prefix(ids[joining], prompt));
        const Engine::Chunk chunk{ids[joining], prompt.subspan(reused)};
        good &= engine.forward({&chunk, 1}, sink).has_value();
      }
    }
    for (size_t i = 0; i < ids.size(); ++i) chunks[i] = {ids[i], {&token, 1}};
    good &= engine.forward(chunks, sink).has_value();
  }
  counting = false;
  EXPECT_TRUE(good);
  return allocations;
}

class Allocation : public ::testing::TestWithParam<std::string> {};

TEST_P(Allocation, NoneAfterLoadAndAPlantedOneIsSeen) {
  const auto& cpu = cpu_features();
  for (const ops::VariantStatus& v : ops::variant_status(cpu))
    if (v.name == GetParam() && !v.why_not.empty()) GTEST_SKIP() << v.why_not;
  model::SeededShape shape;
  shape.width = shape.key_width = 0;  // both
  shape.vocab = 61;
  const model::QuantizedModel model = model::make_seeded(shape, 1);
  auto engine = Engine::create(model, {.kernel = GetParam(), .threads = 3, .max_rows = 160, .max_context = 1024, .max_total_positions = 8192, .prefix_cache = true});
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_EQ(allocations_of_steps(**engine, [](const LogitsBlock&) { return Status(); }), 0);

  int calls = 0;
  EXPECT_EQ(allocations_of_steps(**engine, [&](const LogitsBlock&) {
              if (++calls == 1000) std::vector<char>(7).data()[0] = 1;
              return Status();
            }), 1);
  calls = 0;
  EXPECT_EQ(allocations_of_steps(**engine, [&](const LogitsBlock&) {
              if (++calls == 1000) ::munmap(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
              return Status();
            }), 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Allocation, ::testing::Values("avx2", "avx512_vnni", "amx_int8"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace zeroulp::engine
