#!/usr/bin/env python3
"""RoPE frequencies as transformers computes them on the CPU, for configurations as their config.json spells them.

    python tools/golden/rope.py tests/golden

The bits depend on PyTorch's vector width where head_dim / 2 is no multiple of 32: run on a machine with AVX-512.
"""

import copy
import os
import sys

import numpy as np
import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from golden_common import provenance, write_json

EMBEDDING = {"llama": LlamaRotaryEmbedding, "qwen2": Qwen2RotaryEmbedding, "qwen3": Qwen3RotaryEmbedding}
LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}


def base(model_type, head_dim, **keys):
    # The embedding looks at nothing but head_dim, positions and rope keys.
    return {"model_type": model_type, "hidden_size": head_dim * 4, "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": head_dim, "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "vocab_size": 64, "max_position_embeddings": 32768, **keys}


CASES = {
    "SmolLM2-135M": base("llama", 64, rope_theta=100000),
    "SmolLM2-1.7B": base("llama", 64, rope_theta=130000),
    "Llama-2 without theta": base("llama", 128),
    "Llama-3": base("llama", 128, rope_theta=500000.0),
    "Llama-3.1-8B": base("llama", 128, rope_theta=500000.0, rope_scaling=LLAMA3, max_position_embeddings=131072),
    "Llama-3.2-1B": base("llama", 64, rope_theta=500000.0, rope_scaling={**LLAMA3, "factor": 32.0},
                         max_position_embeddings=131072),
    "Llama-3.2-1B, v5 spelling": base("llama", 64, max_position_embeddings=131072,
                                      rope_parameters={**LLAMA3, "factor": 32.0, "rope_theta": 500000.0}),
    "Qwen2.5-0.5B": base("qwen2", 64, rope_theta=1000000.0),
    "Qwen2.5-7B": base("qwen2", 128, rope_theta=1000000.0),
    "Qwen2.5-7B, yarn": base("qwen2", 128, rope_theta=1000000.0, rope_scaling=YARN),
    "Qwen3-8B": base("qwen3", 128, rope_theta=1000000),
    "Qwen3-8B, v5 spelling": base("qwen3", 128, rope_parameters={"rope_type": "default", "rope_theta": 1000000}),
    "Qwen3-8B, yarn": base("qwen3", 128, rope_theta=1000000, rope_scaling={**YARN, "rope_type": "yarn"},
                           max_position_embeddings=131072),
    "Qwen3 2507": base("qwen3", 128, rope_theta=5000000),
    "linear": base("llama", 128, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 2.5}),
    "yarn, every option": base("llama", 64, rope_theta=150000.0, rope_scaling={
        "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "beta_fast": 24, "beta_slow": 2,
        "mscale": 0.707, "mscale_all_dim": 1.2, "truncate": False}),
    "yarn, attention factor given": base("llama", 64, rope_theta=10000.0, rope_scaling={
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "attention_factor": 1.25}),
    **{f"head size {d}": base("llama", d, rope_theta=theta)
       for d, theta in ((2, 10000.0), (8, 10000.0), (16, 500000.0), (32, 273768.0), (48, 1000000.0), (80, 130000.0),
                        (96, 150000.0), (160, 20000.0), (256, 150000.0))},
}


def main():
    assert torch.backends.cpu.get_cpu_capability() == "AVX512"
    rows = []
    for name, config in CASES.items():
        parsed = AutoConfig.for_model(**copy.deepcopy(config))  # it changes nested values
        embedding = EMBEDDING[config["model_type"]](parsed)
        bits = embedding.inv_freq.numpy().astype(np.float32).view(np.uint32)
        scaling = np.float32(embedding.attention_scaling).view(np.uint32)
        rows.append({"case": name, "config": config, "attention_factor": f"{scaling:08x}",
                     "frequencies": " ".join(f"{b:08x}" for b in bits)})
    write_json(os.path.join(sys.argv[1], "rope.json"), {"provenance": provenance("torch", "transformers"), "cases": rows})


if __name__ == "__main__":
    main()
