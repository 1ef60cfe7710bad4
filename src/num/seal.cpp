#include "num/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <climits>

#include "base/check.h"

namespace zeroulp::num {

std::string sha256(std::string_view bytes) {
  std::string out(32, '\0');
  ZU_CHECK(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()), nullptr, EVP_sha256(), nullptr) == 1);
  return out;
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string out(32, '\0');
  unsigned length = 0;
  ZU_CHECK(key.size() <= INT_MAX);
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                          reinterpret_cast<unsigned char*>(out.data()), &length);
  ZU_CHECK(done != nullptr && length == 32);
  return out;
}

bool equal_secrets(std::string_view a, std::string_view b) { return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace zeroulp::num
