#!/usr/bin/env python3
"""A PyTorch extension under test, in a pipe:

    zeroulp cases emit linear_s8 --kind all | examples/pytorch/check.py | zeroulp cases check --allow-declined
"""

import pathlib
import sys

import numpy as np
import torch
from torch.utils.cpp_extension import load

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "numpy"))
import zeroulp_cases  # noqa: E402

# What the compiler may not do is part of the arithmetic: no contraction, no fast mathematics.
extension = load("zeroulp_example_linear_s8", [str(HERE / "linear_s8.cpp")], extra_cflags=["-O2", "-ffp-contract=off"])

for case in zeroulp_cases.answering(sys.stdin.buffer, sys.stdout.buffer):
    if case.attributes["width"] != 8 or case.attributes["output"] != "bf16":
        case.decline()
        continue
    t = {name: torch.from_numpy(array.copy()) for name, array in case.inputs.items()}
    y = extension.linear_s8(t["codes"].to(torch.int8), t["row_scales"], t["weights"], t["channel_scales"], t.get("bias"))
    bits = y.view(torch.int16).numpy().view(np.uint16)
    # PyTorch keeps a NaN's payload; the contract has one NaN.
    case.answer(y=np.where((bits & 0x7FFF) > 0x7F80, np.uint16(0x7FC0), bits))
