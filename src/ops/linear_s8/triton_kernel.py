#!/usr/bin/env python3
"""linear_s8 in Triton, compiled ahead of time: triton_kernel.py FOLDER writes linear_s8_triton.txt and one cubin per line of it.

Needs the Triton of PINNED below, and no GPU. The program loads the cubins through the driver (cuda_triton.cu); no Python runs then.

Two epilogues:
  contract  docs/contract.md, section 2: the weight's scale first, bias by one fma, one rounding to bf16
  vllm      the order of vLLM's triton_scaled_mm.py: the activation's scale first, rounded to bf16, then the bias added in bf16. Equal to the
            contract only with power-of-two weight scales and no bias; there for the experiment on scale orders (src/verify)
"""

import hashlib
import pathlib
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

PINNED = "3.6.0"
ROWS, CHANNELS, DEPTH, GROUP, WARPS, STAGES = 128, 128, 128, 8, 8, 4
# planes, output, epilogue
ENTRIES = [(p, out, "contract") for p in (1, 2) for out in ("bf16", "f32", "sums")] + [(1, "bf16", "vllm"), (1, "f32", "vllm")]


@triton.jit
def bf16_bits(y):
    """num::float_to_bf16: to nearest even, every NaN 0x7FC0 (the hardware's conversion gives 0x7FFF)."""
    bits = y.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return tl.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, rounded).to(tl.uint16)


@triton.jit
def bf16_value(bits):
    return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def linear_s8_triton(codes, weights, row_scales, channel_scales, bias, y, rows, n, k, weights_stride, y_stride, has_bias,
                     planes: tl.constexpr, output: tl.constexpr, order: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr,
                     block_k: tl.constexpr, group: tl.constexpr):
    """codes [planes][rows][k] and weights [n] rows of weights_stride, int8; k, weights_stride multiples of 16; y_stride in elements."""
    tile = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(rows, block_m), tl.cdiv(n, block_n)
    first_m = tile // (group * tiles_n) * group
    group_m = min(group, tiles_m - first_m)
    tile_m, tile_n = first_m + tile % (group * tiles_n) % group_m, tile % (group * tiles_n) // group_m
    m = tile_m * block_m + tl.arange(0, block_m)
    c = tile_n * block_n + tl.arange(0, block_n)
    depth = tl.arange(0, block_k)
    # Rows and channels behind the end repeat the last one; their results are not stored.
    a_at = codes + tl.minimum(m, rows - 1).to(tl.int64)[:, None] * k + depth[None, :]
    b_at = weights + tl.minimum(c, n - 1).to(tl.int64)[None, :] * weights_stride + depth[:, None]
    second = rows.to(tl.int64) * k
    hi = tl.zeros((block_m, block_n), tl.int32)
    lo = tl.zeros((block_m, block_n), tl.int32)
    for step in range(0, tl.cdiv(k, block_k)):
        there = depth < k - step * block_k
        b = tl.load(b_at, mask=there[:, None], other=0)
        a = tl.load(a_at, mask=there[None, :], other=0)
        hi = tl.dot(a, b, acc=hi, out_dtype=tl.int32)
        if planes == 2:
            a = tl.load(a_at + second, mask=there[None, :], other=0)
            lo = tl.dot(a, b, acc=lo, out_dtype=tl.int32)
        a_at += block_k
        b_at += block_k
    if planes == 2:
        sums = hi.to(tl.int64) * 128 + lo.to(tl.int64)
    else:
        sums = hi
    at = y + m.to(tl.int64)[:, None] * y_stride + c[None, :]
    inside = (m < rows)[:, None] & (c < n)[None, :]
    if output == "sums":
        tl.store(at, sums.to(tl.int64), mask=inside)
    else:
        sa = tl.load(row_scales + m, mask=m < rows, other=0)[:, None]
        sb = tl.load(channel_scales + c, mask=c < n, other=0)[None, :]
        b32 = tl.load(bias + c, mask=(c < n) & (has_bias != 0), other=0)[None, :]
        f = sums.to(tl.float32)
        if order == "contract":
            scaled = sb * f
            if has_bias != 0:
                value = tl.fma(tl.broadcast_to(sa, scaled.shape), scaled, tl.broadcast_to(b32, scaled.shape))
            else:
                value = sa * scaled
        else:
            value = sb * (sa * f)
            if output == "bf16":
                if has_bias != 0:
                    value = bf16_value(bf16_bits(value)) + bf16_value(bf16_bits(b32))
        if output == "bf16":
            tl.store(at, bf16_bits(value), mask=inside)
        else:
            tl.store(at, tl.where(value == value, value, float("nan")), mask=inside)  # every NaN as 0x7FC00000


def compile_entry(planes, output, order):
    pointer = {"bf16": "*u16", "f32": "*fp32", "sums": "*i64"}[output]
    signature = {"codes": "*i8", "weights": "*i8", "row_scales": "*fp32", "channel_scales": "*fp32", "bias": "*fp32", "y": pointer, "rows": "i32",
                 "n": "i32", "k": "i32", "weights_stride": "i64", "y_stride": "i64", "has_bias": "i32"}
    constants = {"planes": planes, "output": output, "order": order, "block_m": ROWS, "block_n": CHANNELS, "block_k": DEPTH, "group": GROUP}
    names = list(signature)
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in ("codes", "weights", "k", "weights_stride")}
    signature.update({name: "constexpr" for name in constants})
    source = ASTSource(linear_s8_triton, signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": WARPS, "num_stages": 3 if planes == 2 else STAGES, "enable_fp_fusion": False}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def main(folder):
    if triton.__version__ != PINNED:
        sys.exit(f"triton_kernel.py: Triton {PINNED} is pinned and {triton.__version__} is installed; pip install triton=={PINNED}")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file sha256 kernel planes output order threads shared_bytes tile_rows tile_channels"]
    for planes, output, order in ENTRIES:
        compiled = compile_entry(planes, output, order)
        metadata, cubin = compiled.metadata, compiled.asm["cubin"]
        if metadata.global_scratch_size or metadata.profile_scratch_size:
            sys.exit("triton_kernel.py: the compiled kernel wants scratch memory, which the loader does not give")
        name = f"linear_s8_triton_{planes}_{output}_{order}.cubin"
        (folder / name).write_bytes(cubin)
        lines.append(f"{name} {hashlib.sha256(cubin).hexdigest()} {metadata.name} {planes} {output} {order} {32 * metadata.num_warps} "
                     f"{metadata.shared} {ROWS} {CHANNELS}")
    (folder / "linear_s8_triton.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: triton_kernel.py FOLDER")
    main(sys.argv[1])
