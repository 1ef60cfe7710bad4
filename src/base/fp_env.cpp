#include "base/fp_env.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zeroulp {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kContract = 0x1F80;  // RNE, all exceptions masked, FTZ and DAZ off
uint64_t read_control() { return _mm_getcsr(); }
void write_control(uint64_t control) { _mm_setcsr(static_cast<unsigned>(control)); }
#elif defined(__aarch64__)
constexpr uint64_t kContract = 0;  // FPCR: RNE, FZ and FZ16 off, AH and FIZ off, traps off
uint64_t read_control() {
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
void write_control(uint64_t control) { asm volatile("msr fpcr, %0" ::"r"(control)); }
#else
#error "state here how this processor selects RNE with subnormals kept"
#endif

}  // namespace

FpEnvScope::FpEnvScope() : saved_(read_control()) { write_control(kContract); }
FpEnvScope::~FpEnvScope() { write_control(saved_); }

}  // namespace zeroulp
