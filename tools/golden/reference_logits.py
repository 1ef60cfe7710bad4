"""Logits by transformers on the CPU, and the rows in which the golden files keep them."""

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

TOP = 64
MODES = {"f32": torch.float32, "bf16": torch.bfloat16}


def load(folder, mode, attention="eager", overrides=None):
    """A model whose weights are converted to the mode's type; `overrides` replaces keys of its config.json."""
    config = AutoConfig.from_pretrained(folder)
    if overrides:
        config = type(config)(**{**_plain(folder), **overrides})
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=MODES[mode], attn_implementation=attention, output_loading_info=True)
    trouble = {k: v for k, v in info.items() if v}
    if trouble:
        raise SystemExit(f"{folder}: {trouble}")
    return model.eval()


def _plain(folder):
    import json
    import os
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        return json.load(f)


@torch.no_grad()
def logits_of(model, ids, chunk=128):
    """Yields (first position, float32 logits of `chunk` positions) of one sequence, computed in one forward pass."""
    hidden = model.model(torch.tensor([ids]), use_cache=False).last_hidden_state[0]
    for at in range(0, len(ids), chunk):
        yield at, model.lm_head(hidden[at:at + chunk]).float().numpy()


def short(value):
    """The shortest decimal that a double-precision parser and one rounding bring back to this float32."""
    text = float(str(np.float32(value)))
    assert np.float32(text) == np.float32(value)
    return text


def top_row(logits):
    """The TOP largest logits: larger first, the lower id first among equals."""
    floor = np.partition(logits, -TOP)[-TOP]
    candidates = np.flatnonzero(logits >= floor)
    order = candidates[np.lexsort((candidates, -logits[candidates]))][:TOP]
    return {"ids": order.tolist(), "logits": [short(v) for v in logits[order]]}


def margins(logits):
    """Largest minus second largest, per position."""
    two = np.partition(logits, -2, axis=-1)[:, -2:]
    return two[:, 1] - two[:, 0]


def negative_log_likelihoods(logits, targets):
    """In float64 from float32 logits."""
    wide = logits.astype(np.float64)
    top = wide.max(axis=-1, keepdims=True)
    return (top[:, 0] + np.log(np.exp(wide - top).sum(axis=-1))) - wide[np.arange(len(targets)), targets]
