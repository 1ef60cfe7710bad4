#include "num/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <bit>

#include "base/check.h"

namespace zeroulp::num {

static_assert(std::endian::native == std::endian::little, "digests are defined over little-endian bytes; add a byte swap here");

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest xxh3_128(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

struct Sha256::State {
  EVP_MD_CTX* context = nullptr;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->context = EVP_MD_CTX_new();
  ZU_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  ZU_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

void Sha256::update_u64(uint64_t value) { update(std::as_bytes(std::span(&value, 1))); }

std::string Sha256::hex() {
  unsigned char out[32];
  unsigned length = 0;
  ZU_CHECK(EVP_DigestFinal_ex(state_->context, out, &length) == 1 && length == 32);
  std::string text;
  for (const unsigned char byte : out) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace zeroulp::num
