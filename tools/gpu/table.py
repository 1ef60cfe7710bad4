#!/usr/bin/env python3
"""The results of ./dev gpu run as Markdown: table.py FOLDER. Reads conformance.json, verify-*.json, decode.json and peer.json where they are."""

import json
import pathlib
import sys


def read(folder, name):
    path = folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def rows(head, body):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" if i == 0 else "---:" for i in range(len(head))) + "|"
    for row in body:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def share(histogram):
    return f"{histogram['differing']:,} of {histogram['outputs']:,}" if histogram["outputs"] else "-"


def epilogues(folder):
    """Rows of the scale-order experiment: layer inputs with and without bias, then whole generations."""
    for path in sorted(folder.glob("verify-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        orders, generations = found.get("scale_orders", {}), found.get("generations", {})
        name = path.stem.removeprefix("verify-")
        parted = {g["kernels"]: g for g in generations.get("gpu", [])}
        for kernels, of in [("processor, by the rule", orders)] + [(o["kernels"], o) for o in orders.get("gpu", [])]:
            if "skipped" in of:
                yield name, kernels, of["skipped"], "", "", ""
                continue
            g = generations if of is orders else parted.get(kernels)
            whole = [f"{g[s]['prompts_that_part']} of {len(g[s]['first_difference'])}" for s in ("arbitrary", "power_of_two")] if g else ["", ""]
            for bias in ("without_bias", "with_bias"):
                if bias in of and of[bias]["arbitrary"]["outputs"]:
                    yield name, f"{kernels}, {bias.replace('_', ' ')}", share(of[bias]["arbitrary"]), share(of[bias]["power_of_two"]), *whole


def main():
    folder = pathlib.Path(sys.argv[1])
    conformance, decode, peer = (read(folder, name) for name in ("conformance.json", "decode.json", "peer.json"))
    gpu = (decode or conformance or {}).get("gpu", {})
    print(f"# {gpu.get('name', 'GPU')}\n\nMade by `./dev gpu run`; the JSON files beside this page hold commit, compiler and every figure.\n")
    if gpu:
        print(f"Driver {gpu['driver'] // 1000}.{gpu['driver'] % 1000 // 10}, measured read bandwidth {gpu['read_bytes_per_second'] / 1e12:.2f} TB/s.\n")
    if conformance:
        print("## Same bits as the reference\n")
        compared = [o for o in conformance["conformance"] if o["variant"] != "reference"]
        print("\n".join(rows(("op", "GPU kernel", "cases", "elements", "differing"),
                             ((o["op"], o["variant"], o.get("cases", o.get("reason", "")), o.get("elements", ""), o.get("differing", "")) for o in compared))))
        print()
    if experiment := list(epilogues(folder)):
        print("## Two orders of scales, on real kernels\n\n`zeroulp verify --device cuda`: bf16 outputs of linears that differ between CUTLASS's order and Triton's, on captured layer inputs;\n"
              "generations of 128 greedy tokens that part. With a bias the orders are not the same rule, whatever the scales.\n")
        print("\n".join(rows(("model", "kernels", "arbitrary scales", "power-of-two scales", "generations that part", "with powers of two"), experiment)))
        print()
    if decode:
        theirs = {row["shape"]: row for row in (peer or {}).get("rows", [])}
        print(f"## Decoding, batch 1, context {decode['rows'][0]['context']}\n\n"
              "Weights from a seed at the models' exact shapes; a step is one graph. The floor is the bytes of the linears' weights and of the KV cache at the\n"
              "measured read bandwidth.\n")
        print("\n".join(rows(("shape", "activation bits", "ms per step", "floor, ms", "of the floor", "with the host, ms", "PyTorch bf16 graph, ms", "faster by", "prefill tokens/s"),
                             ((r["shape"], r["width"], f"{r['graph_ms_per_step']:.3f}", f"{r['floor_ms']:.3f}", f"{100 * r['floor_ms'] / r['graph_ms_per_step']:.0f} %",
                               f"{r['wall_ms_per_step']:.3f}",
                               f"{theirs[r['shape']]['graph_ms_per_step']:.3f}" if r["shape"] in theirs else "",
                               f"{theirs[r['shape']]['graph_ms_per_step'] / r['graph_ms_per_step']:.2f}" if r["shape"] in theirs else "",
                               f"{r['prefill_tokens_per_second']:.0f}") for r in decode["rows"]))))
        print()
        if peer:
            print(f"PyTorch {peer['torch']}, joined projections, static KV cache, CUDA graph (`bench/peer_torch.py`), in the same run.")


if __name__ == "__main__":
    main()
