// What this processor can run. Variants name their needs with these; nothing else asks CPUID.
#pragma once

#include <string>

namespace zeroulp {

struct CpuFeatures {
  bool avx2 = false;         // AVX2, FMA, F16C and BMI2, with OS support for ymm state
  bool avx512_vnni = false;  // AVX-512 F, BW, VL, DQ and VNNI, with OS support for zmm state
  bool avx512_vbmi = false;  // besides these, VBMI and VBMI2
  bool amx_int8 = false;     // AMX-TILE and AMX-INT8, with permission granted by the kernel
  std::string model;         // as the processor names itself, or the architecture
};

// Read once per process; a constant afterwards.
const CpuFeatures& cpu_features();

}  // namespace zeroulp
