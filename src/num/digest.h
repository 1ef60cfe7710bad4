// Digests: XXH3-128 for bits that are compared, SHA-256 for identities.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zeroulp::num {

struct Digest {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Digest&) const = default;
  std::string hex() const;  // 32 digits, high first: the canonical form of XXH3-128
};

// XXH3-128 (seed 0) over the bytes. On a big-endian machine the caller must give little-endian bytes.
Digest xxh3_128(std::span<const std::byte> bytes);
template <class T>
Digest digest_of(std::span<const T> values) {
  return xxh3_128(std::as_bytes(values));
}

// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  void update_u64(uint64_t value);  // eight little-endian bytes
  std::string hex();                // ends the computation

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroulp::num
