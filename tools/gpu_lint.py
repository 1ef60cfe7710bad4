#!/usr/bin/env python3
"""The numerics rules of the GPU kernels, checked in what the compiler made of them: gpu_lint.py [SOURCE...] [--nvcc NVCC] [--disassembler CUOBJDUMP]

PTX of every .cu file of src/ops, compiled with the build's own flags:
  rounding   add, sub and mul of f32 without .rn: the assembler may contract them
  approx     .approx, .ftz, div.full, ex2, lg2, rsqrt, rcp, tanh, sin, cos
  fma        fma.f32 outside the files whose contract says fma, or any fma that is not .rn
  float-mma  matrix products with floating-point operands or sums
  atomics    atomics and reductions of floats
SASS of the objects that ./dev gpu build left in build-cuda, other people's main loops included:
  float-mma  HMMA, HGMMA, QMMA, QGMMA, DMMA
  approx     MUFU other than the reciprocal and the root that exact division and square root begin with
(Flushing instructions say nothing there: the exact division's own expansion has them; the PTX rule is the one that counts.)

Exit code 0: clean; 1: a breach; 4: there is no nvcc, nothing was checked. A missing disassembler or build is said, never passed over.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Files whose contract.h says fma: the exponentials, attention's merges, the linear's bias.
FMA_ALLOWED = ("attention/", "fused/", "linear_s8/", "nll/", "sample/", "silu_mul/")
# Only their SASS is checked: their PTX is made by other tools, or takes a minute, or has no contracted arithmetic of ours in it.
PTX_EXEMPT = {"src/ops/linear_s8/cutlass_sm90.cu": "CUTLASS templates: a minute to compile"}

PTX_RULES = (
    ("rounding", re.compile(r"\b(?:add|sub|mul)\.f32\b")),
    ("approx", re.compile(r"\.approx|\.ftz|\bdiv\.full|\bex2\.|\blg2\.|\brsqrt\.|\brcp\.(?!rn)|\btanh\.|\bsin\.|\bcos\.")),
    ("fma", re.compile(r"\bmad\.f32|\bfma\.(?!rn)[a-z.]*f32")),
    ("float-mma", re.compile(r"\b(?:mma|wgmma)\S*\.(?:f16|bf16|tf32|f32|e4m3|e5m2)\b")),
    ("atomics", re.compile(r"\b(?:atom|red)\S*\.(?:f16|bf16|f32|f64)\b")),
)
FMA = re.compile(r"\bfma\.rn\.f32\b")
SASS_RULES = (
    ("float-mma", re.compile(r"\b(?:HMMA|HGMMA|QMMA|QGMMA|DMMA)\b")),
    ("approx", re.compile(r"\bMUFU\.(?!RCP|RSQ|RCP64H|RSQ64H)\w+")),
)


def ptx_breaches(ptx, fma_allowed):
    """(rule, function, instruction) for every breach."""
    function, found = "?", []
    for line in ptx.splitlines():
        line = line.split("//")[0].strip()
        if entry := re.search(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", line):
            function = entry.group(1)
        for rule, pattern in PTX_RULES:
            if pattern.search(line):
                found.append((rule, function, line))
        if not fma_allowed and FMA.search(line):
            found.append(("fma", function, line))
    return found


def sass_breaches(sass):
    function, found = "?", []
    for line in sass.splitlines():
        if entry := re.search(r"Function : (\S+)", line):
            function = entry.group(1)
        instruction = re.sub(r"/\*[^*]*\*/", "", line).strip()
        for rule, pattern in SASS_RULES:
            if pattern.search(instruction):
                found.append((rule, function, instruction))
    return found


def build_flags(root):
    text = (root / "CMakeLists.txt").read_text()
    found = re.search(r"COMPILE_LANGUAGE:CUDA>:\\\n([^\"]*)>", text)
    if not found:
        raise SystemExit("gpu_lint: CMakeLists.txt does not say the flags of CUDA sources where they are looked for")
    return [f for f in found.group(1).split(";") if not f.startswith("-Xcompiler")]


class Nvcc:
    def __init__(self, path, root):
        self.path, self.root = path, root

    def ptx(self, source, flags):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.ptx"
            command = [self.path, "-std=c++20", "-O3", "-gencode=arch=compute_90a,code=compute_90a", "-DNDEBUG", "-DFMT_SHARED", '-DZEROULP_KERNEL_FOLDER="kernels"',
                       *flags, "-I", str(self.root / "src"), "-ptx", str(source), "-o", str(out)]
            made = subprocess.run(command, capture_output=True, text=True)
            if made.returncode != 0:
                raise SystemExit(f"gpu_lint: {source} does not compile:\n{made.stderr}")
            return out.read_text()


MUTANTS = {
    "contraction": ("fma", "rope/", "__global__ void k(float* x) { x[0] = x[1] * x[2] + x[3]; }", ["-fmad=true"]),
    "a product left to the assembler": ("rounding", "", "__global__ void k(float* x) { x[0] = x[1] * x[2]; }", ["-fmad=true"]),
    "fma where none is said": ("fma", "rope/", "__global__ void k(float* x) { x[0] = __fmaf_rn(x[1], x[2], x[3]); }", None),
    "approximate division": ("approx", "", "__global__ void k(float* x) { x[0] = __fdividef(x[1], x[2]); }", None),
    "approximate exponential": ("approx", "", "__global__ void k(float* x) { x[0] = __expf(x[1]); }", None),
    "fast math": ("approx", "", "__global__ void k(float* x) { x[0] = x[1] / x[2]; }", ["-use_fast_math"]),
    "float atomics": ("atomics", "", "__global__ void k(float* x) { atomicAdd(x, 1.0f); }", None),
}


def check_mutants(nvcc, flags):
    """Every rule must reject a kernel that breaks it, and a clean kernel must pass."""
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "mutant.cu"
        for name, (rule, place, text, instead) in MUTANTS.items():
            source.write_text(text + "\n")
            found = ptx_breaches(nvcc.ptx(source, flags if instead is None else instead), place == "" or place in FMA_ALLOWED)
            if rule not in {r for r, _, _ in found}:
                failures.append(f"mutant '{name}' was not rejected by the rule '{rule}'")
        source.write_text("__global__ void k(float* x) { x[0] = x[1] * x[2] + x[3] / x[4]; }\n")
        if found := ptx_breaches(nvcc.ptx(source, flags), False):
            failures.append(f"a clean kernel was rejected: {found}")
    for rule, line in (("float-mma", "HGMMA.64x128x16.F32 R24, gdesc[UR4] ;"), ("approx", "MUFU.EX2 R1, R2 ;")):
        if rule not in {r for r, _, _ in sass_breaches(f"        /*0010*/  {line}  /* 0x0 */")}:
            failures.append(f"the SASS line '{line}' was not rejected by the rule '{rule}'")
    if sass_breaches("/*0010*/ MUFU.RCP R1, R2 ;\n/*0020*/ FFMA R1, R2, R3, R4 ;\n/*0030*/ IGMMA.64x128x32.S8.S8 R24 ;"):
        failures.append("clean SASS was rejected")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("sources", nargs="*", help="only .cu files whose path holds one of these")
    parser.add_argument("--nvcc", default=os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    wheel = sorted(root.glob(".cache/gpu/venv/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump"))
    parser.add_argument("--disassembler", default=shutil.which("cuobjdump") or (str(wheel[0]) if wheel else ""))
    o = parser.parse_args()
    if not os.access(o.nvcc, os.X_OK):
        print("gpu_lint: skipped: there is no nvcc here, so no GPU code was checked")
        return 4
    nvcc, flags = Nvcc(o.nvcc, root), build_flags(root)
    breaches = check_mutants(nvcc, flags)
    sources = [s for s in sorted((root / "src/ops").rglob("*.cu")) if not o.sources or any(part in str(s) for part in o.sources)]
    for source in sources:
        name = str(source.relative_to(root))
        if name in PTX_EXEMPT:
            print(f"gpu_lint: PTX of {name} left out: {PTX_EXEMPT[name]}")
            continue
        allowed = any(part in name for part in FMA_ALLOWED)
        breaches += [f"{name}: {rule}: {line} (in {function})" for rule, function, line in ptx_breaches(nvcc.ptx(source, flags), allowed)]
    objects = sorted((root / "build-cuda").rglob("*.cu.o")) + sorted((root / "build-cuda").rglob("*.cubin"))
    if not o.disassembler or not os.access(o.disassembler, os.X_OK):
        print("gpu_lint: SASS not checked: there is no cuobjdump (./dev gpu build fetches one)")
    elif not objects:
        print("gpu_lint: SASS not checked: build-cuda holds no objects (./dev gpu build)")
    else:
        for path in objects:
            made = subprocess.run([o.disassembler, "-sass", str(path)], capture_output=True, text=True)
            if made.returncode != 0:
                raise SystemExit(f"gpu_lint: {path}: {made.stderr.strip()}")
            breaches += [f"{path.name}: {rule}: {line} (in {function})" for rule, function, line in sass_breaches(made.stdout)]
    for breach in breaches:
        print(breach)
    print(f"gpu_lint: {len(sources)} sources, {len(objects)} objects, {len(MUTANTS)} mutants, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
