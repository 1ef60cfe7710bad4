#include <algorithm>
#include <vector>

#include "ops/attention/fast.h"
#include "ops/attention/reference.h"
#include "ops/stage.h"

namespace zeroulp::ops::attention {

std::span<const Variant<Fn>> variants() {
  static constexpr Variant<Fn> kTable[] = {
    {"reference", Needs::kNothing, reference},
#if defined(__x86_64__)
    {"avx2", Needs::kAvx2, avx2},
    {"avx512_vnni", Needs::kAvx512Vnni, avx512_vnni},
    {"amx_int8", Needs::kAmxInt8, amx_int8},
#endif
  };
  return kTable;
}

#if ZEROULP_CUDA
namespace {

// Behind host pointers: the rows of one sequence and one KV head.
void one_head(const Args& a) {
  std::vector<int32_t> positions, begin(static_cast<size_t>(a.rows), 0), arrivals(static_cast<size_t>(cuda_arrivals()), 0);
  for (int64_t row = 0; row < a.rows; ++row) positions.push_back(static_cast<int32_t>(a.first_position + row));
  std::vector<float> q_scales;
  for (int64_t row = 0; row < a.rows; ++row) q_scales.insert(q_scales.end(), a.q_scales + row * a.q_scales_stride, a.q_scales + row * a.q_scales_stride + a.group);
  std::vector<uint8_t> faults(static_cast<size_t>(a.rows), 0);
  const int64_t last = a.first_position + a.rows - 1;
  Stage s;
  Rows g{a.layout, a.rows, a.group, a.group, 0, a.window, a.score_constant, a.q, a.q_stride, q_scales.data(), positions.data(), last + 1, {nullptr, begin.data(), a.page_offset, 0}, a.out, a.out_stride, faults.data(), arrivals.data()};
  const std::byte* const* blocks = a.pages;
  s.read_blocks(blocks, last / kBlock + 1, a.page_offset + a.layout.bytes());
  g.pages.blocks = const_cast<std::byte* const*>(blocks);
  s.read(g.pages.begin, a.rows * 4);
  s.read(g.q, row_extent(a.rows, a.group * a.layout.d, a.q_stride, 2));
  s.read(g.q_scales, a.rows * a.group * 4);
  s.read(g.positions, a.rows * 4);
  s.write(g.out, row_extent(a.rows, a.group * a.layout.d, a.out_stride, 2));
  s.write(g.faults, a.rows);
  s.write(g.arrivals, static_cast<int64_t>(arrivals.size()) * 4);
  cuda(g, s.launch(cuda_workspace(g)));
  s.finish();
  for (int64_t row = 0; row < a.rows; ++row)
    if (faults[static_cast<size_t>(row)] != 0) a.faults[row * a.faults_stride] = 1;
  ZU_CHECK(std::all_of(arrivals.begin(), arrivals.end(), [](int32_t n) { return n == 0; }));
}

constexpr OnDevice kOnDevice[] = {{"cuda", cuda, one_head, cuda_workspace}};

}  // namespace
std::span<const OnDevice> device_variants() { return kOnDevice; }
#else
std::span<const OnDevice> device_variants() { return {}; }
#endif

int64_t scratch_bytes(const kv_cache::Layout& layout) {
#if defined(__x86_64__)
  return std::max({avx2_scratch_bytes(layout), avx512_vnni_scratch_bytes(layout), amx_int8_scratch_bytes(layout)});
#else
  return 0 * layout.d;
#endif
}

}  // namespace zeroulp::ops::attention
