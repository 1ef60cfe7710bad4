#include "model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "num/digest.h"

namespace zeroulp::model {

std::string identity_of(std::string_view header_text, const TensorMap& tensors, const std::atomic<bool>* stop) {
  constexpr size_t kPiece = size_t{1} << 20;  // how often `stop` is looked at
  num::Sha256 sha;
  sha.update_u64(header_text.size());
  sha.update(header_text);
  for (const auto& [name, t] : tensors) {
    sha.update_u64(name.size());
    sha.update(name);
    sha.update(dtype_name(t.dtype));
    sha.update_u64(t.shape.size());
    for (const int64_t extent : t.shape) sha.update_u64(static_cast<uint64_t>(extent));
    for (size_t at = 0; at < t.bytes.size(); at += kPiece) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return "";
      sha.update(t.bytes.subspan(at, std::min(kPiece, t.bytes.size() - at)));
    }
  }
  return sha.hex();
}

Status check_codes(const TensorMap& tensors, const std::string& name) {
  for (const auto& [tensor, t] : tensors) {
    if (t.dtype != Dtype::kI8 || t.bytes.empty()) continue;
    const void* found = std::memchr(t.bytes.data(), 0x80, t.bytes.size());
    if (found == nullptr) continue;
    const int64_t at = static_cast<const std::byte*>(found) - t.bytes.data(), columns = t.shape.back();
    return bad_input(fmt::format("{}: {}[{}, {}] is -128, which the contract forbids; codes are -127 to 127", name, tensor, at / columns, at % columns));
  }
  return {};
}

IdentityCheck::IdentityCheck(std::string header_text, TensorMap tensors, std::shared_ptr<const io::SafetensorsFile> file, std::string claimed,
                             std::string name)
    : header_text_(std::move(header_text)), claimed_(std::move(claimed)), name_(std::move(name)), tensors_(std::move(tensors)),
      file_(std::move(file)), thread_([this] { status_ = check(); }) {}

IdentityCheck::~IdentityCheck() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

Status IdentityCheck::check() const {
  ZU_TRY(check_codes(tensors_, name_));
  const std::string computed = identity_of(header_text_, tensors_, &stop_);
  if (computed == claimed_) return {};
  return bad_input(fmt::format("{}: the tensors and configuration have the identity {}, the header says {}: the files were changed after they "
                               "were written; get the model anew",
                               name_, computed, claimed_));
}

const Status& IdentityCheck::result() {
  std::call_once(joined_, [this] { thread_.join(); });
  return status_;
}

}  // namespace zeroulp::model
