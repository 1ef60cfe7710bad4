// Packed safetensors files (`zeroulp-packed/1`), and folders with them.
//
// A packed file is itself a safetensors file: every tensor has its name and its place in the order, type U8, and holds one frame
// (docs/spec/codec.md). The metadata are {"format": "zeroulp-packed/1", "header": the original header's text as it was,
// "sha256": of the original file}. Unpacking gives the original bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "codec/frame.h"
#include "io/safetensors.h"

namespace zeroulp::codec {

inline constexpr const char* kPackedFormat = "zeroulp-packed/1";

struct PackOptions {
  Level level = Level::kBalanced;
  uint32_t block_bytes = 16384;
  bool channels = false;  // also try an exponent table per channel (the last dimension) and keep the smaller frame
  std::string kernel;  // empty: the fastest here
  int threads = 1;
  bool force = false;  // replace what exists
  // Bytes read so far, of `total`; may be empty. An interrupt (base/interrupt.h) ends the work with nothing written.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct PackedTensor {
  std::string file, name;
  Dtype dtype = Dtype::kU8;
  uint64_t raw_bytes = 0, packed_bytes = 0;
  uint64_t blocks[kModes] = {};  // by mode
};

struct PackReport {
  std::vector<PackedTensor> tensors;
  uint64_t files = 0, copied = 0;               // packed or unpacked; copied as they are
  uint64_t bytes_in = 0, bytes_out = 0;         // of all files
};

// Elements of other types, and packed ones, are coded as bytes.
Type coded_type(Dtype dtype);
bool is_packed(const io::SafetensorsFile& file);

// From a safetensors file to a packed one, or a folder whose safetensors files are packed and whose other files are copied.
Result<PackReport> pack(const std::filesystem::path& source, const std::filesystem::path& target, const PackOptions& options);
// The image of a safetensors file that is in memory, to a packed file.
Result<PackReport> pack_image(MappedFile image, const std::filesystem::path& target, const PackOptions& options);
// The inverse; the SHA-256 of every restored file is compared before it appears. Needs no level and no block size.
Result<PackReport> unpack(const std::filesystem::path& source, const std::filesystem::path& target, const PackOptions& options);

// A safetensors file, packed or not. A packed one is decoded into memory whole.
Result<io::SafetensorsFile> open_safetensors(const std::filesystem::path& path);

// The bytes of all its tensors, one behind the other, and as what they are coded; at least one byte.
struct TensorBytes {
  std::vector<std::byte> bytes;
  std::vector<TypedRun> runs;
};
Result<TensorBytes> tensor_bytes(const std::filesystem::path& path);
// All BF16 tensors of such a file, one behind the other; at least one.
Result<std::vector<std::byte>> bf16_tensors(const std::filesystem::path& path);

}  // namespace zeroulp::codec
