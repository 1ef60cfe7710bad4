#!/usr/bin/env python3
"""Checkpoints of the compressed-tensors package: makes a small one, and opens one of ours with it.

    compressed_tensors_model.py make MODEL OUT      a Hugging Face folder as W8A8 int-quantized, channel scales, dynamic token activations
    compressed_tensors_model.py open FOLDER         loads it as transformers does, and compares every decompressed weight with code * scale

Made with compressed-tensors 0.20.1, torch 2.15.0, transformers 5.24.0. tests/golden/compressed_tensors is `make tests/golden/tiny/qwen3`.
"""

import argparse
import json
import pathlib
import shutil
import sys

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors import safe_open
from transformers import AutoModelForCausalLM


def scheme():
    arguments = {"num_bits": 8, "type": "int", "symmetric": True}
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments, strategy="channel"),
                              input_activations=QuantizationArgs(**arguments, strategy="token", dynamic=True))


def make(source, out):
    model = AutoModelForCausalLM.from_pretrained(source, torch_dtype=torch.bfloat16)
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": scheme()}, ignore=["lm_head"]))
    for module in model.modules():
        if getattr(module, "quantization_scheme", None) is None:
            continue
        low, high = module.weight.amin(dim=1, keepdim=True), module.weight.amax(dim=1, keepdim=True)
        scale, _ = calculate_qparams(low, high, module.quantization_scheme.weights)
        module.weight_scale.data.copy_(scale)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(out)
    compressor.update_config(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(source) / name, out)


def open_ours(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    quantised = 0
    with safe_open(pathlib.Path(folder) / "model.safetensors", "pt") as file:
        names = set(file.keys())
        modules = dict(model.named_modules())
        model(torch.arange(8)[None, :])  # decompresses on the way
        for name in sorted(names):
            if not name.endswith(".weight_scale"):
                continue
            module = name.removesuffix(".weight_scale")
            codes, scale = file.get_tensor(module + ".weight"), file.get_tensor(name)
            weight = modules[module].weight.detach()
            if not torch.equal(weight, (codes.float() * scale.float()).to(weight.dtype)):
                sys.exit(f"{module}: the decompressed weight is not code * scale")
            quantised += 1
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    print(f"{folder}: opened as {type(model).__name__}; {quantised} linears decompress to code * scale; format {config['quantization_config']['format']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("make", "open"))
    parser.add_argument("folder")
    parser.add_argument("out", nargs="?")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.out) if arguments.what == "make" else open_ours(arguments.folder)


if __name__ == "__main__":
    main()
