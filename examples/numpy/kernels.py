#!/usr/bin/env python3
"""Kernels of one's own in NumPy, in a pipe:

    zeroulp cases emit quant_rows --kind all | examples/numpy/kernels.py | zeroulp cases check
"""

import sys

import numpy as np

import zeroulp_cases

NAN = np.uint32(0x7FC00000).view(np.float32)
RANGES = {"linear": (-72, 96), "linear-po2": (-72, 96), "attention": (-40, 48)}  # exponents of the least and the largest magnitude of a row


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bf16(x):
    """Round to nearest, ties to even; every NaN is 0x7FC0."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def residual(case):
    case.answer(x=bf16(widened(case.inputs["x"]) + widened(case.inputs["y"])))


def quant_rows(case):
    x, top = case.inputs["x"], np.float32(127 if case.attributes["width"] == 8 else 16256)
    low, high = ((e + 127) << 7 for e in RANGES[case.attributes["range"]])
    largest = case.inputs.get("absmax", (x & 0x7FFF).max(axis=1))
    fault, tiny = largest > high, largest < low
    a = widened(np.where(fault | tiny, np.uint16(0x3F80), largest))
    scale, multiplier = a / top, top / a
    if case.attributes["range"] == "linear-po2":  # the least power of two that clips nothing
        power = np.ldexp(np.float32(1), np.frexp(a / top)[1] - 1)
        scale = np.where(power * top < a, 2 * power, power)
        multiplier = 1 / scale
    codes = np.rint(widened(x) * multiplier[:, None])
    case.answer(codes=np.where((fault | tiny)[:, None], 0, codes).astype(np.int16),
                scales=np.where(fault, NAN, np.where(tiny, np.float32(1), scale)).astype(np.float32),
                faults=fault.astype(np.uint8))


def linear_s8(case):
    if "bias" in case.inputs:  # NumPy has no fma
        return case.decline()
    acc = case.inputs["codes"].astype(np.int64) @ case.inputs["weights"].astype(np.int64).T
    if case.attributes["output"] == "sums":
        return case.answer(y=acc)
    y = case.inputs["row_scales"][:, None] * (case.inputs["channel_scales"][None, :] * acc.astype(np.float32))
    case.answer(y=bf16(y) if case.attributes["output"] == "bf16" else np.where(np.isnan(y), NAN, y))


def argmax(case):
    logits = case.inputs["logits"]
    finite = np.isfinite(logits).all()
    case.answer(index=np.array([np.flatnonzero(logits == logits.max())[0] if finite else -1], np.int64))


KERNELS = {k.__name__: k for k in (residual, quant_rows, linear_s8, argmax)}

if __name__ == "__main__":
    np.seterr(all="ignore")
    for one in zeroulp_cases.answering(sys.stdin.buffer, sys.stdout.buffer):
        KERNELS[one.op](one)
