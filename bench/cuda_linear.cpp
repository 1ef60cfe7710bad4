// bench_cuda_linear [FILE.json [cubes|decoding]]: the GPU's linears. Products of cubes beside cuBLASLt's int8 product, and batch-1 to batch-8 decoding of
// the layers of 7- and 8-billion-parameter models beside the read bandwidth measured in the same run.
//
// Every answer is compared before it is timed: with cuda_ref, for cubes with the sums of cuBLASLt. Times are medians over graph replays. The
// variants' times include all that they do: splitting codes into planes, the product, the epilogue. cuBLASLt's is its product to int32
// alone. Weights of the decoding shapes come from a region several times as large as the cache.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/device.h"
#include "num/philox.h"
#include "ops/linear_s8/contract.h"
#include "ops/linear_s8/cuda_cublaslt.h"
#include "report/json.h"
#include "report/table.h"

namespace zeroulp::bench {
namespace {

using ops::linear_s8::Args;
using ops::linear_s8::OnDevice;
using ops::linear_s8::Output;
using report::Align;
using report::Cell;

// An error here ends the measurement with its line.
struct Failed {
  Error error;
};
template <class T>
T must(Result<T> r) {
  if (!r) throw Failed{r.error()};
  return std::move(r).value();
}
void must(Status s) {
  if (!s) throw Failed{s.error()};
}

const OnDevice& variant(std::string_view name) {
  for (const OnDevice& v : ops::linear_s8::device_variants())
    if (v.name == name) return v;
  throw Failed{usage_error(fmt::format("there is no variant '{}'", name))};
}
std::string why_not(const OnDevice& v) { return v.why_not == nullptr ? "" : v.why_not(); }

struct Machine {
  device::Properties properties;
  device::Stream stream;
  device::Timer timer;
  device::Buffer weights, workspace;
  double read_bandwidth;  // bytes a second
};

constexpr int64_t kWeightBytes = int64_t{768} << 20;
constexpr int64_t kWorkspaceBytes = int64_t{1536} << 20;

Machine open_machine() {
  must(device::use(0));
  Machine m{must(device::properties(0)),
            must(device::Stream::create()),
            must(device::Timer::create()),
            must(device::Buffer::allocate(kWeightBytes, "weights")),
            must(device::Buffer::allocate(kWorkspaceBytes, "the workspace")),
            must(device::read_bandwidth(int64_t{2} << 30, 20))};
  // Random codes from -127 to 127: one piece, repeated.
  num::PhiloxStream random(1);
  std::vector<int8_t> piece(size_t{1} << 24);
  for (int8_t& c : piece) c = static_cast<int8_t>(static_cast<int>(random.below(255)) - 127);
  for (int64_t at = 0; at < kWeightBytes; at += static_cast<int64_t>(piece.size()))
    m.stream.to_device(m.weights.data() + at, piece.data(), static_cast<int64_t>(piece.size()));
  must(m.stream.synchronize());
  return m;
}

device::Launch launch_on(const Machine& m) { return {m.stream.handle(), m.workspace.data(), m.workspace.bytes(), m.properties.multiprocessors}; }

// Seconds of one of the `count` launches that `work` enqueues: the median over replays of a graph.
template <class Work>
double seconds_of(const Machine& m, int count, int replays, Work work) {
  const device::Graph graph = must(device::Graph::capture(m.stream, work));
  std::vector<double> times;
  for (int i = 0; i < replays + 2; ++i) {
    m.timer.start(m.stream);
    graph.launch(m.stream);
    m.timer.stop(m.stream);
    const double ms = must(m.timer.milliseconds());
    if (i >= 2) times.push_back(ms);
  }
  must(m.stream.synchronize());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e-3 / count;
}

// One linear with random codes and scales in device memory; weights from m.weights.
class Problem {
 public:
  Problem(const Machine& m, int64_t rows, int64_t n, int64_t k, int width) : m_(m) {
    num::PhiloxStream random(2);
    const int top = width == 15 ? 16256 : 127;
    std::vector<int16_t> codes(static_cast<size_t>(rows * k));
    for (int16_t& c : codes) c = static_cast<int16_t>(static_cast<int>(random.below(2 * static_cast<uint64_t>(top) + 1)) - top);
    std::vector<float> scales(static_cast<size_t>(rows + n));
    for (float& s : scales) s = 0.001f + 0.001f * (1 + random.symmetric());
    const int64_t code_bytes = rows * k * 2, scale_bytes = (rows + n) * 4;
    codes_ = must(device::Buffer::allocate(code_bytes, "codes"));
    scales_ = must(device::Buffer::allocate(scale_bytes, "scales"));
    y_ = must(device::Buffer::allocate(rows * n * 2, "outputs"));
    m.stream.to_device(codes_.data(), codes.data(), code_bytes);
    m.stream.to_device(scales_.data(), scales.data(), scale_bytes);
    must(m.stream.synchronize());
    args = {codes_.as<int16_t>(), k, scales_.as<float>(), rows, k, width, m.weights.as<int8_t>(), k, n, scales_.as<float>() + rows, nullptr,
            Output::kBf16, y_.data(), n};
  }

  // The outputs' bits by one variant.
  std::vector<uint16_t> answer(const OnDevice& v) const {
    std::vector<uint16_t> y(static_cast<size_t>(args.rows * args.n));
    m_.stream.fill(y_.data(), 0xA5, y_.bytes());
    v.run(args, launch_on(m_));
    m_.stream.to_host(y.data(), y_.data(), y_.bytes());
    must(m_.stream.synchronize());
    return y;
  }
  void must_equal(const OnDevice& v, const std::vector<uint16_t>& want) const {
    if (answer(v) != want)
      throw Failed{Error{ExitCode::kAnswerIsNo, fmt::format("{} differs from its peer at {} x {} x {}, {} bits", v.name, args.rows, args.n, args.k, args.width)}};
  }

  Args args;

 private:
  const Machine& m_;
  device::Buffer codes_, scales_, y_;
};

// ---- cubes

double cublaslt_seconds(const Machine& m, int64_t size, int count) {
  const device::Buffer sums = must(device::Buffer::allocate(size * size * 4, "cuBLASLt's sums"));
  return seconds_of(m, count, 9, [&] {
    for (int i = 0; i < count; ++i)
      ops::linear_s8::cublaslt_product(launch_on(m), m.weights.as<int8_t>() + size * size, m.weights.as<int8_t>(), size, size, size,
                                       sums.as<int32_t>());
  });
}

void cubes(const Machine& m, report::Json& json) {
  report::Table table({{"cube"}, {"kernel"}, {"bits", Align::kRight}, {"us", Align::kRight}, {"TOP/s", Align::kRight}, {"of cuBLASLt", Align::kRight}});
  const std::string no_cublaslt = ops::linear_s8::why_no_cublaslt();
  for (const int64_t size : {1024, 4096, 8192}) {
    const int count = size == 1024 ? 50 : size == 4096 ? 10 : 3;
    const double operations = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
    double peer = 0;
    if (no_cublaslt.empty()) {
      peer = cublaslt_seconds(m, size, count);
      table.row({fmt::format("{}", size), "cuBLASLt, int32 out", "8", fmt::format("{:.1f}", peer * 1e6), fmt::format("{:.0f}", operations / peer * 1e-12), "1"});
      json.push_back({{"cube", size}, {"kernel", "cuBLASLt"}, {"bits", 8}, {"seconds", peer}});
    }
    for (const int width : {8, 15}) {
      const Problem p(m, size, size, size, width);
      const std::vector<uint16_t> want = p.answer(variant(no_cublaslt.empty() ? "cublaslt" : "cuda_ref"));
      for (const std::string_view name : {"wgmma", "cutlass_sm90", "triton"}) {
        const OnDevice& v = variant(name);
        if (!why_not(v).empty()) continue;
        p.must_equal(v, want);
        const double seconds = seconds_of(m, count, 9, [&] {
          for (int i = 0; i < count; ++i) v.run(p.args, launch_on(m));
        });
        const double planes = width == 15 ? 2 : 1;  // cuBLASLt would have to run once per plane
        table.row({fmt::format("{}", size), std::string(name), fmt::format("{}", width), fmt::format("{:.1f}", seconds * 1e6),
                   fmt::format("{:.0f}", planes * operations / seconds * 1e-12), peer > 0 ? fmt::format("{:.2f}", planes * peer / seconds) : "-"});
        json.push_back({{"cube", size}, {"kernel", std::string(name)}, {"bits", width}, {"seconds", seconds}});
        if (peer > 0) json.back()["of_cublaslt"] = planes * peer / seconds;
      }
    }
  }
  fmt::print("int8 products, bf16 out (TOP/s counts both planes of 15-bit codes; cuBLASLt: one product per plane)\n\n{}\n", table.text());
}

// ---- decoding

struct Layer {
  const char* model;
  const char* linear;
  int64_t n, k;
};
constexpr Layer kLayers[] = {
  {"Qwen3-8B", "q, o", 4096, 4096},      {"Qwen3-8B", "k, v", 1024, 4096},     {"Qwen3-8B", "gate, up", 12288, 4096},
  {"Qwen3-8B", "down", 4096, 12288},     {"Qwen3-8B", "head", 151936, 4096},   {"Qwen2.5-7B", "q, o", 3584, 3584},
  {"Qwen2.5-7B", "k, v", 512, 3584},     {"Qwen2.5-7B", "gate, up", 18944, 3584}, {"Qwen2.5-7B", "down", 3584, 18944},
  {"Qwen2.5-7B", "head", 152064, 3584},
};

double decode_seconds(const Machine& m, const OnDevice& v, const Problem& p) {
  const int64_t bytes = p.args.n * p.args.k, copies = kWeightBytes / bytes;
  const int count = static_cast<int>(std::min<int64_t>(copies, 64));
  return seconds_of(m, count, 9, [&] {
    for (int i = 0; i < count; ++i) {
      Args a = p.args;
      a.weights += i * (copies / count) * bytes;
      v.run(a, launch_on(m));
    }
  });
}

// All linears of some layers of a model one after another, as a decode step meets them.
double step_seconds(const Machine& m, const OnDevice& v, std::string_view model, int width, int64_t* bytes_out) {
  std::vector<std::pair<Problem, int>> parts;
  int64_t layer_bytes = 0;
  for (const Layer& l : kLayers) {
    if (model != l.model || std::string_view(l.linear) == "head") continue;
    const int times = std::strchr(l.linear, ',') != nullptr ? 2 : 1;
    parts.emplace_back(Problem(m, 1, l.n, l.k, width), times);
    layer_bytes += times * l.n * l.k;
  }
  const auto layers = static_cast<int>(kWeightBytes / layer_bytes);
  *bytes_out = layer_bytes;
  return seconds_of(m, layers, 9, [&] {
    int64_t at = 0;
    for (int layer = 0; layer < layers; ++layer)
      for (const auto& [p, times] : parts)
        for (int i = 0; i < times; ++i) {
          Args a = p.args;
          a.weights += at;
          at += a.n * a.k;
          v.run(a, launch_on(m));
        }
  });
}

void decoding(const Machine& m, report::Json& json) {
  report::Table table({{"model"}, {"linear"}, {"n x k"}, {"kernel"}, {"bits", Align::kRight}, {"rows", Align::kRight}, {"us", Align::kRight},
                       {"GB/s", Align::kRight}, {"of read bandwidth", Align::kRight}});
  const auto put = [&](std::string model, std::string linear, std::string shape, std::string_view kernel, int width, int64_t rows, double seconds,
                       int64_t bytes) {
    const double rate = static_cast<double>(bytes) / seconds;
    table.row({model, linear, shape, std::string(kernel), fmt::format("{}", width), fmt::format("{}", rows), fmt::format("{:.2f}", seconds * 1e6),
               fmt::format("{:.0f}", rate * 1e-9), fmt::format("{:.2f}", rate / m.read_bandwidth)});
    json.push_back({{"model", model}, {"linear", linear}, {"shape", shape}, {"kernel", std::string(kernel)}, {"bits", width}, {"rows", rows}, {"seconds", seconds},
                    {"of_read_bandwidth", rate / m.read_bandwidth}});
  };
  for (const Layer& l : kLayers)
    for (const int width : {8, 15})
      for (const int64_t rows : {1, 2, 4, 8, 16}) {
        if (rows > 1 && std::string_view(l.linear) != "gate, up" && std::string_view(l.linear) != "q, o") continue;
        const Problem p(m, rows, l.n, l.k, width);
        const std::vector<uint16_t> want = p.answer(variant("cuda_ref"));
        for (const std::string_view kernel : {"cuda_dp4a", "wgmma"}) {
          if (rows == (kernel == "wgmma" ? 1 : 16)) continue;
          const OnDevice& v = variant(kernel);
          p.must_equal(v, want);
          put(l.model, l.linear, fmt::format("{} x {}", l.n, l.k), kernel, width, rows, decode_seconds(m, v, p), l.n * l.k);
        }
      }
  for (const std::string model : {"Qwen3-8B", "Qwen2.5-7B"})
    for (const int width : {8, 15}) {
      int64_t bytes = 0;
      const double seconds = step_seconds(m, variant("cuda_dp4a"), model, width, &bytes);
      put(model, "a layer's seven", "", "cuda_dp4a", width, 1, seconds, bytes);
    }
  fmt::print("read bandwidth measured: {:.0f} GB/s\n\n{}\n", m.read_bandwidth * 1e-9, table.text());
}

int run(int argc, char** argv) try {
  report::Report report("bench-cuda-linear");
  const Machine m = open_machine();
  report.body["gpu"] = {{"name", m.properties.name}, {"driver", m.properties.driver}, {"multiprocessors", m.properties.multiprocessors},
                        {"read_bandwidth", m.read_bandwidth}};
  fmt::print("{}, driver {}\n\n", m.properties.name, m.properties.driver);
  const std::string part = argc > 2 ? argv[2] : "";
  if (part != "" && part != "cubes" && part != "decoding") throw Failed{usage_error("the parts are cubes and decoding")};
  report.body["decoding"] = report::Json::array();
  if (part != "cubes") decoding(m, report.body["decoding"]);
  report.body["cubes"] = report::Json::array();
  if (part != "decoding") cubes(m, report.body["cubes"]);
  if (argc > 1) must(report.write(argv[1], true));
  return 0;
} catch (const Failed& f) {
  fmt::print(stderr, "bench_cuda_linear: {}\n", f.error.text);
  return static_cast<int>(f.error.code);
}

}  // namespace
}  // namespace zeroulp::bench

int main(int argc, char** argv) { return zeroulp::bench::run(argc, argv); }
