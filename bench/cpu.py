#!/usr/bin/env python3
"""Engine speed on this CPU beside llama.cpp: ./dev bench cpu [--full] [--models NAME,...] [--threads N,...] [--json FILE].

One run, processes in the order A B B A: A is zeroulp (each profile), B llama.cpp with Q8_0 weights. A cell's figure is the
median over processes of each process's median; the ratio's interval is a bootstrap over processes. No time is printed
before the cell's digest of all logits equals that of an independent kernel: the scalar reference where that is a matter of
minutes or was computed before (bench/reference_digests.json), the AVX2 kernels otherwise; the table says which.
Exit code 1: a digest differs.
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "build/bench/bench_engine"
PROGRAM = ROOT / "build/zeroulp"
KNOWN = ROOT / "bench/reference_digests.json"
PROCESSES = 5
STEPS = 32
REFERENCE_MACS = 2e10  # more multiply-adds than this take the scalar reference too long for a bench run
MODELS = {"smollm2": "SmolLM2-135M-Instruct", "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B-Instruct"}
PROFILES = ["w8a15-free", "w8a8-po2"]
BUILDS = {"amx": "amx_int8", "avx512": "avx512_vnni", "avx2": "avx2"}  # of llama.cpp, the widest first, and what they need of the processor
CORE = ["prefill:16", "prefill:128", "prefill:512", "decode:0", "decode:512", "batch:4", "batch:8"]
FULL = ["prefill:2048", "decode:2048", "decode:8000"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, env=None):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


class Zeroulp:
    def __init__(self, model, profile, kernel):
        self.name = f"zeroulp {profile}" + (f" {kernel}" if kernel else "")
        self.kernel = kernel
        self.folder = ROOT / f"models/{model}-{profile}-bench"
        if not (self.folder / "zeroulp.json").exists():
            say(f"quantizing {model}: {profile}")
            run([PROGRAM, "quantize", ROOT / f"models/{model}", self.folder, "--profile", profile, "--no-gptq", "--smooth", "off"])
        self.digests, self.identity, self.weight_bytes, self.peak, self.load, self.first = {}, "", 0, 0, [], []

    def measure(self, cells, threads):
        """{cell: (tokens of one timing, median seconds)}"""
        command = [ENGINE, self.folder, *cells, "--threads", threads, "--repeats", 2, "--steps", STEPS]
        out = json.loads(run(command + (["--kernel", self.kernel] if self.kernel else [])))
        self.identity, self.weight_bytes = out["identity"], out["weight_bytes"]
        self.products, self.weights = out["layer_products"], out["layer_weights"]
        self.kernels, self.peak = out["kernels"], max(self.peak, out["peak_resident_bytes"])
        self.load.append(out["load_s"])
        self.first.append(out["first_token_s"])
        for cell in out["cells"]:
            known = self.digests.setdefault(cell["cell"], cell["digest"])
            if known != cell["digest"]:
                sys.exit(f"bench: MISMATCH {self.name} {cell['cell']}: {known} and {cell['digest']} in two processes")
        return {c["cell"]: (c["tokens"], statistics.median(c["seconds"])) for c in out["cells"]}

    def share(self, cell, speed, threads, ceilings):
        """Prefill: the linears' part of the peak of their instructions. Decode: weights read, of what reading gives."""
        kind, n = cell.split(":")
        if kind != "prefill":
            steps = speed / int(n) if kind == "batch" else speed
            return f"{100 * steps * self.weight_bytes * 1e-9 / ceilings['read_gb_s'][str(threads)]:.0f} %"
        linear = self.kernels.split("linear_s8=")[1].split()[0]
        peak = {"amx_int8": ceilings["tdpbssd_gmac_s"], "avx512_vnni": ceilings["vpdpbusd_gmac_s"]}.get(linear, ceilings["vpmaddwd_gmac_s"])
        products = self.products if linear != "avx2" else self.weights  # vpmaddwd takes both widths alike
        return f"{100 * speed * products * 1e-9 / (peak * threads):.0f} %"

    def oracle(self, cell, macs_per_token):
        """(name, digest) of an independent kernel for this cell."""
        known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
        digest = known.get(self.identity, {}).get(f"{cell} steps {STEPS}")
        if digest:
            return "reference", digest
        kind, n = cell.split(":")
        tokens = int(n) if kind == "prefill" else int(n) + STEPS if kind == "decode" else int(n) * (32 + STEPS)
        kernel = "reference" if tokens * macs_per_token < REFERENCE_MACS else "avx2"
        out = json.loads(run([ENGINE, self.folder, cell, "--repeats", 1, "--steps", STEPS, "--kernel", kernel,
                              "--threads", os.cpu_count()]))
        return kernel, out["cells"][0]["digest"]


class LlamaCpp:
    """llama.cpp in one of its builds (bench/llama_cpp.sh), weights in Q8_0 by its own quantiser."""

    def __init__(self, build, model):
        self.name = f"llama.cpp {build}"
        self.home = ROOT / ".cache/llama.cpp"
        self.env = dict(os.environ, LD_LIBRARY_PATH=f"{self.home}/{build}/bin:{self.home}/avx2/bin")
        self.bin = self.home / "avx2/bin"
        self.gguf = self.home / f"{model}-q8_0.gguf"
        if not self.gguf.exists():
            say(f"llama.cpp: {model} to Q8_0")
            run([self.bin / "llama_cpp", "quantize", ROOT / f".cache/models/{model}.gguf", self.gguf], self.env)
        self.weight_bytes = self.gguf.stat().st_size

    def measure(self, cells, threads):
        out = json.loads(run([self.bin / "llama_cpp", "bench", self.gguf, threads, 2, STEPS, *cells], self.env))
        return {c["cell"]: (c["tokens"], statistics.median(c["seconds"])) for c in out["cells"]}


def record_reference(engine, cells):
    out = json.loads(run([ENGINE, engine.folder, *cells, "--repeats", 1, "--steps", STEPS, "--kernel", "reference", "--threads", os.cpu_count()]))
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    known.setdefault(out["identity"], {}).update({f"{c['cell']} steps {STEPS}": c["digest"] for c in out["cells"]})
    KNOWN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def interval(ours, theirs):
    """95 % interval of the ratio of medians, bootstrap over processes with a fixed seed."""
    rng = random.Random(1)
    ratios = sorted(statistics.median(rng.choices(ours, k=len(ours))) / statistics.median(rng.choices(theirs, k=len(theirs)))
                    for _ in range(4000))
    return ratios[100], ratios[3899]


def measure_model(model, threads, cells, builds, args, report):
    ours = [Zeroulp(model, profile, kernel) for kernel in args.kernel.split(",") for profile in PROFILES]
    theirs = [LlamaCpp(build, model) for build in builds]
    speeds = {}  # (name, cell) -> tokens/s per process
    order = [ours, theirs, theirs, ours] * args.processes
    for side in order[:2 * args.processes]:
        for one in side:
            for cell, (tokens, seconds) in one.measure(cells, threads).items():
                speeds.setdefault((one.name, cell), []).append(tokens / seconds)
    bad = 0
    ceilings = json.loads(run([ROOT / "build/bench/bench_ceilings", ours[0].weight_bytes, threads]))
    report["ceilings"].append({"model": model, **ceilings})
    bandwidth = ceilings["read_gb_s"][str(threads)]
    print(f"\n{MODELS[model]}, {threads} thread{'s' if threads > 1 else ''}: tokens/s, ratio to llama.cpp with its 95 % interval")
    print(f"reading {ceilings['read_bytes'] * 1e-6:.0f} MB: {bandwidth:.1f} GB/s; of one thread from registers, GMAC/s: tdpbssd {ceilings['tdpbssd_gmac_s']}, "
          f"vpdpbusd {ceilings['vpdpbusd_gmac_s']}, vpmaddwd {ceilings['vpmaddwd_gmac_s']}\n")
    head = ["cell", *[b.name for b in theirs]] + [f"{z.name} | of ceiling | {' | '.join('to ' + b.name.split()[1] for b in theirs)} | equal to" for z in ours]
    print("| " + " | ".join(head) + " |\n|" + "---|" * " | ".join(head).count(" | ") + "---|")
    for cell in cells:
        row = [cell] + [f"{statistics.median(speeds[b.name, cell]):.1f}" if (b.name, cell) in speeds else "-" for b in theirs]
        for z in ours:
            mine = speeds[z.name, cell]
            oracle, digest = z.oracle(cell, z.weight_bytes)
            if digest != z.digests[cell]:
                row += [f"MISMATCH: {z.digests[cell]}, {oracle} {digest}", *["" for _ in theirs], "", ""]
                bad += 1
                continue
            speed = statistics.median(mine)
            row += [f"{speed:.1f}", z.share(cell, speed, threads, ceilings)]
            for b in theirs:
                if (b.name, cell) not in speeds:
                    row.append("-")
                    continue
                low, high = interval(mine, speeds[b.name, cell])
                row.append(f"{speed / statistics.median(speeds[b.name, cell]):.2f} [{low:.2f}, {high:.2f}]")
            row.append(oracle)
            report["cells"].append({"model": model, "threads": threads, "cell": cell, "engine": z.name, "tokens_per_s": mine, "digest": digest,
                                    "equal_to": oracle})
        for b in theirs:
            if (b.name, cell) in speeds:
                report["cells"].append({"model": model, "threads": threads, "cell": cell, "engine": b.name, "tokens_per_s": speeds[b.name, cell]})
        print("| " + " | ".join(row) + " |", flush=True)
    for z in ours:
        print(f"\n{z.name}: {z.weight_bytes * 1e-6:.0f} MB of weights, {z.peak * 1e-6:.0f} MB resident at most, loaded in {statistics.median(z.load) * 1e3:.0f} ms, "
              f"first token after {statistics.median(z.first) * 1e3:.0f} ms; {z.kernels}")
        report["engines"].append({"model": model, "threads": threads, "engine": z.name, "identity": z.identity, "weight_bytes": z.weight_bytes,
                                  "peak_resident_bytes": z.peak, "load_s": z.load, "first_token_s": z.first, "kernels": z.kernels})
    return bad


def list_of(one, what):
    """A parser of comma-separated lists for argparse, which refuses with one line and exit code 2."""
    def parse(text):
        items = text.split(",")
        for item in items:
            if not one(item):
                raise argparse.ArgumentTypeError(f"'{item}' is no {what}")
        return items
    return parse


def is_count(text):
    return re.fullmatch("[1-9][0-9]{0,6}", text) is not None


def is_cell(text):
    kind, _, n = text.partition(":")
    return kind in ("prefill", "decode", "batch") and (is_count(n) or (kind, n) == ("decode", "0"))


def output_file(text):
    path = pathlib.Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written: " + ("it is a folder" if path.is_dir() else "its folder is not there"))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="longer prompts and contexts too")
    parser.add_argument("--models", type=list_of(MODELS.__contains__, f"model here; there are {', '.join(MODELS)}"), default=list(MODELS))
    parser.add_argument("--threads", type=list_of(is_count, "number of threads"), default=[str(t) for t in sorted({1, 2, os.cpu_count()})])
    parser.add_argument("--cells", type=list_of(is_cell, "cell; prefill:N, decode:N and batch:N are"), help="these cells instead")
    parser.add_argument("--builds", type=list_of(BUILDS.__contains__, f"build; there are {', '.join(BUILDS)}"), default=[],
                        help="llama.cpp builds: avx2, avx512, amx; default: the widest that runs here")
    parser.add_argument("--processes", type=int, choices=range(1, 101), metavar="N", default=PROCESSES, help="of each engine")
    parser.add_argument("--kernel", default="", help="zeroulp's kernels, one or several; default: the fastest")
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--record-reference", action="store_true", help=f"compute the cells with the reference kernels into {KNOWN.name} first (minutes)")
    args = parser.parse_args()
    flags = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    builds = args.builds or [next(b for b in BUILDS if BUILDS[b] in flags or b == "avx2")]
    for build in builds:
        if BUILDS[build] not in flags:
            parser.error(f"--builds {build}: this processor does not have {BUILDS[build]}")
    cells = args.cells or CORE + (FULL if args.full else [])
    threads = [int(t) for t in args.threads]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip() or "unknown"
    report = {"schema": "zeroulp.bench-cpu/1", "commit": commit, "command": "bench/cpu.py " + " ".join(sys.argv[1:]),
              "cpu": next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown"),
              "llama_cpp": (ROOT / ".cache/llama.cpp/source.txt").read_text().strip(), "load_average_before": os.getloadavg(),
              "ceilings": [], "cells": [], "engines": []}
    print(f"{report['cpu']}, {os.cpu_count()} hardware threads, commit {commit}; load average {os.getloadavg()[0]:.1f}\n"
          f"llama.cpp: {report['llama_cpp']}")
    if args.record_reference:
        for model in args.models:
            for profile in PROFILES:
                record_reference(Zeroulp(model, profile, "reference"), cells)
    start = time.monotonic()
    bad = sum(measure_model(m, t, cells, builds, args, report) for m in args.models for t in threads)
    report["load_average_after"] = os.getloadavg()
    say(f"measured in {time.monotonic() - start:.0f} s; load average now {os.getloadavg()[0]:.1f}")
    if args.json:
        partial = args.json.with_name(f".{args.json.name}.partial")
        partial.write_text(json.dumps(report, indent=1) + "\n")
        partial.replace(args.json)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
