#include "codec/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "io/json.h"
#include "num/digest.h"

namespace zeroulp::codec {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kLengthBytes = 8;

// What a run over one or many files shares.
struct Run {
  const PackOptions& options;
  const Kernels& kernels;
  ThreadPool pool;
  PackReport report;
  uint64_t total = 0, done = 0;

  Status advance(uint64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
    if (interrupt_requested()) return interrupted();
    return {};
  }
};

std::string_view header_text(const io::SafetensorsFile& file, std::span<const std::byte> image) {
  const uint64_t data = file.tensors().empty() ? image.size() : file.tensors().front().offset;
  return {reinterpret_cast<const char*>(image.data()) + kLengthBytes, data - kLengthBytes};
}

std::string sha256_of(std::span<const std::byte> bytes) {
  num::Sha256 sha;
  sha.update(bytes);
  return sha.hex();
}

struct Place {
  std::string name;
  uint64_t bytes;
};

// Padded with blanks to `length`, so that it can be written before the frames' sizes are known and again after.
std::string packed_header(const io::Metadata& metadata, const std::vector<Place>& places, size_t length) {
  std::string out = "{\"__metadata__\":" + io::Json(metadata).dump();
  uint64_t offset = 0;
  for (const Place& p : places) {
    out += fmt::format(",{}:{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", io::Json(p.name).dump(), p.bytes, offset, offset + p.bytes);
    offset += p.bytes;
  }
  out += '}';
  if (out.size() < length) out.append(length - out.size(), ' ');
  return out;
}

uint32_t block_bytes_for(Type type, uint32_t wanted) {
  const uint32_t element = static_cast<uint32_t>(type_info(type).bytes);
  return std::min(wanted, kBlockValuesLimit * element) / element * element;
}

Result<io::SafetensorsFile> open_plain(MappedFile file) {
  ZU_TRY_ASSIGN(io::SafetensorsFile plain, io::SafetensorsFile::of(std::move(file)));
  if (is_packed(plain)) return bad_input(fmt::format("{}: is packed already", plain.path().string()));
  return plain;
}

FrameOptions frame_options(const io::TensorInfo& t, const PackOptions& o) {
  FrameOptions frame;
  frame.type = coded_type(t.dtype);
  frame.block_bytes = block_bytes_for(frame.type, o.block_bytes);
  frame.level = o.level;
  return frame;
}

uint64_t bound_of(const FrameOptions& o, uint64_t bytes) { return frame_bound(o, bytes, static_cast<uint32_t>(blocks_of(o, bytes))); }

// The same with a table for the channels of the last dimension, blocks being whole rows; absent where that is not possible.
std::optional<FrameOptions> with_channels(const io::SafetensorsFile& source, const io::TensorInfo& t, FrameOptions o, std::vector<uint8_t>& table) {
  const uint32_t element = static_cast<uint32_t>(type_info(o.type).bytes);
  const int64_t channels = t.shape.size() < 2 ? 0 : t.shape.back();
  if (type_info(o.type).exponent_bits == 0 || t.bytes == 0 || channels < 2 || channels > kPeriodLimit || channels * element > o.block_bytes) return std::nullopt;
  const uint32_t row = static_cast<uint32_t>(channels) * element;
  table = calibrate_table(o.type, source.data(t), static_cast<uint32_t>(channels));
  o.block_bytes = o.block_bytes / row * row;
  o.table = table;
  return o;
}

Status pack_tensors(Run& run, const io::SafetensorsFile& source, AtomicFile& to, std::vector<Place>& places) {
  std::vector<std::byte> coded, other;
  std::vector<uint8_t> table;
  for (const io::TensorInfo& t : source.tensors()) {
    const FrameOptions o = frame_options(t, run.options);
    coded.resize(bound_of(o, t.bytes));
    ZU_TRY_ASSIGN(uint64_t used, encode_frame(run.kernels, o, source.data(t), coded, &run.pool));
    if (const auto c = run.options.channels ? with_channels(source, t, o, table) : std::nullopt) {
      other.resize(bound_of(*c, t.bytes));
      ZU_TRY_ASSIGN(const uint64_t used_there, encode_frame(run.kernels, *c, source.data(t), other, &run.pool));
      if (used_there < used) coded.swap(other), used = used_there;
    }
    ZU_TRY(to.write(std::span(coded).first(used)));
    places.push_back({t.name, used});
    PackedTensor row{source.path().filename().string(), t.name, t.dtype, t.bytes, used, {}};
    ZU_TRY_ASSIGN(const Frame frame, Frame::open(std::span(coded).first(used), t.name));
    for (const Entry& e : frame.entries()) ++row.blocks[static_cast<size_t>(e.mode)];
    run.report.tensors.push_back(std::move(row));
    ZU_TRY(run.advance(t.bytes));
  }
  return {};
}

Status pack_file(Run& run, MappedFile file, const fs::path& to) {
  const fs::path from = file.path();
  const std::span<const std::byte> image = file.bytes();
  ZU_TRY_ASSIGN(const io::SafetensorsFile source, open_plain(std::move(file)));
  const io::Metadata metadata = {{"format", kPackedFormat}, {"header", std::string(header_text(source, image))}, {"sha256", sha256_of(image)}};
  std::vector<Place> places;
  for (const io::TensorInfo& t : source.tensors()) {
    places.push_back({t.name, bound_of(frame_options(t, run.options), t.bytes)});
  }
  const size_t longest = packed_header(metadata, places, 0).size();
  const uint64_t length = round_up16(longest + kLengthBytes) - kLengthBytes;  // so that frames begin at multiples of 16
  if (length > io::kSafetensorsHeaderLimit)
    return bad_input(fmt::format("{}: its header would grow above the limit of {} bytes", from.string(), io::kSafetensorsHeaderLimit));

  ZU_TRY_ASSIGN(AtomicFile out, AtomicFile::create(to, run.options.force));
  ZU_TRY(out.write(std::as_bytes(std::span(&length, 1))));
  ZU_TRY(out.write(std::string(length, ' ')));
  places.clear();
  ZU_TRY(pack_tensors(run, source, out, places));
  const std::string header = packed_header(metadata, places, length);
  ZU_TRY(out.rewrite(kLengthBytes, std::as_bytes(std::span(header.data(), header.size()))));
  uint64_t bytes = kLengthBytes + length;
  for (const Place& p : places) bytes += p.bytes;
  ++run.report.files;
  run.report.bytes_in += image.size();
  run.report.bytes_out += bytes;
  return out.commit();
}

Result<std::string> metadata_of(const io::SafetensorsFile& file, const char* key) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end()) return bad_input(fmt::format("{}: its metadata lack \"{}\", so it cannot be unpacked", file.path().string(), key));
  return it->second;
}

// The original file in memory.
Result<MappedFile> restore(const io::SafetensorsFile& packed, const Kernels& kernels, ThreadPool* pool, const std::function<Status(uint64_t)>& advance) {
  const std::string path = packed.path().string();
  ZU_TRY_ASSIGN(const std::string header, metadata_of(packed, "header"));
  std::vector<Frame> frames;
  uint64_t size = kLengthBytes + header.size();
  for (const io::TensorInfo& t : packed.tensors()) {
    ZU_TRY_ASSIGN(Frame frame, Frame::open(packed.data(t), fmt::format("{}: tensor {}", path, in_quotes(t.name))));
    if (__builtin_add_overflow(size, frame.header().raw_bytes, &size)) return bad_input(fmt::format("{}: the tensors' sizes overflow", path));
    frames.push_back(std::move(frame));
  }
  return MappedFile::filled(packed.path(), size, [&](std::span<std::byte> image) -> Status {
    const uint64_t length = header.size();
    std::memcpy(image.data(), &length, kLengthBytes);
    std::memcpy(image.data() + kLengthBytes, header.data(), length);
    std::span<std::byte> to = image.subspan(kLengthBytes + length);
    for (size_t i = 0; i < frames.size(); ++i) {
      const uint64_t bytes = frames[i].header().raw_bytes;
      ZU_TRY(decode_frame(kernels, frames[i], to.first(bytes), fmt::format("{}: tensor {}", path, in_quotes(packed.tensors()[i].name)), pool));
      to = to.subspan(bytes);
      ZU_TRY(advance(packed.tensors()[i].bytes));
    }
    return {};
  });
}

// The restored header must speak of the same tensors, each with the bytes of its frame.
Status check_names(const io::SafetensorsFile& packed, const io::SafetensorsFile& plain) {
  const auto& a = packed.tensors();
  const auto& b = plain.tensors();
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i) same = a[i].name == b[i].name;
  if (!same) return bad_input(fmt::format("{}: its tensors and its original header disagree", packed.path().string()));
  return {};
}

Status unpack_file(Run& run, const io::SafetensorsFile& packed, const fs::path& to) {
  ZU_TRY_ASSIGN(const std::string expected, metadata_of(packed, "sha256"));
  ZU_TRY_ASSIGN(MappedFile image, restore(packed, run.kernels, &run.pool, [&](uint64_t bytes) { return run.advance(bytes); }));
  const std::span<const std::byte> bytes = image.bytes();
  if (sha256_of(bytes) != expected)
    return bad_input(fmt::format("{}: what it holds has not the SHA-256 of the original file; nothing was written", packed.path().string()));
  ZU_TRY_ASSIGN(const io::SafetensorsFile plain, io::SafetensorsFile::of(std::move(image)));
  ZU_TRY(check_names(packed, plain));
  for (size_t i = 0; i < plain.tensors().size(); ++i) {
    const io::TensorInfo& t = plain.tensors()[i];
    run.report.tensors.push_back({packed.path().filename().string(), t.name, t.dtype, t.bytes, packed.tensors()[i].bytes, {}});
  }
  ZU_TRY_ASSIGN(AtomicFile out, AtomicFile::create(to, run.options.force));
  ZU_TRY(out.write(bytes));
  ++run.report.files;
  run.report.bytes_in += packed.file_bytes();
  run.report.bytes_out += bytes.size();
  return out.commit();
}

Status copy_file(Run& run, const fs::path& from, const fs::path& to) {
  ZU_TRY_ASSIGN(const MappedFile file, MappedFile::open(from));
  ZU_TRY_ASSIGN(AtomicFile out, AtomicFile::create(to, run.options.force));
  ZU_TRY(out.write(file.bytes()));
  ZU_TRY(out.commit());
  ++run.report.copied;
  run.report.bytes_in += file.bytes().size();
  run.report.bytes_out += file.bytes().size();
  return run.advance(file.bytes().size());
}

// One file of a folder or alone: packed, unpacked, or copied when `alone` is false and it is no safetensors file.
Status treat(Run& run, bool packing, const fs::path& from, const fs::path& to, bool alone) {
  if (!alone && from.extension() != ".safetensors") return copy_file(run, from, to);
  if (packing) {
    ZU_TRY_ASSIGN(MappedFile image, MappedFile::open(from));
    return pack_file(run, std::move(image), to);
  }
  ZU_TRY_ASSIGN(const io::SafetensorsFile file, io::SafetensorsFile::open(from));
  if (is_packed(file)) return unpack_file(run, file, to);
  if (alone) return bad_input(fmt::format("{}: is not packed", from.string()));
  return copy_file(run, from, to);
}

// What a folder holds, by names inside it. Links to files count as files, as every loader reads them; the names are those of the links.
struct Contents {
  std::vector<fs::path> folders, files;
};

Result<Contents> contents_of(const fs::path& folder) {
  Contents c;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(folder, ec); !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code gone;
    const fs::path name = it->path().lexically_relative(folder);
    ZU_CHECK(!name.empty() && *name.begin() != "..");
    if (it->is_regular_file(gone)) {
      c.files.push_back(name);
    } else if (it->is_directory(gone) && !it->is_symlink(gone)) {
      c.folders.push_back(name);
    } else {  // it would be missing from the copy without a word
      return bad_input(fmt::format("{}: is a link to a folder or to nothing, a pipe or a device, which cannot be copied; remove it", it->path().string()));
    }
  }
  if (ec) return bad_input(fmt::format("{}: cannot be read: {}", folder.string(), ec.message()));
  std::sort(c.files.begin(), c.files.end());
  return c;
}

// A folder inside the one that is read would be read too, now or by the next run.
Status refuse_inside(const fs::path& source, const fs::path& target) {
  std::error_code ec;
  const fs::path inside = fs::weakly_canonical(fs::absolute(target, ec), ec).lexically_relative(fs::canonical(source, ec));
  if (inside.empty() || *inside.begin() == "..") return {};
  return usage_error(fmt::format("{}: lies inside {}; give a place outside it", target.string(), source.string()));
}

Result<PackReport> convert(const fs::path& source, const fs::path& target, const PackOptions& options, bool packing) {
  ZU_TRY_ASSIGN(const Kernels* kernels, select_kernels(options.kernel, cpu_features()));
  std::error_code ec;
  const bool folder_given = fs::is_directory(source, ec);
  PackOptions each = options;
  if (folder_given) each.force = false;  // the folder is new: what is in it already is a fault
  Run run{each, *kernels, ThreadPool(options.threads), {}};
  if (!folder_given) {
    run.total = fs::file_size(source, ec);
    ZU_TRY(treat(run, packing, source, target, true));
    return std::move(run.report);
  }
  ZU_TRY(refuse_inside(source, target));
  ZU_TRY_ASSIGN(const Contents contents, contents_of(source));
  for (const fs::path& f : contents.files) run.total += fs::file_size(source / f, ec);
  ZU_TRY_ASSIGN(AtomicFolder folder, AtomicFolder::create(target, options.force));
  for (const fs::path& f : contents.folders)
    if (fs::create_directories(folder.temporary() / f, ec); ec) return bad_input(fmt::format("{}: cannot be made in {}: {}", f.string(), target.string(), ec.message()));
  for (const fs::path& f : contents.files) ZU_TRY(treat(run, packing, source / f, folder.temporary() / f, false));
  if (run.report.files == 0)
    return bad_input(fmt::format("{}: holds no {}safetensors file", source.string(), packing ? "" : "packed "));
  ZU_TRY(folder.commit());
  return std::move(run.report);
}

}  // namespace

Type coded_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16: return Type::kBF16;
    case Dtype::kF16: return Type::kF16;
    case Dtype::kF32: return Type::kF32;
    case Dtype::kF8E4M3: case Dtype::kF8E4M3FNUZ: return Type::kF8E4M3;
    case Dtype::kF8E5M2: case Dtype::kF8E5M2FNUZ: return Type::kF8E5M2;
    default: return Type::kBytes;
  }
}

bool is_packed(const io::SafetensorsFile& file) {
  const auto it = file.metadata().find("format");
  return it != file.metadata().end() && it->second == kPackedFormat;
}

Result<PackReport> pack(const fs::path& source, const fs::path& target, const PackOptions& options) { return convert(source, target, options, true); }
Result<PackReport> pack_image(MappedFile image, const fs::path& target, const PackOptions& options) {
  ZU_TRY_ASSIGN(const Kernels* kernels, select_kernels(options.kernel, cpu_features()));
  Run run{options, *kernels, ThreadPool(options.threads), {}};
  run.total = image.bytes().size();
  ZU_TRY(pack_file(run, std::move(image), target));
  return std::move(run.report);
}
Result<PackReport> unpack(const fs::path& source, const fs::path& target, const PackOptions& options) { return convert(source, target, options, false); }

Result<io::SafetensorsFile> open_safetensors(const fs::path& path) {
  ZU_TRY_ASSIGN(io::SafetensorsFile file, io::SafetensorsFile::open(path));
  if (!is_packed(file)) return file;
  ZU_TRY_ASSIGN(const Kernels* kernels, select_kernels("", cpu_features()));
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  ZU_TRY_ASSIGN(MappedFile image, restore(file, *kernels, &pool, [](uint64_t) { return interrupt_requested() ? Status(interrupted()) : Status(); }));
  ZU_TRY_ASSIGN(io::SafetensorsFile plain, io::SafetensorsFile::of(std::move(image)));
  ZU_TRY(check_names(file, plain));
  return plain;
}

Result<TensorBytes> tensor_bytes(const fs::path& path) {
  ZU_TRY_ASSIGN(const io::SafetensorsFile file, open_safetensors(path));
  TensorBytes all;
  for (const io::TensorInfo& t : file.tensors()) {
    const auto data = file.data(t);
    if (data.empty()) continue;
    all.bytes.insert(all.bytes.end(), data.begin(), data.end());
    all.runs.push_back({coded_type(t.dtype), data.size()});
  }
  if (all.bytes.empty()) return bad_input(fmt::format("{}: its tensors hold nothing", path.string()));
  return all;
}

Result<std::vector<std::byte>> bf16_tensors(const fs::path& path) {
  ZU_TRY_ASSIGN(const io::SafetensorsFile file, open_safetensors(path));
  std::vector<std::byte> bytes;
  for (const io::TensorInfo& t : file.tensors())
    if (t.dtype == Dtype::kBF16) bytes.insert(bytes.end(), file.data(t).begin(), file.data(t).end());
  if (bytes.empty()) return bad_input(fmt::format("{}: holds no BF16 tensor", path.string()));
  return bytes;
}

}  // namespace zeroulp::codec
