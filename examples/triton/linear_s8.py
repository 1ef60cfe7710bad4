#!/usr/bin/env python3
"""A Triton kernel under test, in a pipe; needs a GPU:

    zeroulp cases emit linear_s8 --kind all | examples/triton/linear_s8.py | zeroulp cases check --allow-declined

What makes it keep the contract: the products of scales are single multiplications in the mandated order, the bias joins by one explicit fma, and
nothing else may be fused (enable_fp_fusion=False).
"""

import pathlib
import sys

import numpy as np
import torch
import triton
import triton.language as tl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "numpy"))
import zeroulp_cases  # noqa: E402


@triton.jit
def linear_s8(codes, sa, weights, sb, bias, y, rows, n, k, BIASED: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.int32)
    for begin in range(0, k, K):
        i = begin + tl.arange(0, K)
        q = tl.load(codes + r[:, None] * k + i[None, :], mask=(r[:, None] < rows) & (i[None, :] < k), other=0)
        w = tl.load(weights + c[None, :] * k + i[:, None], mask=(c[None, :] < n) & (i[:, None] < k), other=0)
        acc = tl.dot(q, w, acc, out_dtype=tl.int32)
    row_scale = tl.load(sa + r, mask=r < rows, other=0.0)
    scaled = tl.load(sb + c, mask=c < n, other=0.0)[None, :] * acc.to(tl.float32)
    if BIASED:
        row_scales = tl.broadcast_to(row_scale[:, None], (M, N))
        value = tl.fma(row_scales, scaled, tl.broadcast_to(tl.load(bias + c, mask=c < n, other=0.0)[None, :], (M, N)))
    else:
        value = row_scale[:, None] * scaled
    tl.store(y + r[:, None] * n + c[None, :], value.to(tl.bfloat16), mask=(r[:, None] < rows) & (c[None, :] < n))


def run(case):
    if case.attributes["width"] != 8 or case.attributes["output"] != "bf16":
        return case.decline()
    t = {name: torch.from_numpy(array.copy()).cuda() for name, array in case.inputs.items()}
    codes = t["codes"].to(torch.int8)
    (rows, k), n = codes.shape, t["weights"].shape[0]
    y = torch.empty((rows, n), dtype=torch.bfloat16, device="cuda")
    grid = (triton.cdiv(rows, 32), triton.cdiv(n, 32))
    linear_s8[grid](codes, t["row_scales"], t["weights"], t["channel_scales"], t.get("bias", t["channel_scales"]), y, rows, n, k, "bias" in t, 32, 32, 64,
                    enable_fp_fusion=False)
    bits = y.view(torch.int16).cpu().numpy().view(np.uint16)
    case.answer(y=np.where((bits & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), bits))  # the contract has one NaN


if __name__ == "__main__":
    for one in zeroulp_cases.answering(sys.stdin.buffer, sys.stdout.buffer):
        run(one)
