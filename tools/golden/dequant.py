#!/usr/bin/env python3
"""Goldens of GGUF dequantisation: single blocks of every type, and hashes of every tensor of a real file.

    python tools/golden/dequant.py tests/golden                        # dequant.json
    python tools/golden/dequant.py tests/golden NAME model.gguf        # tensors-NAME.json

The values are those of the `gguf` package's numpy code.
"""

import argparse
import os

import gguf
import numpy as np

from golden_common import GgufModel, bf16_bits, provenance, sha256, sha256_file, write_json

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the fp16 fields of a block.
HALF_FIELDS = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2],
               "Q6_K": [208]}
# fp16 patterns: the largest, the smallest subnormal, the largest subnormal, the smallest normal, signs, zeros.
HALVES = [0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x03FF, 0x0400, 0x0000, 0x8000, 0x3C00, 0xBC01]
NONFINITE_HALVES = [0x7C00, 0xFC00, 0x7E00, 0xFE01]
SCALARS = {
    "F32": np.array([0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0x3F808000, 0x3F818000,
                     0x3F808001, 0x3F807FFF, 0x7F7F8000, 0x33D6BF95], dtype="<u4"),
    "F16": np.array(HALVES + [0x3555, 0xD640, 0x0002, 0x83FE], dtype="<u2"),
    "BF16": np.array([0, 0x8000, 1, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x3F80, 0x3EAB, 0xC2F7], dtype="<u2"),
}
NONFINITE_SCALARS = {
    "F32": np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001], dtype="<u4"),
    "F16": np.array(NONFINITE_HALVES + [0x7C01], dtype="<u2"),
    "BF16": np.array([0x7F80, 0xFF80, 0x7FC0, 0x7F81], dtype="<u2"),
}


def golden(name, label, raw):
    qtype = gguf.GGMLQuantizationType[name]
    with np.errstate(all="ignore"):
        values = np.asarray(gguf.dequantize(np.frombuffer(raw, dtype=np.uint8).copy(), qtype), dtype=np.float32)
    bits = ["nan" if np.isnan(v) else f"{int(v.view(np.uint32)):08x}" for v in values]
    finite = bool(np.all(np.isfinite(values)))
    return {"type": name, "case": label, "finite": finite, "raw": raw.hex(), "values": " ".join(bits)}


def block_goldens(name, rng):
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]

    def block(body, halves):
        out = np.array(body, dtype=np.uint8)
        for at, half in zip(HALF_FIELDS[name], halves):
            out[at:at + 2] = np.frombuffer(np.uint16(half).tobytes(), dtype=np.uint8)
        return out.tobytes()

    random_half = lambda: int(np.float16(rng.standard_normal() * 0.02 + 0.03).view(np.uint16))
    random_body = lambda: rng.integers(0, 256, size)
    for i in range(4):
        yield golden(name, f"random {i}", block(random_body(), [random_half(), random_half()]))
    ramp = (np.arange(size) * 37 + 11) & 255
    for label, body in [("all ones", np.full(size, 255)), ("all zeros", np.zeros(size)), ("ramp", ramp),
                        ("low nibbles", np.full(size, 0x0F)), ("high nibbles", np.full(size, 0xF0)),
                        ("sign bits", np.full(size, 0x80))]:
        yield golden(name, label, block(body, [0x2E66, 0x2A01]))
    for i, half in enumerate(HALVES):
        yield golden(name, f"extreme half {half:04x}", block(random_body(), [half, HALVES[(i + 3) % len(HALVES)]]))
    for half in NONFINITE_HALVES:
        yield golden(name, f"non-finite half {half:04x}", block(ramp, [half, 0x3C00]))
    if len(HALF_FIELDS[name]) == 2:
        yield golden(name, "non-finite second half", block(ramp, [0x3C00, 0x7C00]))


def write_blocks(folder):
    rng = np.random.default_rng(20240607)
    rows = []
    for name in TYPES:
        if name in SCALARS:
            rows.append(golden(name, "scalars", SCALARS[name].tobytes()))
            rows.append(golden(name, "non-finite scalars", NONFINITE_SCALARS[name].tobytes()))
        else:
            rows.extend(block_goldens(name, rng))
    sizes = {n: list(map(int, gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[n]])) for n in TYPES}
    write_json(os.path.join(folder, "dequant.json"), {
        "provenance": provenance("gguf", "numpy"),
        "type_ids": {n: int(gguf.GGMLQuantizationType[n]) for n in TYPES},
        "block_elements_and_bytes": sizes,
        "blocks": rows})


def write_tensors(folder, name, path):
    m = GgufModel(path)
    rows = []
    for t in m.reader.tensors:
        rows.append({"gguf": t.name, "type": t.tensor_type.name, "shape": [int(d) for d in reversed(t.shape)],
                     "f32_sha256": sha256(m.f32(t).astype("<f4", copy=False).tobytes()), "hf": m.hf_name(t.name),
                     "bf16_sha256": sha256(bf16_bits(m.hf_values(t)).astype("<u2", copy=False).tobytes())})
    write_json(os.path.join(folder, f"tensors-{name}.json"), {
        "provenance": provenance("gguf", "numpy"),
        "file_sha256": sha256_file(path), "architecture": m.arch, "tied": m.tied(),
        "tensors": rows})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("name", nargs="?")
    parser.add_argument("gguf", nargs="?")
    args = parser.parse_args()
    if args.gguf:
        write_tensors(args.folder, args.name, args.gguf)
    else:
        write_blocks(args.folder)


if __name__ == "__main__":
    main()
