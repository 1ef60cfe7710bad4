// The floating-point control that every computing thread runs under: round to nearest even, subnormals kept.
#pragma once

#include <cfloat>
#include <cstdint>

#if defined(__FAST_MATH__)
#error "zeroulp must not be compiled with -ffast-math: its build flags are part of its numerics"
#endif
static_assert(FLT_EVAL_METHOD == 0, "float expressions must be evaluated in float");

namespace zeroulp {

// Sets RNE, no flush-to-zero, no denormals-are-zero, all exceptions masked; restores the caller's control on destruction,
// because a host library may have changed it and must get its own back.
class FpEnvScope {
 public:
  FpEnvScope();
  ~FpEnvScope();
  FpEnvScope(const FpEnvScope&) = delete;
  FpEnvScope& operator=(const FpEnvScope&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace zeroulp
