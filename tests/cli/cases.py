"""Kernels in pipes: a right one passes for every op, a wrong one is named, and the forms of a stream carry the same cases.

Usage: cases.py ZEROULP MUTANT_KERNEL SOURCE_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ZEROULP, MUTANT, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), pathlib.Path(sys.argv[3])
OPS = ("quant_rows", "linear_s8", "rmsnorm", "residual", "embedding", "silu_mul", "rope", "kv_cache", "attention", "argmax", "nll", "sample")
failures = []


def run(*words, data=b""):
    return subprocess.run([str(w) for w in words], input=data, capture_output=True, timeout=600, check=False)


def expect(what, done, code, *words):
    text = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != code or not all(w in text for w in words):
        failures.append(f"{what}: wanted {code} and {words}, gave {done.returncode}: {text[-1500:]}")


def emit(op, *options):
    done = run(ZEROULP, "cases", "emit", op, *options)
    if done.returncode != 0:
        failures.append(f"emit {op} {options}: {done.stderr.decode()}")
    return done.stdout


def check(data, *options):
    return run(ZEROULP, "cases", "check", *options, data=data)


def pipes():
    for op in OPS:
        stream = emit(op, "--kind", "all", "--count", 60)
        expect(op, check(run(ZEROULP, "cases", "answer", data=stream).stdout), 0, "equal bits")
        wrong = run(MUTANT, data=emit(op, "--kind", "all") if op in ("kv_cache", "sample", "argmax") else emit(op, "--kind", "hard", "--kind", "random"))
        expect(f"{op}, mutant", check(wrong.stdout), 1, "first wrong:", "want", "got", "0x", "rule broken: docs/contract.md, section", "DIFFERS")


def one_case_alone():
    stream = emit("linear_s8", "--first", 7, "--count", 1)
    expect("one case", check(run(ZEROULP, "cases", "answer", "--kernel", "reference", data=stream).stdout), 0, "of 1 cases")
    expect("unanswered", check(stream), 3, "case 7 has no answer")


def files(folder):
    cases, answers = folder / "cases.safetensors", folder / "answers.safetensors"
    expect("file", run(ZEROULP, "cases", "emit", "rope", "--count", 5, "--format", "safetensors", "-o", cases), 0)
    expect("answer", run(ZEROULP, "cases", "answer", "--cases", cases, "-o", answers), 0)
    expect("check", run(ZEROULP, "cases", "check", "--cases", cases, "--answers", answers, "--json", "-"), 0, '"wrong": 0', "zeroulp.cases-check/1")
    expect("no overwriting", run(ZEROULP, "cases", "emit", "rope", "--format", "safetensors", "-o", cases), 3, "exists")


def captured(folder):
    model = folder / "model"
    expect("quantize", run(ZEROULP, "quantize", SOURCE / "tests/golden/tiny/qwen2", model), 0)
    for op in ("linear_s8", "attention", "kv_cache", "rmsnorm", "silu_mul", "argmax", "sample"):
        stream = emit(op, "--kind", "captured", "--model", model, "--tokens", 9)
        expect(f"captured {op}", check(run(ZEROULP, "cases", "answer", data=stream).stdout), 0, "captured cases", "equal bits")


def refusals():
    expect("op", run(ZEROULP, "cases", "emit", "linear"), 2, "one of quant_rows, linear_s8")
    expect("kind", run(ZEROULP, "cases", "emit", "argmax", "--kind", "easy"), 2, "one of exhaustive, hard")
    expect("captured without a model", run(ZEROULP, "cases", "emit", "argmax", "--kind", "captured"), 2, "needs --model")
    expect("no stream", check(b""), 3, "is empty")
    expect("not a stream", check(b"hello, this is not one"), 3, "is not a stream of cases")
    expect("part", run(ZEROULP, "cases", "emitt"), 2, "emit, check, answer or list")
    expect("list", run(ZEROULP, "cases", "list"), 0, *OPS)
    expect("out", run(ZEROULP, "cases", "emit", "argmax", "-o", "x"), 2, "--out has no effect")


with tempfile.TemporaryDirectory() as place:
    pipes()
    one_case_alone()
    files(pathlib.Path(place))
    captured(pathlib.Path(place))
    refusals()
if failures:
    print("\n".join(failures))
    sys.exit(1)
print("all as wanted")
