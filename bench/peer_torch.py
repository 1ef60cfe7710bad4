#!/usr/bin/env python3
"""The peer of bench_gpu: batch-1 decoding of the same shapes in PyTorch bf16 with a CUDA graph, on the same GPU.

peer_torch.py [--context N] [--json FILE] [SHAPE...]

Plain modules (torch.nn.functional), joined q/k/v and gate/up projections, scaled_dot_product_attention over a static KV cache, one graph per
step. Layers share one layer's weights unless that would let them stay in L2, so every layer has its own.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

# name: hidden, intermediate, layers, heads, KV heads, head size, vocabulary, tied, QK-norm
SHAPES = {
    "smollm2-135m": (576, 1536, 30, 9, 3, 64, 49152, True, False),
    "qwen2.5-0.5b": (896, 4864, 24, 14, 2, 64, 151936, True, False),
    "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128, 151936, True, True),
    "qwen3-1.7b": (2048, 6144, 28, 16, 8, 128, 151936, True, True),
    "qwen2.5-7b": (3584, 18944, 28, 28, 4, 128, 152064, False, False),
    "qwen3-8b": (4096, 12288, 36, 32, 8, 128, 151936, False, True),
}


def weight(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * (shape[-1] ** -0.5)


class Model:
    def __init__(self, shape, context):
        h, inner, layers, self.heads, self.kv, self.d, vocab, tied, self.qk_norm = shape
        ones = lambda n: torch.ones(n, device="cuda", dtype=torch.bfloat16)  # noqa: E731
        self.embed = weight(vocab, h)
        self.head = self.embed if tied else weight(vocab, h)
        self.final = ones(h)
        self.layers = [dict(n1=ones(h), n2=ones(h), qkv=weight((self.heads + 2 * self.kv) * self.d, h), o=weight(h, self.heads * self.d),
                            gu=weight(2 * inner, h), down=weight(h, inner), qn=ones(self.d), kn=ones(self.d),
                            k=weight(1, self.kv, context, self.d), v=weight(1, self.kv, context, self.d)) for _ in range(layers)]
        self.position = torch.full((1,), context - 1, device="cuda", dtype=torch.long)
        self.cos, self.sin = weight(1, 1, self.d), weight(1, 1, self.d)
        self.bytes = sum(t.numel() * 2 for layer in self.layers for t in layer.values()) + self.head.numel() * 2

    def rope(self, x):
        half = self.d // 2
        return x * self.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin

    def step(self, token):
        x = F.embedding(token, self.embed)
        for w in self.layers:
            y = F.linear(F.rms_norm(x, (x.shape[-1],), w["n1"]), w["qkv"]).view(1, -1, self.d)
            q, k, v = y.split([self.heads, self.kv, self.kv], 1)
            if self.qk_norm:
                q, k = F.rms_norm(q, (self.d,), w["qn"]), F.rms_norm(k, (self.d,), w["kn"])
            q, k = self.rope(q), self.rope(k)
            w["k"].index_copy_(2, self.position, k.transpose(0, 1)[None])
            w["v"].index_copy_(2, self.position, v.transpose(0, 1)[None])
            a = F.scaled_dot_product_attention(q.transpose(0, 1)[None], w["k"], w["v"], enable_gqa=True)
            x = x + F.linear(a.transpose(1, 2).reshape(1, -1), w["o"])
            g, u = F.linear(F.rms_norm(x, (x.shape[-1],), w["n2"]), w["gu"]).chunk(2, -1)
            x = x + F.linear(F.silu(g) * u, w["down"])
        return F.linear(F.rms_norm(x, (x.shape[-1],), self.final), self.head).argmax(-1)


@torch.inference_mode()
def measure(name, context):
    model = Model(SHAPES[name], context)
    token = torch.zeros(1, device="cuda", dtype=torch.long)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model.step(token)
    side.synchronize()
    begun = time.perf_counter()
    for _ in range(5):
        model.step(token)
    torch.cuda.synchronize()
    eager = (time.perf_counter() - begun) / 5
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step(token)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    begin.record()
    for _ in range(50):
        graph.replay()
    end.record()
    end.synchronize()
    return {"shape": name, "context": context, "graph_ms_per_step": begin.elapsed_time(end) / 50, "eager_ms_per_step": 1e3 * eager, "bytes": model.bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--json")
    o = parser.parse_args()
    rows = []
    for name in o.shapes or SHAPES:
        rows.append(measure(name, o.context))
        print(f"{name}: PyTorch bf16 graph {rows[-1]['graph_ms_per_step']:.3f} ms/step, eager {rows[-1]['eager_ms_per_step']:.3f}", flush=True)
        torch.cuda.empty_cache()
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump({"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
