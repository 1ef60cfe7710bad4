"""What the golden-file scripts share: provenance, JSON output, and the reading of GGUF files by the `gguf` package."""

import hashlib
import importlib.metadata
import json
import os
import platform
import sys

import numpy as np

# Pre-tokeniser patterns as Hugging Face's files of these families spell them.
QWEN2_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
                 r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_PATTERN = QWEN2_PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def provenance(*packages):
    """Package versions and the command, for the head of every golden file."""
    script = os.path.basename(sys.argv[0])
    args = [os.path.basename(a) if os.path.isabs(a) else a for a in sys.argv[1:]]
    return {
        "command": " ".join(["python", f"tools/golden/{script}", *args]),
        "versions": {"python": platform.python_version(), **{p: importlib.metadata.version(p) for p in packages}},
    }


def write_json(path, obj):
    """Writes a JSON object; lists at the top level get one line per element, so that diffs stay readable."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    dump = lambda v: json.dumps(v, ensure_ascii=True)
    entry = lambda v: "[\n" + ",\n".join(dump(x) for x in v) + "]" if isinstance(v, list) else dump(v)
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(f"{dump(k)}: {entry(v)}" for k, v in obj.items()) + "\n}\n")
    print(f"{path}: {os.path.getsize(path)} bytes", file=sys.stderr)


def write_jsonl_zst(path, header, rows):
    """A zstd frame of JSON lines; the first line is the header object."""
    import zstandard
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    lines = [json.dumps(x, ensure_ascii=True, separators=(",", ":")) for x in [header, *rows]]
    raw = ("\n".join(lines) + "\n").encode()
    params = zstandard.ZstdCompressionParameters.from_level(19, write_content_size=True, write_checksum=True)
    data = zstandard.ZstdCompressor(compression_params=params).compress(raw)
    with open(path, "wb") as f:
        f.write(data)
    print(f"{path}: {len(lines)} lines, {len(raw)} -> {len(data)} bytes", file=sys.stderr)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sha256_file(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def bf16_bits(values):
    """Round-to-nearest-even from float32 to the 16 bits of BF16; input must be finite."""
    u = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    assert not np.any((u & 0x7F800000) == 0x7F800000), "non-finite weight"
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def shortest_f32(x):
    """The shortest decimal that reads back as the same float32 (9.999999747378752e-06 -> 1e-05)."""
    return float(str(np.float32(x)))


class GgufModel:
    """A GGUF file of the llama or qwen2 family, seen through Hugging Face's names and row order."""

    LAYER_NAMES = {
        "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }
    TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

    def __init__(self, path):
        import gguf
        self._dequantize = gguf.dequantize
        self.reader = gguf.GGUFReader(path)
        self.arch = self.key("general.architecture")
        if self.arch not in ("llama", "qwen2", "qwen3"):
            raise SystemExit(f"{path}: architecture {self.arch} is not handled here")

    def key(self, name, default=None):
        field = self.reader.fields.get(name)
        return default if field is None else field.contents()

    def arch_key(self, name, default=None):
        return self.key(f"{self.arch}.{name}", default)

    def hf_name(self, name):
        stem, kind = name.rsplit(".", 1)
        if stem in self.TOP_NAMES:
            return f"{self.TOP_NAMES[stem]}.{kind}"
        _, layer, part = stem.split(".")
        return f"model.layers.{layer}.{self.LAYER_NAMES[part]}.{kind}"

    def f32(self, tensor):
        """The file's values in the file's row order, shape as in Hugging Face (outer dimension first)."""
        flat = np.asarray(self._dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        return np.ascontiguousarray(flat.reshape([int(d) for d in reversed(tensor.shape)]))

    def hf_values(self, tensor):
        """The values in Hugging Face's row order: llama files interleave the two halves of each Q and K head."""
        values = self.f32(tensor)
        part = tensor.name.split(".")[-2]
        if self.arch == "llama" and part in ("attn_q", "attn_k"):
            heads = self.arch_key("attention.head_count" if part == "attn_q" else "attention.head_count_kv")
            rows = values.shape[0]
            split = values.reshape(heads, rows // heads // 2, 2, *values.shape[1:])
            values = np.ascontiguousarray(split.swapaxes(1, 2).reshape(values.shape))
        return values

    def tied(self):
        return all(t.name != "output.weight" for t in self.reader.tensors)
