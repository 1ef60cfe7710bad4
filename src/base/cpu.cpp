#include "base/cpu.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace zeroulp {
namespace {

#if defined(__x86_64__)
struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  // clang declares the result as int.
  if (static_cast<unsigned>(__get_cpuid_max(leaf & 0x80000000u, nullptr)) >= leaf) __cpuid_count(leaf, subleaf, r.a, r.b, r.c, r.d);
  return r;
}

uint64_t xcr0() {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux gives a process the AMX tile state only on request (arch_prctl ARCH_REQ_XCOMP_PERM, state 18).
bool request_amx() {
#if defined(__linux__)
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
  return false;
#endif
}

std::string brand() {
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002u + i, 0);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string name = text;
  const size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64" : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

CpuFeatures detect() {
  CpuFeatures f;
  f.model = brand();
  const Registers l1 = cpuid(1, 0), l7 = cpuid(7, 0);
  const auto bit = [](unsigned word, int i) { return ((word >> i) & 1) != 0; };
  if (!bit(l1.c, 27)) return f;  // OSXSAVE
  const uint64_t state = xcr0();
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xE6) == 0xE6, tiles = (state & 0x60000) == 0x60000;
  f.avx2 = ymm && bit(l1.c, 28) && bit(l1.c, 12) && bit(l1.c, 29) && bit(l7.b, 5) && bit(l7.b, 8);
  f.avx512_vnni = f.avx2 && zmm && bit(l7.b, 16) && bit(l7.b, 17) && bit(l7.b, 30) && bit(l7.b, 31) && bit(l7.c, 11);
  f.avx512_vbmi = f.avx512_vnni && bit(l7.c, 1) && bit(l7.c, 6);
  f.amx_int8 = f.avx512_vnni && tiles && bit(l7.d, 24) && bit(l7.d, 25) && request_amx();
  return f;
}
#else
CpuFeatures detect() {
  CpuFeatures f;
#if defined(__aarch64__)
  f.model = "aarch64";
#else
  f.model = "unknown";
#endif
  return f;
}
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace zeroulp
