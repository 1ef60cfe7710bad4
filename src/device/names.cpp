#include <fmt/format.h>

#include <charconv>

#include "device/device.h"

namespace zeroulp::device {

Result<int> parse_device(std::string_view text) {
  if (text == "cpu") return -1;
  if (text == "cuda") return 0;
  if (text.substr(0, 5) == "cuda:") {
    const std::string_view digits = text.substr(5);
    int index = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) return index;
  }
  return usage_error(fmt::format("--device '{}' is not cpu, cuda or cuda:N", text));
}

Result<int64_t> checked_bytes(int64_t count, int64_t size, std::string_view what) {
  int64_t bytes = 0;
  if (count < 0 || size < 0 || __builtin_mul_overflow(count, size, &bytes))
    return bad_input(fmt::format("{}: {} elements of {} bytes are more than 64 bits can count", what, count, size));
  return bytes;
}

}  // namespace zeroulp::device
