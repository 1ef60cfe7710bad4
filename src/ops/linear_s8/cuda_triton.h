// The Triton kernels of this folder as found on disk. They are compiled ahead of time by triton_kernel.py.
#pragma once

#include <string>
#include <vector>

#include "ops/linear_s8/contract.h"

namespace zeroulp::ops::linear_s8 {

struct TritonFile {
  std::string name, sha256;  // of the file that was read
};
// What was loaded, in the order of linear_s8_triton.txt. Looked for in the folder `kernels` beside the program, then where the build put them.
const std::vector<TritonFile>& triton_files();
// Why the variant cannot run: no such folder, or a file that is not the one its manifest names. Empty: it can.
std::string why_no_triton();

void triton(const Args& args, const device::Launch& launch);
int64_t triton_workspace(const Args& args);

// vLLM's order of the scales (triton_kernel.py), which is not the contract's: for 8-bit codes and bf16 or fp32 output.
void triton_vllm(const Args& args, const device::Launch& launch);

}  // namespace zeroulp::ops::linear_s8
