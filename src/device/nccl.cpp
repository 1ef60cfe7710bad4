#include "device/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

namespace zeroulp::device {
namespace {

// NCCL's C interface, as its manual documents it; the numbers are part of its ABI.
struct UniqueId {
  char bytes[128];
};
static_assert(sizeof(UniqueId) == sizeof(Nccl::Id));
constexpr int kInt32 = 2, kInt64 = 4, kSum = 0, kMax = 2;

struct Library {
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(void**, int, UniqueId, int) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, StreamHandle) = nullptr;
  int (*destroy)(void*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  bool found = false;

  Library() {
    void* const handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    found = find(get_unique_id, "ncclGetUniqueId") && find(init_rank, "ncclCommInitRank") && find(all_reduce, "ncclAllReduce") &&
            find(destroy, "ncclCommDestroy") && find(error_text, "ncclGetErrorString");
  }
};

const Library& library() {
  static const Library it;
  return it;
}

Status check(int code, const char* what) {
  if (code == 0) return {};
  return unavailable(fmt::format("NCCL: {}: {}", what, library().error_text(code)));
}
Error absent() { return unavailable("NCCL (libnccl.so.2) is not installed, or not on the library path"); }

}  // namespace

Result<Nccl::Id> Nccl::make_id() {
  if (!library().found) return absent();
  UniqueId id{};
  ZU_TRY(check(library().get_unique_id(&id), "making an id"));
  Id out;
  std::memcpy(out.data(), &id, sizeof id);
  return out;
}

Result<std::unique_ptr<Nccl>> Nccl::create(const Id& id, int rank, int size) {
  if (!library().found) return absent();
  UniqueId unique;
  std::memcpy(&unique, id.data(), sizeof unique);
  void* communicator = nullptr;
  ZU_TRY(check(library().init_rank(&communicator, size, unique, rank), "joining the ranks"));
  return std::unique_ptr<Nccl>(new Nccl(communicator));
}

Nccl::~Nccl() { library().destroy(communicator_); }

Status Nccl::sum(int64_t* values, int64_t count, StreamHandle stream) {
  return check(library().all_reduce(values, values, static_cast<size_t>(count), kInt64, kSum, communicator_, stream), "adding");
}
Status Nccl::max(int32_t* values, int64_t count, StreamHandle stream) {
  return check(library().all_reduce(values, values, static_cast<size_t>(count), kInt32, kMax, communicator_, stream), "taking maxima");
}

}  // namespace zeroulp::device
