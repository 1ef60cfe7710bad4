#include "device/device.h"
#include "engine/device_decoder.h"

namespace zeroulp::engine {

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::create(const model::QuantizedModel&, const ops::DeviceKernels&, Exchange*, const Options&) {
  return unavailable(device::why_unavailable(0));
}

}  // namespace zeroulp::engine
