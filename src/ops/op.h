// An op is a folder: contract.h (arguments, scalar rule), reference.cpp (the oracle), variants.cpp (the table), cases.cpp (inputs that
// every variant must get right), and one file per fast variant. A variant's bits equal the reference's on every admitted input.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "base/result.h"
#include "device/device.h"

// Functions that use an instruction set carry its attribute, so that no inline library code is compiled with wide instructions.
#if defined(__x86_64__)
#define ZU_TARGET_AVX2 __attribute__((target("avx2,fma,f16c,bmi2")))
#define ZU_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,bmi2")))
#define ZU_TARGET_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,bmi2")))
#endif

// Before a loop over register tiles: unrolled, so that an array of vectors becomes registers (g++ does not do this by itself at -O2, and
// with this only where the loop stands inside another one: an array that an outermost loop touches stays in memory).
#if defined(__clang__)
#define ZU_UNROLL _Pragma("unroll")
#else
#define ZU_UNROLL _Pragma("GCC unroll 32")
#endif

namespace zeroulp::ops {

// Ascending: a processor that has one has those before it.
enum class Needs { kNothing, kAvx2, kAvx512Vnni, kAvx512Vbmi, kAmxInt8 };

// Empty when this processor can run it; otherwise why not, for people.
std::string why_unavailable(Needs needs, const CpuFeatures& cpu);

template <class Fn>
struct Variant {
  std::string_view name;  // "reference", "avx2", "avx512_vnni", "amx_int8"
  Needs needs;
  Fn* run;
};

// The variant called `wanted`; with an empty `wanted` the fastest that the processor can run. Tables list slowest first.
template <class Fn>
Result<Variant<Fn>> select(std::string_view op, std::span<const Variant<Fn>> table, std::string_view wanted, const CpuFeatures& cpu) {
  const Variant<Fn>* best = nullptr;
  for (const Variant<Fn>& v : table) {
    const std::string why = why_unavailable(v.needs, cpu);
    if (wanted.empty() ? why.empty() : v.name == wanted) best = &v;
    if (v.name == wanted && !why.empty())
      return unavailable(std::string(op) + ": kernel '" + std::string(wanted) + "' cannot run here: " + why);
  }
  if (best == nullptr) return usage_error(std::string(op) + ": there is no kernel called '" + std::string(wanted) + "'");
  return *best;
}

// A variant that runs on a GPU: the op's arguments with pointers to device memory. `run` enqueues and returns; errors are met when the
// stream is waited for. `staged` is the same kernel behind host pointers (ops/stage.h): what conformance compares with the reference.
template <class Args>
using DeviceFn = void(const Args&, const device::Launch&);
template <class Args, class HostFn>
struct DeviceVariant {
  std::string_view name;  // "cuda", "cuda_dp4a"
  DeviceFn<Args>* run;
  HostFn* staged;
  int64_t (*workspace)(const Args&) = nullptr;  // bytes of Launch::workspace that `run` needs; null: none
  std::string (*why_not)() = nullptr;           // why it cannot run although the GPU can; empty, or null: it can
};

// The variant called `wanted`; with an empty `wanted` the table's last, which is the one to use. Which GPU it runs on was checked by
// device::use.
template <class Args, class HostFn>
Result<DeviceVariant<Args, HostFn>> select(std::string_view op, std::span<const DeviceVariant<Args, HostFn>> table, std::string_view wanted) {
  if (table.empty()) return unavailable(device::why_unavailable(0));
  if (wanted.empty()) return table.back();
  for (const DeviceVariant<Args, HostFn>& v : table) {
    if (v.name != wanted) continue;
    const std::string why = v.why_not == nullptr ? "" : v.why_not();
    if (!why.empty()) return unavailable(std::string(op) + ": GPU kernel '" + std::string(wanted) + "' cannot run here: " + why);
    return v;
  }
  return usage_error(std::string(op) + ": there is no GPU kernel called '" + std::string(wanted) + "'");
}

}  // namespace zeroulp::ops
