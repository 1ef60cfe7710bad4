// Seals over whole files: SHA-256 finds accidents, HMAC-SHA-256 (RFC 2104) also who does not know the key.
#pragma once

#include <string>
#include <string_view>

namespace zeroulp::num {

// 32 bytes each.
std::string sha256(std::string_view bytes);
std::string hmac_sha256(std::string_view key, std::string_view bytes);

// Equality that takes the same time wherever the two differ.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace zeroulp::num
