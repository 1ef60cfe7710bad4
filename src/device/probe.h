// The kernel behind read_bandwidth().
#pragma once

#include <cstdint>

#include "device/device.h"

namespace zeroulp::device {

// Reads `count` 16-byte words once; `data` has room for one more, which the result goes to.
void launch_read_all(std::byte* data, int64_t count, int multiprocessors, StreamHandle stream);

}  // namespace zeroulp::device
