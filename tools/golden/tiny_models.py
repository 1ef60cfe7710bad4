#!/usr/bin/env python3
"""Tiny seeded models of every family as Hugging Face folders, and the logits that transformers computes with them.

    python tools/golden/tiny_models.py tests/golden/tiny

Config spellings of transformers 4 and 5, one file or shards, F32, F16 and BF16, padded vocabularies and lists of stop
tokens are spread over the four, so that a reader meets all of them.
"""

import json
import os
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import tokenizer_texts
from golden_common import LLAMA3_PATTERN, QWEN2_PATTERN, provenance, write_jsonl_zst
from reference_logits import load, logits_of, margins, negative_log_likelihoods, top_row

POSITIONS = 128
CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
                 "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

COMMON = {"hidden_size": 64, "num_hidden_layers": 3, "hidden_act": "silu", "max_position_embeddings": 1024,
          "bos_token_id": 0, "eos_token_id": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "beta_fast": 32.0, "beta_slow": 1.0}
MODELS = {
    "llama3": {
        "dtype": torch.bfloat16, "pattern": LLAMA3_PATTERN, "generation": {"eos_token_id": [2, 0]}, "variants": {},
        "config": {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 96,
                   "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-5,
                   "rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                            "original_max_position_embeddings": 128, "rope_type": "llama3"},
                   "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False, "vocab_size": 320,
                   "eos_token_id": [2, 0], "torch_dtype": "bfloat16"}},
    "smollm2": {
        "dtype": torch.float32, "pattern": None, "generation": {"eos_token_id": 2}, "variants": {},
        "config": {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 64,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
                   "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
                   "attention_bias": False, "tie_word_embeddings": True, "vocab_size": 288, "dtype": "float32"}},
    "qwen2": {
        "dtype": torch.float16, "pattern": QWEN2_PATTERN, "generation": {"eos_token_id": [2, 1]},
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
                     "yarn": {"rope_scaling": YARN}},
        "config": {**COMMON, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "intermediate_size": 96,
                   "num_attention_heads": 4, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                   "use_sliding_window": False, "sliding_window": 512, "max_window_layers": 3, "tie_word_embeddings": True,
                   "vocab_size": 320, "torch_dtype": "float16"}},
    "qwen3": {
        "dtype": torch.bfloat16, "pattern": QWEN2_PATTERN, "generation": {"eos_token_id": [2, 0]}, "shards": 2,
        "variants": {"window": {"use_sliding_window": True, "sliding_window": 33,
                                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}},
        "config": {**COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "intermediate_size": 64,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6,
                   "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "attention_bias": False,
                   "use_sliding_window": False, "sliding_window": None, "max_window_layers": 3,
                   "layer_types": ["full_attention"] * 3, "tie_word_embeddings": True, "vocab_size": 320,
                   "dtype": "bfloat16"}},
}


def make_weights(spec, rng):
    """Random weights whose activations look a little like a real model's: peaked attention, outlier channels."""
    c = spec["config"]
    hidden, inter, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    head_dim = c.get("head_dim", hidden // heads)
    q, kv = heads * head_dim, c["num_key_value_heads"] * head_dim
    qwen2, qwen3 = c["model_type"] == "qwen2", c["model_type"] == "qwen3"
    matrix = lambda rows, cols, gain=1.0: rng.standard_normal((rows, cols)) * gain / np.sqrt(cols)

    def norm(n):
        w = 1 + 0.25 * rng.standard_normal(n)
        w[rng.integers(n)] *= 4
        return w

    out = {"model.embed_tokens.weight": rng.standard_normal((c["vocab_size"], hidden)) * 0.4}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"] = norm(hidden)
        for name, rows, gain in (("q", q, 1.6), ("k", kv, 1.6), ("v", kv, 1.0)):
            out[p + f"self_attn.{name}_proj.weight"] = matrix(rows, hidden, gain)
            if qwen2:
                bias = rng.standard_normal(rows) * 0.5
                if name == "k":
                    bias[rng.integers(rows)] = 8.0
                out[p + f"self_attn.{name}_proj.bias"] = bias
        if qwen3:
            out[p + "self_attn.q_norm.weight"] = norm(head_dim)
            out[p + "self_attn.k_norm.weight"] = norm(head_dim)
        out[p + "self_attn.o_proj.weight"] = matrix(hidden, q)
        out[p + "post_attention_layernorm.weight"] = norm(hidden)
        out[p + "mlp.gate_proj.weight"] = matrix(inter, hidden)
        out[p + "mlp.up_proj.weight"] = matrix(inter, hidden)
        out[p + "mlp.down_proj.weight"] = matrix(hidden, inter)
    out["model.norm.weight"] = norm(hidden)
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = matrix(c["vocab_size"], hidden, 3.0)
    return {k: torch.from_numpy(v.astype(np.float32)).to(spec["dtype"]) for k, v in out.items()}


def write_weights(folder, weights, shards):
    if shards == 1:
        save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    names = list(weights)
    step = -(-len(names) // shards)
    index = {"metadata": {"total_size": sum(w.nbytes for w in weights.values())}, "weight_map": {}}
    for s in range(shards):
        file = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: weights[n] for n in names[s * step:(s + 1) * step]}
        save_file(part, os.path.join(folder, file), metadata={"format": "pt"})
        index["weight_map"].update({n: file for n in part})
    dump(folder, "model.safetensors.index.json", index)


def make_tokenizer(pattern, rows):
    """Byte-level BPE of rows minus 7 tokens: the special ones first, then bytes, then merges; 7 rows stay unused."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    first = pre_tokenizers.Digits(individual_digits=True) if pattern is None else pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, byte_level])
    trainer = trainers.BpeTrainer(vocab_size=rows - 7, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(tokenizer_texts.SENTENCES + tokenizer_texts.CODE, trainer)
    spec = json.loads(tokenizer.to_str())
    spec["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if pattern == QWEN2_PATTERN:
        spec["normalizer"] = {"type": "NFC"}
    if pattern == LLAMA3_PATTERN:
        spec["model"]["ignore_merges"] = True
        bos = SPECIAL[0]
        spec["post_processor"] = {
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": [0], "tokens": [bos]}}}
    return spec


def dump(folder, name, obj):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(obj, f, ensure_ascii=False, indent=1 if name == "tokenizer.json" else 2)
        f.write("\n")


def sequence(folder, rng):
    """Half text, half random tokens."""
    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    ids = tokenizer.encode(" ".join(tokenizer_texts.SENTENCES[:3])).ids[:POSITIONS // 2]
    return ids + rng.integers(0, tokenizer.get_vocab_size(), POSITIONS - len(ids)).tolist()


def golden_rows(folder, name, spec, ids):
    for variant, overrides in {"": {}, **spec["variants"]}.items():
        for mode in ("f32", "bf16") if not variant else ("f32",):
            logits = np.concatenate([part for _, part in logits_of(load(folder, mode, overrides=overrides), ids)])
            other = np.concatenate([part for _, part in logits_of(load(folder, mode, "sdpa", overrides), ids)])
            nll = negative_log_likelihoods(logits[:-1], ids[1:])
            yield {"variant": variant, "mode": mode, "config_overrides": overrides, "nll_sum": float(nll.sum()),
                   "argmax": logits.argmax(axis=-1).tolist(), "smallest_margin": float(margins(logits).min()),
                   "max_difference_to_sdpa_attention": float(np.abs(logits - other).max())}
            for position in range(0, POSITIONS, 8 if variant else 1):
                yield {"variant": variant, "mode": mode, "position": position, **top_row(logits[position])}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name, spec in MODELS.items():
        rng = np.random.default_rng([20240607, *name.encode()])
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        dump(folder, "config.json", spec["config"])
        dump(folder, "generation_config.json", {"bos_token_id": 0, "pad_token_id": 0, **spec["generation"]})
        dump(folder, "tokenizer.json", make_tokenizer(spec["pattern"], spec["config"]["vocab_size"]))
        dump(folder, "tokenizer_config.json", {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "pad_token": SPECIAL[0],
            "clean_up_tokenization_spaces": False, "model_max_length": 1024, "chat_template": CHAT_TEMPLATE})
        write_weights(folder, make_weights(spec, rng), spec.get("shards", 1))
        ids = sequence(folder, rng)
        header = {"provenance": provenance("torch", "transformers", "tokenizers", "safetensors", "numpy"), "attention": "eager", "ids": ids}
        write_jsonl_zst(os.path.join(folder, "logits.jsonl.zst"), header, golden_rows(folder, name, spec, ids))


if __name__ == "__main__":
    main()
