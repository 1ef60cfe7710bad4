#!/usr/bin/env python3
"""Makes a Hugging Face folder (BF16 safetensors, config, tokenizer, chat template) from a GGUF file.

This is the oracle of `zeroulp import`: it goes through the `gguf` package's numpy dequantisation, undoes the llama
row permutation of Q and K, and rounds once to BF16, nearest even. Handles the `smollm` and `qwen2` pre-tokenisers.

    python tools/golden/make_oracle_folders.py model.gguf out_folder [--check]

--check opens the folder in transformers and prints a greedy continuation.
"""

import argparse
import json
import os

import torch
from safetensors.torch import save_file

from golden_common import GgufModel, QWEN2_PATTERN, bf16_bits, shortest_f32

CONTROL, USER_DEFINED, NORMAL = 3, 4, 1


def make_config(m):
    hidden, heads = m.arch_key("embedding_length"), m.arch_key("attention.head_count")
    config = {
        "architectures": [{"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[m.arch]],
        "model_type": m.arch,
        "hidden_size": hidden,
        "intermediate_size": m.arch_key("feed_forward_length"),
        "num_hidden_layers": m.arch_key("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": m.arch_key("attention.head_count_kv", heads),
        "head_dim": m.arch_key("attention.key_length", hidden // heads),
        "hidden_act": "silu",
        "rms_norm_eps": shortest_f32(m.arch_key("attention.layer_norm_rms_epsilon")),
        "rope_theta": shortest_f32(m.arch_key("rope.freq_base")),
        "max_position_embeddings": m.arch_key("context_length"),
        "vocab_size": len(m.key("tokenizer.ggml.tokens")),
        "tie_word_embeddings": m.tied(),
        "bos_token_id": m.key("tokenizer.ggml.bos_token_id"),
        "eos_token_id": m.key("tokenizer.ggml.eos_token_id"),
        "pad_token_id": m.key("tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
    }
    if m.arch == "llama":
        config.update(attention_bias=False, mlp_bias=False)
    else:
        config.update(use_sliding_window=False)
    return config


def byte_level(**flags):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False, **flags}


def make_tokenizer(m):
    tokens, types = m.key("tokenizer.ggml.tokens"), m.key("tokenizer.ggml.token_type")
    pre = m.key("tokenizer.ggml.pre")
    if pre == "qwen2":
        normalizer = {"type": "NFC"}
        pre_tokenizer = {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False},
            byte_level()]}
    elif pre == "smollm":
        normalizer = None
        pre_tokenizer = {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level(trim_offsets=True, use_regex=True)]}
    else:
        raise SystemExit(f"pre-tokeniser {pre!r} is not handled here")
    added = [i for i, t in enumerate(types) if t in (CONTROL, USER_DEFINED)]
    normal = [i for i, t in enumerate(types) if t == NORMAL]
    # `tokenizers` gives an added token that the model's vocabulary lacks the next free id, whatever id the file says.
    # So the added tokens below the last normal token must be in the vocabulary too.
    vocab = {tokens[i]: i for i in sorted(normal + [i for i in added if i < normal[-1]])}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": types[i] == CONTROL} for i in added],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": byte_level(),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": [s.split(" ") for s in m.key("tokenizer.ggml.merges")]},
    }


def make_tokenizer_config(m):
    tokens = m.key("tokenizer.ggml.tokens")
    token = lambda k: tokens[m.key(f"tokenizer.ggml.{k}_token_id")]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": m.key("tokenizer.ggml.add_bos_token", False),
        "clean_up_tokenization_spaces": False,
        "model_max_length": m.arch_key("context_length"),
        "bos_token": token("bos"), "eos_token": token("eos"), "pad_token": token("padding"),
        "chat_template": m.key("tokenizer.chat_template"),
    }


def write_folder(m, out):
    os.makedirs(out, exist_ok=True)
    dump = lambda name, obj: json.dump(obj, open(os.path.join(out, name), "w", encoding="utf-8"),
                                       indent=2, ensure_ascii=False)
    config = make_config(m)
    dump("config.json", config)
    dump("generation_config.json", {k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id")})
    dump("tokenizer.json", make_tokenizer(m))
    dump("tokenizer_config.json", make_tokenizer_config(m))
    weights = {m.hf_name(t.name): torch.from_numpy(bf16_bits(m.hf_values(t))).view(torch.bfloat16)
               for t in m.reader.tensors}
    save_file(weights, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})


def check(out):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(out)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}],
                                         tokenize=False, add_generation_prompt=True)
    for prompt in ("The capital of France is", chat):
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
        got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False)
        print(repr(prompt), "->", repr(tokenizer.decode(got[0, ids.shape[1]:])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf")
    parser.add_argument("out")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    write_folder(GgufModel(args.gguf), args.out)
    if args.check:
        check(args.out)


if __name__ == "__main__":
    main()
