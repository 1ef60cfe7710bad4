#!/usr/bin/env python3
"""Logits of a real model on ordinary English, and greedy continuations, by transformers on the CPU.

    python tools/golden/logits.py FOLDER text-novel.txt text-technical.txt tests/golden/logits-NAME.jsonl.zst

FOLDER is one that make_oracle_folders.py wrote; english_text.py makes the texts. Four windows of 1,024 tokens: two places
of each text.
"""

import argparse
import os
import struct
import sys
import time

import numpy as np
import torch
from transformers import AutoTokenizer

from golden_common import provenance, sha256, sha256_file, write_jsonl_zst
from reference_logits import MODES, load, logits_of, margins, negative_log_likelihoods, top_row

WINDOW, EVERY = 1024, 16
PLACES = (0.2, 0.6)  # of each text, moved on to the next paragraph
PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "It is a truth universally acknowledged, that"]
QUESTIONS = ["What is the capital of France?", "Write a Python function that reverses a string.", "Name three primary colours."]
NEW_TOKENS = 32


def windows(tokenizer, texts):
    for label, path in texts:
        with open(path, "rb") as f:
            data = f.read()
        for place in PLACES:
            at = data.index(b"\n\n", int(len(data) * place)) + 2
            text = data[at:at + 16 * WINDOW].decode("utf-8", errors="ignore")
            ids = tokenizer.encode(text, add_special_tokens=False)[:WINDOW]
            assert len(ids) == WINDOW
            # The technical manual is under the GPL, so its words are not kept here, in ids either.
            yield {"text": label, "text_sha256": sha256_file(path), "byte_offset": at, "ids": ids if label == "novel" else None,
                   "ids_sha256": sha256(struct.pack(f"<{WINDOW}I", *ids))}, ids


def rounded(values):
    return [float(f"{v:.3g}") for v in values]


def window_rows(model, mode, number, head, ids):
    argmax, margin, nll, rows = [], [], [], []
    for at, logits in logits_of(model, ids):
        argmax += logits.argmax(axis=-1).tolist()
        margin += rounded(margins(logits))
        targets = ids[at + 1:at + 1 + len(logits)]
        nll += negative_log_likelihoods(logits[:len(targets)], targets).tolist()
        rows += [{"window": number, "mode": mode, "position": at + i, **top_row(logits[i])}
                 for i in range(len(logits)) if (at + i) % EVERY == EVERY - 1]
    summary = {"window": number, "mode": mode, "nll_sum": sum(nll), "predictions": len(nll), "argmax": argmax}
    if mode == "f32":
        summary = {**head, **summary, "margin": margin}
    return summary, rows


def attention_noise(folder, ids):
    """The largest difference that the order of summation makes in float32."""
    parts = [[part for _, part in logits_of(load(folder, "f32", attention), ids[:256])] for attention in ("eager", "sdpa")]
    return max(float(np.abs(a - b).max()) for a, b in zip(*parts))


@torch.no_grad()
def greedy_rows(model, tokenizer):
    chats = [tokenizer.apply_chat_template([{"role": "user", "content": q}], tokenize=False, add_generation_prompt=True)
             for q in QUESTIONS]
    for prompt, chat in [(p, False) for p in PROMPTS] + [(c, True) for c in chats]:
        ids = tokenizer.encode(prompt, add_special_tokens=False)
        got = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=NEW_TOKENS,
                             do_sample=False, output_logits=True, return_dict_in_generate=True)
        new = got.sequences[0, len(ids):].tolist()
        yield {"greedy": prompt, "chat_template": chat, "ids": ids, "new_ids": new, "new_text": tokenizer.decode(new),
               "margin": rounded(float(margins(step.float().numpy())[0]) for step in got.logits)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "novel", "technical", "out"):
        parser.add_argument(name)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.folder)
    cut = list(windows(tokenizer, [("novel", args.novel), ("technical", args.technical)]))
    summaries, rows, perplexity = [], [], {}
    for mode in MODES:
        model = load(args.folder, mode)
        part = []
        for number, (head, ids) in enumerate(cut):
            started = time.time()
            summary, top = window_rows(model, mode, number, head, ids)
            part.append(summary)
            rows += top
            print(f"{mode} window {number}: {time.time() - started:.0f} s", file=sys.stderr)
        perplexity[mode] = float(np.exp(sum(s["nll_sum"] for s in part) / sum(s["predictions"] for s in part)))
        summaries += part
        if mode == "f32":
            rows += greedy_rows(model, tokenizer)
    header = {"provenance": provenance("torch", "transformers", "tokenizers", "numpy"), "attention": "eager",
              "weights_sha256": sha256_file(os.path.join(args.folder, "model.safetensors")), "perplexity": perplexity,
              "max_difference_to_sdpa_attention_f32": attention_noise(args.folder, cut[0][1])}
    write_jsonl_zst(args.out, header, summaries + rows)


if __name__ == "__main__":
    main()
