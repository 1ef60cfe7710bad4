// A quantised folder of arbitrary bytes: 4 bytes length of zeroulp.json, zeroulp.json, model.safetensors. It opens and is checked, or is
// refused with a line. Every pointer of a model that opened can be read through.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "model/quantized_model.h"

namespace {

// In memory where the machine has such a place.
std::filesystem::path scratch() {
  namespace fs = std::filesystem;
  const fs::path base = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  const fs::path folder = base / ("zeroulp-fuzz-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  return folder;
}

struct Scratch {
  std::filesystem::path folder = scratch();
  ~Scratch() { std::filesystem::remove_all(folder); }
};

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

template <class T>
uint64_t touch(const T* values, int64_t count) {
  uint64_t sum = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values);
  for (int64_t i = 0; values != nullptr && i < count * static_cast<int64_t>(sizeof(T)); ++i) sum += bytes[i];
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroulp;
  static const Scratch place;
  if (size < 4) return 0;
  uint32_t header = 0;
  std::memcpy(&header, data, 4);
  header = std::min<uint32_t>(header, static_cast<uint32_t>(size - 4));
  const char* text = reinterpret_cast<const char*>(data) + 4;
  write(place.folder / "zeroulp.json", {text, header});
  write(place.folder / "model.safetensors", {text + header, size - 4 - header});
  const auto model = model::QuantizedModel::open(place.folder);
  if (!model) {
    ZU_CHECK(model.error().text.find('\n') == std::string::npos);
    ZU_CHECK(model.error().code == ExitCode::kBadInput);
    return 0;
  }
  uint64_t sum = touch(model->final_norm(), model->config().hidden);
  for (const model::QuantizedLayer& layer : model->layers())
    for (const model::QuantizedLinear& l : layer.linears) sum += touch(l.codes, l.n * l.k) + touch(l.scales, l.n) + touch(l.bias, l.n);
  ZU_CHECK(static_cast<int64_t>(model->layers().size()) == model->config().layers);
  const Status same = model->verify_identity();
  ZU_CHECK(!same || model->compute_identity() == model->identity());
  return sum == 0 ? 0 : 0;
}
