#!/usr/bin/env python3
"""Vectors that other stacks' own code produced, for src/ops/peers: tests/golden/foreign/*.json.

    peers.py inputs OUT                              the inputs, seeded
    peers.py telling OUT                             the same with row scales and quantiser rows at which orders of scales, and divisions, differ
    peers.py torchao OUT --source AO                 pytorch/ao at 36027d82d1ad; PyTorch on the CPU
    peers.py dequantise OUT                          PyTorch's matrix product of dequantised operands, on the CPU
    peers.py ggml OUT --source GGML                  ggml-org/ggml at d99724f2b141: compiles its C files and calls them
    peers.py triton OUT --source SGLANG              sglang 0.5.5, unpacked: its Triton kernels, its copy of vLLM's; needs a GPU
    peers_cuda.py                                    vLLM's and SGLang's CUDA C++

OUT is a folder. Numbers of a format are hexadecimal bit patterns. A linear has 8 rows, 16 channels and K = 256, so 128 outputs for each of: free and
power-of-two channel scales, without and with bias.
"""

import argparse
import ctypes
import importlib
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np

ROWS, CHANNELS, K = 8, 16, 256
QUANTISER_ROWS, QUANTISER_K = 32, 128


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(bits):
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def hexadecimal(array, digits):
    return " ".join(f"{int(v):0{digits}x}" for v in np.asarray(array).ravel())


def parse(text, dtype):
    return np.array([int(w, 16) for w in text.split()], dtype)


def write(folder, name, content):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(folder) / name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def quantiser_rows(random, telling):
    """Ordinary rows; rows of ties and near ties; the ends: zeros, tiny, largest at 127 and its neighbours."""
    x = random.standard_normal((QUANTISER_ROWS, QUANTISER_K)).astype(np.float32)
    x[:, 3] *= 20
    x[8] = (np.arange(QUANTISER_K) - 63.5) * 1.0
    x[8, 0] = 127
    x[9] = np.arange(QUANTISER_K) * 0.5 - 31.75
    x[9, 0] = -127
    x[10] = 0
    x[11] = 1e-12 * random.standard_normal(QUANTISER_K)
    x[12] = 1e-30 * random.standard_normal(QUANTISER_K)
    for row, top in ((13, 0x3F81), (14, 0x3F84), (15, 0x3F8C)):
        x[row] = widened(np.maximum(top - np.arange(QUANTISER_K), 0x3D80).astype(np.uint16))
    rows = bf16(x)
    if not telling:
        return rows
    # Where x / s, x * (1 / s) and x * (127 / a) give different codes: all of a binade of a, a row for each a that has any.
    below = np.arange(0x3B00, 0x4000, dtype=np.uint16)
    found = []
    for top in range(0x3F80, 0x4000):
        a = widened(np.uint16([top]))[0]
        s, v = np.float32(a / np.float32(127)), widened(below[below <= top])
        codes = [np.rint(v / s), np.rint(v * (np.float32(1) / s)), np.rint(v * np.float32(np.float32(127) / a))]
        apart = below[below <= top][(codes[0] != codes[2]) | (codes[1] != codes[2]) | (codes[0] != codes[1])]
        if apart.size:
            found.append((top, apart))
    for row, (top, apart) in zip(range(13, QUANTISER_ROWS), found):
        rows[row, :1 + apart.size] = np.concatenate([[top], apart])
        rows[row, 1 + apart.size:] &= 0x807F  # small beside them
        rows[row, 1 + apart.size:] |= 0x3C00
    return rows


def linear_bits(f, sa, sb, bias=None):
    """One linear's bf16 outputs under each order of the scales: weight first, activation first, both joined; and with a bias, fused and not."""
    single, wide = np.float32, np.longdouble
    weight_first, activation_first, joined = single(sb * f), single(sa * f), single(sb * sa)
    if bias is None:
        return {"weight first": bf16(sa * weight_first), "activation first": bf16(sb * activation_first), "joined": bf16(f * joined)}
    fused = lambda x, y: bf16((wide(x) * wide(y) + wide(bias)).astype(single))  # noqa: E731
    return {"weight first": fused(sa, weight_first), "weight first, unfused": bf16(sa * weight_first + bias),
            "joined": fused(f, joined), "joined, unfused": bf16(f * joined + bias)}


def telling_row_scale(f, scale, channel_scales, bias, wanted):
    """A row scale near `scale` at which many outputs of the row tell the orders in `wanted` apart: [(kind, biased, order, other order)]."""
    best, best_score = scale, (-1, -1)
    for kind, biased, *_ in wanted[:1]:
        for c in range(f.size):
            unit = float(channel_scales[kind][c]) * float(f[c])
            if unit == 0:
                continue
            value = unit * float(scale) + (float(bias[c]) if biased else 0.0)
            near = widened(bf16(np.float32([value])))[0].astype(np.float64)
            spacing = 2.0 ** (np.floor(np.log2(abs(near))) - 7)
            for step in range(-24, 24):
                goal = (near + (step + 0.5) * spacing - (float(bias[c]) if biased else 0.0)) / unit  # the output is a midpoint there
                if not 0.5 * scale < goal < 2 * scale:
                    continue
                for ulp in range(-3, 4):
                    sa = (np.float32(goal).view(np.int32) + np.int32(ulp)).view(np.float32)
                    counts = []
                    for k, b, one, other in wanted:
                        outputs = linear_bits(f, sa, channel_scales[k], bias if b else None)
                        counts.append(int(np.sum(outputs[one] != outputs[other])))
                    score = (int(counts[0] > 0), sum(min(n, 3) for n in counts))
                    if score > best_score:
                        best, best_score = sa, score
    return best


# What a row is there to tell apart first, in turn.
TOLD_APART = [("free", False, "weight first", "activation first"), ("free", False, "weight first", "joined"), ("free", False, "activation first", "joined"),
              ("free", True, "weight first", "weight first, unfused"), ("free", True, "joined", "joined, unfused"), ("free", True, "weight first", "joined"),
              ("po2", True, "weight first", "weight first, unfused"), ("po2", True, "joined", "joined, unfused")]


def make_inputs(out, telling):
    random = np.random.Generator(np.random.PCG64(11))
    x = random.standard_normal((ROWS, K)) * random.lognormal(0, 1, K)
    codes = np.rint(x * (127 / np.abs(x).max(axis=1, keepdims=True))).astype(np.int8)
    w = random.standard_t(8, (CHANNELS, K))
    weights = np.rint(w * (127 / np.abs(w).max(axis=1, keepdims=True))).astype(np.int8)
    row_scales = (np.abs(x).max(axis=1) / 127).astype(np.float32)
    free = (np.abs(w).max(axis=1) / 127 * 0.03).astype(np.float32)
    po2 = np.exp2(np.ceil(np.log2(free))).astype(np.float32)
    bias = bf16(random.standard_normal(CHANNELS) * 0.5)
    # Orders differ in one output of some thousand: the row scales are moved to where they do.
    sums = (codes.astype(np.int64) @ weights.astype(np.int64).T).astype(np.float32)
    for row in range(ROWS if telling else 0):
        wanted = TOLD_APART[row % len(TOLD_APART):] + TOLD_APART[:row % len(TOLD_APART)]
        row_scales[row] = telling_row_scale(sums[row], row_scales[row], {"free": free, "po2": po2}, widened(bias), wanted)
    bits = lambda a: hexadecimal(np.asarray(a, np.float32).view(np.uint32), 8)  # noqa: E731
    write(out, "inputs.json", {"rows": ROWS, "channels": CHANNELS, "k": K, "codes": hexadecimal(codes.view(np.uint8), 2), "weights": hexadecimal(weights.view(np.uint8), 2),
                               "row_scales": bits(row_scales), "free": bits(free), "po2": bits(po2), "bias": hexadecimal(bias, 4),
                               "quantiser_rows": QUANTISER_ROWS, "quantiser_k": QUANTISER_K, "x": hexadecimal(quantiser_rows(random, telling), 4)})


class Inputs:
    def __init__(self, folder):
        j = json.loads((pathlib.Path(folder) / "inputs.json").read_text())
        self.codes = parse(j["codes"], np.uint8).view(np.int8).reshape(ROWS, K)
        self.weights = parse(j["weights"], np.uint8).view(np.int8).reshape(CHANNELS, K)
        self.row_scales = parse(j["row_scales"], np.uint32).view(np.float32)
        self.scales = {kind: parse(j[kind], np.uint32).view(np.float32) for kind in ("free", "po2")}
        self.bias = parse(j["bias"], np.uint16)
        self.x = parse(j["x"], np.uint16).reshape(QUANTISER_ROWS, QUANTISER_K)


def each_linear(inputs, compute):
    """{"free": hex, "free, bias": ...}: compute(scales, bias bits or None) gives bf16 bits [rows, channels]."""
    return {kind + (", bias" if biased else ""): hexadecimal(compute(inputs.scales[kind], inputs.bias if biased else None), 4)
            for kind in ("free", "po2") for biased in (False, True)}


def quantised(codes, scales):
    return {"codes": hexadecimal(np.asarray(codes, np.int8).view(np.uint8), 2), "scales": hexadecimal(np.asarray(scales, np.float32).view(np.uint32), 8)}


def torch_bits(t):
    import torch
    return t.contiguous().view(torch.int16).cpu().numpy().view(np.uint16)


def torch_bf16(bits):
    import torch
    return torch.from_numpy(np.ascontiguousarray(bits).view(np.int16)).view(torch.bfloat16)


def torchao(out, source):
    """Int8Tensor's own linear; the activation's codes and scales are put in where its quantiser would give them."""
    sys.path.insert(0, source)
    import torch
    module = importlib.import_module("torchao.quantization.quantize_.workflows.int8.int8_tensor")
    inputs = Inputs(out)
    activation = types.SimpleNamespace(qdata=torch.from_numpy(inputs.codes.copy()), scale=torch.from_numpy(inputs.row_scales.copy())[:, None], zero_point=None)
    module._choose_quant_func_and_quantize_tensor = lambda *a, **k: activation
    from torchao.quantization.quant_primitives import MappingType

    def compute(scales, bias):
        weight = module.Int8Tensor(torch.from_numpy(inputs.weights.copy()), torch.from_numpy(scales.copy())[:, None], [1, K], torch.bfloat16,
                                   act_quant_kwargs=types.SimpleNamespace(mapping_type=MappingType.SYMMETRIC))
        x = torch.zeros((ROWS, K), dtype=torch.bfloat16)
        return torch_bits(torch.nn.functional.linear(x, weight, torch_bf16(bias) if bias is not None else None))

    write(out, "torchao.json", {"peer": "torchao", "source": "pytorch/ao 36027d82d1ad9949597ea16002ff4940374b1b94", "ran_on": f"PyTorch {torch.__version__}, CPU",
                                "linear": each_linear(inputs, compute)})


def dequantise(out, _):
    """Both operands times their scales in fp32, then PyTorch's matrix product, one rounding to bf16, the bias in bf16."""
    import torch
    inputs = Inputs(out)
    x = torch.from_numpy(inputs.codes.astype(np.float32)) * torch.from_numpy(inputs.row_scales)[:, None]

    def compute(scales, bias):
        w = torch.from_numpy(inputs.weights.astype(np.float32)) * torch.from_numpy(scales)[:, None]
        y = (x @ w.t().contiguous()).to(torch.bfloat16)
        return torch_bits(y + torch_bf16(bias) if bias is not None else y)

    write(out, "dequantise.json", {"peer": "dequantise-first", "source": f"torch.matmul of PyTorch {torch.__version__}", "ran_on": f"PyTorch {torch.__version__}, CPU (MKL)",
                                   "linear": each_linear(inputs, compute)})


GGML_CALLS = r"""
#include "ggml-quants.h"
#include "quants.h"
float ggml_table_f32_f16[1 << 16];
void ggml_vec_dot_q8_0_q8_0_generic(int n, float * s, size_t bs, const void * vx, size_t bx, const void * vy, size_t by, int nrc);
float dot_generic(int k, const void * x, const void * y) { float s; ggml_vec_dot_q8_0_q8_0_generic(k, &s, 0, x, 0, y, 0, 1); return s; }
void quantize(const float * x, void * y, long k) { quantize_row_q8_0_ref(x, (block_q8_0 *) y, k); }
"""


def ggml(out, source):
    """The generic dot product and the reference quantiser, compiled as ggml's CMake does by default on x86-64 (-O3 -march=native)."""
    inputs = Inputs(out)
    root = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as place:
        calls = pathlib.Path(place) / "calls.c"
        calls.write_text(GGML_CALLS)
        library = pathlib.Path(place) / "peer.so"
        flags = ["-O3", "-march=native", "-fPIC", "-shared", "-D_GNU_SOURCE", "-w", f"-I{root}/include", f"-I{root}/src", f"-I{root}/src/ggml-cpu"]
        subprocess.run(["gcc", *flags, str(calls), str(root / "src/ggml-cpu/quants.c"), str(root / "src/ggml-quants.c"), "-o", str(library), "-lm", "-Wl,-z,lazy"], check=True)
        peer = ctypes.CDLL(str(library), mode=1)
        peer.dot_generic.restype = ctypes.c_float
        table = (ctypes.c_float * 65536).in_dll(peer, "ggml_table_f32_f16")  # ggml_cpu_init fills it
        table[:] = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32).tolist()

        def blocks(codes, scale):
            d = np.float16(scale).tobytes()
            return b"".join(d + codes[i:i + 32].tobytes() for i in range(0, K, 32))

        def compute(scales, bias):
            y = np.array([[peer.dot_generic(K, blocks(inputs.codes[r], inputs.row_scales[r]), blocks(inputs.weights[c], scales[c])) for c in range(CHANNELS)] for r in range(ROWS)], np.float32)
            return bf16(y + widened(bias)[None, :] if bias is not None else y)

        codes, scales = [], []
        for row in widened(inputs.x).reshape(-1, 32):
            block = ctypes.create_string_buffer(34)
            peer.quantize(np.ascontiguousarray(row).ctypes.data_as(ctypes.c_void_p), block, ctypes.c_long(32))
            scales.append(np.frombuffer(block.raw[:2], np.float16)[0])
            codes.append(np.frombuffer(block.raw[2:], np.int8))
        write(out, "ggml.json", {"peer": "llama.cpp-q8_0", "source": "ggml-org/ggml d99724f2b141fed9e1a9f402213506c081433465", "ran_on": "gcc -O3 -march=native, x86-64",
                                 "block": 32, "linear": each_linear(inputs, compute), "quantiser": quantised(np.concatenate(codes), np.array(scales, np.float32))})


def load_sglang(root):
    """The two files of kernels, with stand-ins for what else they import."""
    def stand_in(name, **content):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        module.__path__ = []
        sys.modules[name] = module

    for name in ("sglang", "sglang.srt", "sglang.srt.layers", "sglang.srt.layers.quantization"):
        stand_in(name)
    stand_in("sgl_kernel", sgl_per_token_group_quant_8bit=None, sgl_per_token_group_quant_int8=None)
    stand_in("sglang.srt.utils", get_device_name=lambda: "none", is_cuda=lambda: True)
    folder = pathlib.Path(root) / "sglang/srt/layers/quantization"
    spec = importlib.util.spec_from_file_location("sglang_int8_kernel", folder / "int8_kernel.py")
    int8 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(int8)
    # scaled_mm_kernel and its launcher stand in a large file that imports much else: take these two functions.
    text = (folder / "fp8_kernel.py").read_text()
    begin, end = text.index("@triton.jit\ndef scaled_mm_kernel("), text.index("def triton_scaled_mm(")
    end = text.find("\n\n\n", end)
    path = pathlib.Path(tempfile.mkdtemp()) / "scaled_mm.py"
    helper = "".join(text[i:text.find("\n\n\n", i)] + "\n\n\n" for i in [text.find("def is_weak_contiguous(")] if i >= 0)
    path.write_text("from typing import Optional\nimport torch\nimport triton\nimport triton.language as tl\n\n\n" + helper + text[begin:end if end > 0 else None] + "\n")
    spec = importlib.util.spec_from_file_location("scaled_mm", path)
    mm = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mm)
    return int8, mm


def triton(out, source):
    import torch
    import triton as installed
    int8, mm = load_sglang(source)
    inputs = Inputs(out)
    device = "cuda" if torch.cuda.is_available() else "cpu"  # the interpreter: it does not fuse or approximate as a GPU's code does
    gpu = lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(device)  # noqa: E731
    name = torch.cuda.get_device_name() if device == "cuda" else "Triton's interpreter"
    made = {"ran_on": f"Triton {installed.__version__}, PyTorch {torch.__version__}, {name}"}
    codes, weights, sa = gpu(inputs.codes), gpu(inputs.weights), gpu(inputs.row_scales)[:, None]

    def vllm(scales, bias):
        return torch_bits(mm.triton_scaled_mm(codes, weights.t(), sa, gpu(scales)[:, None], torch.bfloat16, torch_bf16(bias).to(device) if bias is not None else None))

    write(out, "vllm_triton.json", {**made, "peer": "vllm-triton", "source": "sglang 0.5.5, its copy of vLLM's triton_scaled_mm.py", "linear": each_linear(inputs, vllm)})

    def block(scales, bias):
        # One scale per token and group of 128 inputs, one per channel and group: here those of the row and of the channel.
        a = sa.expand(ROWS, K // 128).contiguous()
        b = gpu(scales)[:, None].expand(CHANNELS, K // 128).contiguous()
        # group_n = 1: a channel of its own; the launcher's tile of that width is below what tl.dot takes, so the kernel is launched as it launches it, but wider.
        y = torch.empty((ROWS, CHANNELS), dtype=torch.bfloat16, device=device)
        int8._w8a8_block_int8_matmul[(1,)](codes, weights, y, a, b, ROWS, CHANNELS, K, 1, 128, codes.stride(0), 1, 1, weights.stride(0), y.stride(0), 1, a.stride(0), 1,
                                           1, b.stride(0), BLOCK_SIZE_M=64, BLOCK_SIZE_N=16, BLOCK_SIZE_K=128, GROUP_SIZE_M=32, num_warps=4, num_stages=3)
        return torch_bits(y if bias is None else y + torch_bf16(bias).to(device))

    x = torch_bf16(inputs.x).to(device)
    token = int8.per_token_quant_int8(x)
    group = int8.per_token_group_quant_int8(x, 128)
    out_of = lambda pair: quantised(pair[0].cpu().numpy(), pair[1].float().cpu().numpy().ravel())  # noqa: E731
    write(out, "sglang_block.json", {**made, "peer": "sglang-block-int8", "source": "sglang 0.5.5", "linear": each_linear(inputs, block)})
    write(out, "sglang_token.json", {**made, "peer": "sglang-per-token", "source": "sglang 0.5.5", "quantiser": out_of(token)})
    write(out, "sglang_group.json", {**made, "peer": "sglang-group", "source": "sglang 0.5.5", "quantiser": out_of(group)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("inputs", "telling", "torchao", "dequantise", "ggml", "triton"))
    parser.add_argument("out")
    parser.add_argument("--source")
    arguments = parser.parse_args()
    if arguments.what in ("inputs", "telling"):
        make_inputs(arguments.out, arguments.what == "telling")
    else:
        {"torchao": torchao, "dequantise": dequantise, "ggml": ggml, "triton": triton}[arguments.what](arguments.out, arguments.source)


if __name__ == "__main__":
    main()
