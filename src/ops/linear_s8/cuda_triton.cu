// Loads the cubins that triton_kernel.py made and launches them through the driver.
#include "ops/linear_s8/cuda_triton.h"

#include <cuda.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "num/digest.h"
#include "ops/linear_s8/cuda_operands.cuh"

namespace zeroulp::ops::linear_s8 {
namespace {

template <class Fn>
Fn* driver_call(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  const bool ok = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how) == cudaSuccess && how == cudaDriverEntryPointSuccess;
  return ok ? reinterpret_cast<Fn*>(found) : nullptr;
}

struct Entry {
  std::string file, sha256, kernel_name, output, order;
  int planes = 0, threads = 0, shared_bytes = 0, tile_rows = 0, tile_channels = 0;
  CUkernel kernel = nullptr;
};

struct Loaded {
  std::string why_not;
  std::vector<TritonFile> files;
  std::vector<Entry> entries;
};

constexpr const char* kManifest = "linear_s8_triton.txt";

std::optional<std::filesystem::path> kernel_folder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::filesystem::path& folder : {program.parent_path() / "kernels", std::filesystem::path(ZEROULP_KERNEL_FOLDER)})
    if (std::filesystem::exists(folder / kManifest, error)) return folder;
  return std::nullopt;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads one file and makes its kernel ready; why not otherwise.
std::string load(const std::filesystem::path& folder, Entry& entry, Loaded& into) {
  static auto* const load_data = driver_call<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
  static auto* const get_kernel = driver_call<decltype(cuLibraryGetKernel)>("cuLibraryGetKernel");
  static auto* const set_attribute = driver_call<decltype(cuKernelSetAttribute)>("cuKernelSetAttribute");
  if (load_data == nullptr || get_kernel == nullptr || set_attribute == nullptr) return "the GPU driver cannot load libraries; it is older than CUDA 12";
  const std::string cubin = contents(folder / entry.file);
  num::Sha256 digest;
  digest.update(std::as_bytes(std::span(cubin)));
  const std::string found = digest.hex();
  if (found != entry.sha256) return (folder / entry.file).string() + " is not the file that " + kManifest + " names: build the GPU kernels again";
  into.files.push_back({entry.file, found});
  int device = 0;
  CUlibrary library = nullptr;
  cudaGetDevice(&device);
  cudaFree(nullptr);  // the runtime makes the device's context
  if (load_data(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS ||
      get_kernel(&entry.kernel, library, entry.kernel_name.c_str()) != CUDA_SUCCESS ||
      set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, entry.shared_bytes, entry.kernel, device) != CUDA_SUCCESS)
    return "the driver refuses " + (folder / entry.file).string();
  return "";
}

Loaded load_all() {
  const OutsideCapture outside;
  Loaded out;
  const std::optional<std::filesystem::path> folder = kernel_folder();
  if (!folder) {
    out.why_not = std::string("there is no kernels/") + kManifest + " beside the program: ./dev gpu build makes the Triton kernels";
    return out;
  }
  std::istringstream lines(contents(*folder / kManifest));
  std::string line;
  std::getline(lines, line);  // the columns' names
  while (out.why_not.empty() && std::getline(lines, line)) {
    Entry e;
    std::istringstream fields(line);
    if (!(fields >> e.file >> e.sha256 >> e.kernel_name >> e.planes >> e.output >> e.order >> e.threads >> e.shared_bytes >> e.tile_rows >>
          e.tile_channels)) {
      out.why_not = (*folder / kManifest).string() + " is damaged: build the GPU kernels again";
      break;
    }
    out.why_not = load(*folder, e, out);
    out.entries.push_back(std::move(e));
  }
  return out;
}

// Loaded once, for the device of the first caller; the kernels of a library belong to every device of its kind.
const Loaded& loaded() {
  static const Loaded all = load_all();
  return all;
}

const Entry& find(int planes, Output output, const char* order) {
  const char* const name = output == Output::kBf16 ? "bf16" : output == Output::kF32 ? "f32" : "sums";
  for (const Entry& e : loaded().entries)
    if (e.planes == planes && e.output == name && e.order == order) return e;
  ZU_CHECK(false);
}

void run(const Args& a, const device::Launch& launch, const char* order) {
  ZU_CHECK(loaded().why_not.empty());
  if (a.rows * a.n == 0) return;
  const Entry& entry = find(planes_of(a), a.output, order);
  Workspace workspace(launch);
  const Weights b = make_weights(a, launch, workspace, a.n);
  const int8_t* codes = make_codes(a, launch, workspace, a.rows);
  auto rows = static_cast<int32_t>(a.rows), n = static_cast<int32_t>(a.n), k = static_cast<int32_t>(b.k);
  int32_t has_bias = a.bias != nullptr;
  int64_t weights_stride = b.stride, y_stride = a.y_stride;
  const int8_t* weights = b.data;
  const float *row_scales = a.row_scales, *channel_scales = a.channel_scales, *bias = a.bias;
  void *y = a.y, *no_scratch = nullptr, *no_profile = nullptr;  // Triton's kernels take two more pointers than their source has
  void* arguments[] = {&codes, &weights, &row_scales, &channel_scales, &bias,     &y,          &rows,
                       &n,     &k,       &weights_stride, &y_stride,   &has_bias, &no_scratch, &no_profile};
  static auto* const launch_kernel = driver_call<decltype(cuLaunchKernel)>("cuLaunchKernel");
  const auto blocks = static_cast<unsigned>(ceil_div(a.rows, entry.tile_rows) * ceil_div(a.n, entry.tile_channels));
  ZU_CHECK(launch_kernel(reinterpret_cast<CUfunction>(entry.kernel), blocks, 1, 1, static_cast<unsigned>(entry.threads), 1, 1,
                         static_cast<unsigned>(entry.shared_bytes), launch.stream, arguments, nullptr) == CUDA_SUCCESS);
}

}  // namespace

const std::vector<TritonFile>& triton_files() { return loaded().files; }
std::string why_no_triton() { return loaded().why_not; }

void triton(const Args& a, const device::Launch& launch) { run(a, launch, "contract"); }
void triton_vllm(const Args& a, const device::Launch& launch) {
  ZU_CHECK(a.width == 8 && a.output != Output::kPartial);
  run(a, launch, "vllm");
}
int64_t triton_workspace(const Args& a) { return weight_bytes(a, a.n) + code_bytes(a, a.rows); }

}  // namespace zeroulp::ops::linear_s8
