"""The verb `quantize` from outside: refusals and exit codes, and a conversion that is killed again and again.

Usage: verb_test.py PATH_OF_ZEROULP
"""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HIDDEN, INNER, LAYERS, HEADS, KV, VOCAB = 64, 160, 6, 4, 2, 256


def byte_spellings():
    """GPT-2's spelling of the 256 bytes."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    spelled = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in spelled:
            spelled[b] = chr(256 + sum(1 for other in range(b) if other not in plain))
    return spelled


def write_model(folder):
    folder.mkdir()
    config = {
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "vocab_size": VOCAB, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
        "max_position_embeddings": 512, "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "vocab": {s: b for b, s in byte_spellings().items()}, "merges": []}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
                 "decoder": byte_level, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shapes = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN]}
    kv = HIDDEN // HEADS * KV
    for layer in range(LAYERS):
        parts = {"input_layernorm": [HIDDEN], "post_attention_layernorm": [HIDDEN], "self_attn.q_proj": [HIDDEN, HIDDEN],
                 "self_attn.k_proj": [kv, HIDDEN], "self_attn.v_proj": [kv, HIDDEN], "self_attn.o_proj": [HIDDEN, HIDDEN],
                 "mlp.gate_proj": [INNER, HIDDEN], "mlp.up_proj": [INNER, HIDDEN], "mlp.down_proj": [HIDDEN, INNER]}
        shapes.update({f"model.layers.{layer}.{part}.weight": shape for part, shape in parts.items()})
    rng = random.Random(1)
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [1.0 + rng.uniform(-0.3, 0.3) if "norm" in name else rng.uniform(-0.2, 0.2) for _ in range(count)]
        raw = struct.pack(f"<{count}f", *values)
        bf16 = b"".join(raw[4 * i + 2 : 4 * i + 4] for i in range(count))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(bf16)]}
        data += bf16
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


class Verb:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.model, self.text = folder / "model", folder / "text.txt"
        write_model(self.model)
        rng = random.Random(2)
        self.text.write_text(" ".join("".join(rng.choice("etaoinshr") for _ in range(rng.randint(2, 8))) for _ in range(900)))

    def command(self, *arguments):
        return [self.program, "quantize", str(self.model), *map(str, arguments)]

    def run(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)

    def expect(self, code, words, *arguments):
        done = self.run(*arguments)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == code, (arguments, done.returncode, done.stderr)
        assert len(lines) == 1 and words in lines[0], (arguments, done.stderr)
        assert not (self.folder / "never").exists(), arguments


def refusals(verb):
    out, text = verb.folder / "never", ["--calibration", verb.text]
    verb.expect(2, "--profile", out, "--profile", "w4a4")
    verb.expect(2, "--exponent", out, "--exponent", "ceil")
    verb.expect(2, "exponent rule", out, "--profile", "w8a15-po2", "--exponent", "floor", "--no-gptq")
    verb.expect(2, "--no-gptq --smooth off", out, "--profile", "w8a8-po2")
    verb.expect(2, "--no-gptq --smooth off", out, "--profile", "w8a8-po2", "--no-gptq")
    verb.expect(2, "--gptq has no effect with --no-gptq", out, "--gptq", "--no-gptq", *text)
    verb.expect(2, "--smooth", out, "--smooth", "1.5", *text)
    verb.expect(2, "--smooth", out, "--smooth", "half", *text)
    verb.expect(2, "names no linear", out, "--width", "layers.6.q_proj=8")
    verb.expect(2, "NAME=8 or NAME=15", out, "--width", "q_proj=16")
    verb.expect(2, "--key-width", out, "--key-width", "9")
    verb.expect(2, "--calibration", out, "--budget", "0.1")
    verb.expect(2, "--budget chooses", out, "--budget", "0.1", "--width", "head=8", *text)
    verb.expect(2, "--budget chooses", out, "--budget", "0.1", "--profile", "w8a8-po2", *text)
    verb.expect(3, "tokens", out, *text, "--calibration-tokens", 1000000)
    verb.expect(3, "no-such-file", out, "--calibration", verb.folder / "no-such-file")
    verb.expect(3, "exists already", verb.model)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def killed_again_and_again(verb):
    options = ["--profile", "w8a8-po2", "--calibration", verb.text, "--calibration-tokens", 2048, "--calibration-window", 256]
    fresh, out = verb.folder / "fresh", verb.folder / "out"
    began = time.monotonic()
    assert verb.run(fresh, *options, "--threads", 2).returncode == 0
    whole = time.monotonic() - began
    rng, kills = random.Random(3), 0
    while kills < 40:
        resume = ["--resume"] if (verb.folder / ".out.partial" / "key.json").exists() else []
        process = subprocess.Popen(verb.command(out, *options, "--threads", 3, *resume), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        try:
            _, errors = process.communicate(timeout=rng.uniform(0.2, 0.8) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            if out.exists():  # killed between the last rename and the end
                break
            continue
        assert process.returncode == 0, errors
        break
    assert kills > 0 and out.exists(), kills
    assert contents(fresh) == contents(out), "resumed bytes differ"
    assert process.returncode != 0 or not (verb.folder / ".out.partial").exists(), "a finished conversion leaves its partial state"
    print(f"killed {kills} times, then the same bytes")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zeroulp-test-"))
    try:
        verb = Verb(os.path.abspath(sys.argv[1]), folder)
        refusals(verb)
        killed_again_and_again(verb)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
