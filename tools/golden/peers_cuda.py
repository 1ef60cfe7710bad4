#!/usr/bin/env python3
"""Vectors that other stacks' CUDA C++ produced, for src/ops/peers: tests/golden/foreign/*.json. Needs a GPU of compute capability 9.0 (H100, H200), nvcc and PyTorch.

    peers_cuda.py vllm OUT --source VLLM --cutlass CUTLASS        vLLM 0.13.0 (72506c983), unpacked: its scaled_mm kernels (CUTLASS 2.x and 3.x) and int8 quantisers
    peers_cuda.py sglang OUT --source KERNELS --cutlass CUTLASS   the folder sgl-kernel of microsoft/llm-42 at bffed9f4, a copy of SGLang's: int8_scaled_mm, sm80 and sm90

CUTLASS is a source tree of release 4.2 with include/ and tools/util/include/ (the wheel nvidia-cutlass has one). OUT holds inputs.json (peers.py inputs).
The peers' own launchers are called, below the dispatch by shape and device: for 8 rows and 16 channels it chooses the instances named here, on the device whose
number they carry. 2.x instances are for compute capability 8.0; vLLM's guards leave them empty for others, so they are compiled to PTX of 8.0, which the driver
translates. Compiled as the peers do where it matters to bits: optimised, contraction as nvcc has it by default, no fast mathematics.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from torch.utils.cpp_extension import CUDA_HOME, include_paths, library_paths

from peers import CHANNELS, QUANTISER_ROWS, ROWS, Inputs, each_linear, hexadecimal, torch_bf16, torch_bits, write

SM80_PTX, SM90A = "arch=compute_80,code=compute_80", "arch=compute_90a,code=sm_90a"

# What each library registers: LINEAR(name, call), with out, a [rows, K], b [K, channels] (K contiguous), sa, sb and an optional bias in scope.
GLUE = r"""
#include <torch/library.h>
#define LINEAR(name, call) \
  static void name(at::Tensor out, at::Tensor a, at::Tensor b, at::Tensor sa, at::Tensor sb, std::optional<at::Tensor> bias) { call; } \
  TORCH_LIBRARY_FRAGMENT(peers, m) { m.def(#name, &name); }
"""

VLLM_2X = r"""
#include "quantization/w8a8/cutlass/scaled_mm_c2x_sm80_dispatch.cuh"
#include "cutlass_extensions/epilogue/scaled_mm_epilogues_c2x.hpp"
template <template <typename, typename> typename Epilogue>
using PeerGemm = typename vllm::sm80_config_M16<int8_t, cutlass::bfloat16_t, Epilogue>::Cutlass2xGemm;
"""
VLLM_3X = r"""
#include "quantization/w8a8/cutlass/c3x/scaled_mm_kernels.hpp"
#include "quantization/w8a8/cutlass/c3x/scaled_mm_sm90_int8_dispatch.cuh"
#include "cutlass_extensions/epilogue/scaled_mm_epilogues_c3x.hpp"
template <template <typename, typename, typename> typename Epilogue>
using PeerGemm = typename vllm::sm90_int8_config_M32_NSmall<int8_t, cutlass::bfloat16_t, Epilogue>::Cutlass3xGemm;
"""
VLLM_QUANTISERS = r"""
#include "quantization/w8a8/int8/scaled_quant.cu"
static void quantise(at::Tensor codes, at::Tensor x, at::Tensor scales) { dynamic_scaled_int8_quant(codes, x, scales, std::nullopt); }
static void quantise_static(at::Tensor codes, at::Tensor x, at::Tensor scale) { static_scaled_int8_quant(codes, x, scale, std::nullopt); }
TORCH_LIBRARY_FRAGMENT(peers, m) { m.def("vllm_dynamic", &quantise); m.def("vllm_static", &quantise_static); }
"""


def vllm_parts(_):
    call = "vllm::{caller}<PeerGemm<vllm::{api}::ScaledEpilogue{bias}>>(out, a, b, sa, sb{argument})"
    parts = {"vllm_quantisers": (VLLM_QUANTISERS, SM90A)}
    for api, text, caller, arch in (("c2x", VLLM_2X, "cutlass_gemm_caller", SM80_PTX), ("c3x", VLLM_3X, "c3x::cutlass_gemm_caller", SM90A)):
        for suffix, bias, argument in (("", "", ""), ("_bias", "Bias", ", *bias")):
            name = f"vllm_{api}{suffix}"
            parts[name] = (GLUE + text + f"LINEAR({name}, ({call.format(caller=caller, api=api, bias=bias, argument=argument)}))\n", arch)
    return parts


def sglang_parts(source):
    """int8_gemm_kernel.cu without the dispatch by shape, which would instantiate some sixty kernels."""
    text = (pathlib.Path(source) / "csrc/gemm/int8_gemm_kernel.cu").read_text()
    start_of = lambda function: text.rindex("template <", 0, text.index(function))  # noqa: E731
    sm80 = text[:start_of("void sm75_dispatch_shape(")]
    sm90 = text[:text.index("template <")] + text[start_of("void cutlass_int8_scaled_mm_sm90("):start_of("void sm90_dispatch_shape(")]
    parts = {"sglang_sm80": (GLUE + sm80 + """
LINEAR(sglang_sm80, (cutlass_int8_scaled_mm<cutlass::bfloat16_t, cutlass::arch::Sm80, cutlass::gemm::GemmShape<16, 64, 128>, cutlass::gemm::GemmShape<16, 64, 64>,
                     cutlass::gemm::GemmShape<16, 8, 32>, 6>(out, a, b, sa, sb, bias)))
""", SM80_PTX)}
    for suffix, biased in (("", "false"), ("_bias", "true")):
        name = "sglang_sm90" + suffix
        parts[name] = (GLUE + sm90 + f"""
LINEAR({name}, (cutlass_int8_scaled_mm_sm90<cutlass::bfloat16_t, Shape<_64, _64, _128>, Shape<_1, _8, _1>, cutlass::gemm::KernelTmaWarpSpecialized, {biased}>(
                  out, a, b, sa, sb, bias)))
""", SM90A)
    return parts


def build(parts, includes, standard, only):
    """Compiles the parts side by side and loads them; with `only`, compiles that one and loads nothing."""
    torch_includes = [word for path in include_paths("cuda") for word in ("-isystem", path)]
    flags = ["-O3", "-DNDEBUG", f"-std={standard}", "-Xcompiler=-fPIC", "-w", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-DENABLE_FP8",
             "-DCUTE_USE_PACKED_TUPLE=1", "-DCUTLASS_ENABLE_TENSOR_CORE_MMA=1", "-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16"]
    place = pathlib.Path(tempfile.mkdtemp())

    def compile_one(item):
        name, (text, arch) = item
        source, made = place / f"{name}.cu", place / f"{name}.o"
        source.write_text(text)
        subprocess.run([CUDA_HOME + "/bin/nvcc", *flags, f"-gencode={arch}", *(f"-I{path}" for path in includes), *torch_includes, "-c", str(source), "-o", str(made)],
                       check=True)
        return str(made)

    if only is not None:
        compile_one((only, parts[only]))
        return
    with concurrent.futures.ThreadPoolExecutor() as pool:
        objects = list(pool.map(compile_one, parts.items()))
    library = place / "peers.so"
    subprocess.run(["g++", "-shared", *objects, "-o", str(library), *(f"-L{path}" for path in library_paths("cuda")), "-lc10", "-lc10_cuda", "-ltorch", "-ltorch_cpu",
                    "-ltorch_cuda", "-lcudart"], check=True)
    torch.ops.load_library(str(library))


class OnDevice:
    def __init__(self, inputs):
        self.inputs = inputs
        gpu = lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda()  # noqa: E731
        self.codes, self.weights, self.row_scales = gpu(inputs.codes), gpu(inputs.weights), gpu(inputs.row_scales)[:, None].contiguous()
        self.x = torch_bf16(inputs.x).cuda()
        self.gpu = gpu
        self.made = {"ran_on": f"CUDA {torch.version.cuda}, PyTorch {torch.__version__}, {torch.cuda.get_device_name()}"}

    def linear(self, plain, with_bias):
        def compute(scales, bias):
            out = torch.full((ROWS, CHANNELS), float("nan"), dtype=torch.bfloat16, device="cuda")
            kernel = getattr(torch.ops.peers, plain if bias is None else with_bias)
            kernel(out, self.codes, self.weights.t(), self.row_scales, self.gpu(scales), torch_bf16(bias).cuda() if bias is not None else None)
            torch.cuda.synchronize()
            return torch_bits(out)
        return each_linear(self.inputs, compute)


def vllm(out, on):
    source = {"source": "vllm-project/vllm 0.13.0 (72506c983)", **on.made}
    for api, name in (("c2x", "vllm_cutlass_2x"), ("c3x", "vllm_cutlass_3x")):
        write(out, f"{name}.json", {**source, "peer": name, "linear": on.linear(f"vllm_{api}", f"vllm_{api}_bias")})
    codes = torch.empty_like(on.x, dtype=torch.int8)
    scales = torch.empty((QUANTISER_ROWS, 1), dtype=torch.float32, device="cuda")
    torch.ops.peers.vllm_dynamic(codes, on.x, scales)
    bits = lambda t: hexadecimal(t.cpu().numpy().view(np.uint8 if t.dtype == torch.int8 else np.uint32), 2 if t.dtype == torch.int8 else 8)  # noqa: E731
    write(out, "vllm_dynamic.json", {**source, "peer": "vllm-dynamic", "quantiser": {"codes": bits(codes), "scales": bits(scales)}})
    # The static quantiser has one given scale; here that of each row in turn, 1 where the dynamic one gave 0.
    given = torch.where(scales == 0, 1.0, scales)
    for row in range(QUANTISER_ROWS):
        torch.ops.peers.vllm_static(codes[row], on.x[row], given[row])
    write(out, "vllm_static.json", {**source, "peer": "vllm-static", "quantiser": {"codes": bits(codes), "scales": bits(given)}})


def sglang(out, on):
    source = {"source": "sgl-kernel, the copy in microsoft/llm-42 bffed9f4", **on.made}
    write(out, "sglang_premultiplied.json", {**source, "peer": "sglang-premultiplied", "linear": on.linear("sglang_sm80", "sglang_sm80")})
    write(out, "sglang_sm90.json", {**source, "peer": "sglang-sm90", "linear": on.linear("sglang_sm90", "sglang_sm90_bias")})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("vllm", "sglang"))
    parser.add_argument("out")
    parser.add_argument("--source", required=True)
    parser.add_argument("--cutlass", required=True)
    parser.add_argument("--std", default="c++17", help="PyTorch from 2.12 on needs c++20")
    parser.add_argument("--compile-only", metavar="PART", help="compile one part and stop; needs no GPU")
    a = parser.parse_args()
    cutlass = [f"{a.cutlass}/include", f"{a.cutlass}/tools/util/include"]
    parts, own, run = {"vllm": (vllm_parts, ["csrc"], vllm), "sglang": (sglang_parts, ["csrc", "include"], sglang)}[a.what]
    build(parts(a.source), [f"{a.source}/{folder}" for folder in own] + cutlass, a.std, a.compile_only)
    if a.compile_only is None:
        run(a.out, OnDevice(Inputs(a.out)))


if __name__ == "__main__":
    main()
