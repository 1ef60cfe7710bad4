#!/usr/bin/env bash
# run.sh BUILD OUT [PART...]: everything that a GPU build can prove and measure on the machine at hand, into the folder OUT.
#
#   tests        the tests with the label gpu
#   conformance  every GPU kernel of every op against its reference          OUT/conformance.json
#   digests      real models under models/ against the committed digests of the processor
#   sanitizer    memcheck and racecheck over the fused kernels and the conformance cases     OUT/sanitizer.txt
#   bench        decoding and prefill, beside PyTorch where it is installed   OUT/decode.json, OUT/peer.json, OUT/linear.json, OUT/linear.md
#
# Without PART all of them; then OUT/README.md is made from what is there. Exit code 1 when a part fails.
set -uo pipefail
build=$1 out=$2
shift 2
parts=("$@")
((${#parts[@]})) || parts=(tests conformance digests sanitizer bench)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$out"
failed=()

part() {
  local name=$1 started=$SECONDS
  echo "== $name" >&2
  "part_$name" || failed+=("$name")
  echo "== $name: $((SECONDS - started)) s" >&2
}

part_tests() {
  local test code=0
  for test in "$build"/tests/device/*_test "$build"/device_*_test; do
    [[ -x $test ]] || continue
    "$test" --gtest_brief=1 || code=1
  done
  return "$code"
}

part_conformance() { "$build/zeroulp" doctor --conformance --device cuda --json "$out/conformance.json" --force; }

# The committed logs hold the identity of the model that they were made of.
part_digests() {
  local name model golden code=0 checked=0 options
  for name in smollm2 qwen2.5-coder-0.5b; do
    model=$here/models/$name-w8a15 golden=$here/tests/golden/device/$name-w8a15.json
    if [[ ! -d $model || ! -f $golden ]]; then
      echo "digests: $name skipped: no $model" >&2
      continue
    fi
    # Batch (which also changes the pages' order), chunk, ranks, graphs, and every linear kernel.
    for options in "" "--no-graphs" "--batch 5" "--batch 3 --chunk 7" "--ranks 2" "--ranks 3 --batch 4" "--kernel cuda_dp4a" \
      "--kernel wgmma" "--kernel cutlass_sm90" "--kernel triton" "--kernel wgmma_splitk"; do
      # shellcheck disable=SC2086  # words are meant to split
      "$build/zeroulp" digest "$model" --decode 64 --device cuda $options --json "$out/digest.json" --force || {
        echo "digests: $name ${options:-as it is}: could not run" >&2
        continue
      }
      if "$build/zeroulp" diff "$golden" "$out/digest.json" --json >"$out/diff.json"; then
        echo "digests: $name ${options:-as it is}: equal to the processor's"
        checked=$((checked + 1))
      else
        echo "digests: $name ${options:-as it is}: DIFFERS"
        code=1
      fi
    done
  done
  rm -f "$out/digest.json" "$out/diff.json"
  ((checked)) || echo "digests: nothing was checked" >&2
  return "$code"
}

part_sanitizer() {
  command -v compute-sanitizer >/dev/null || {
    echo "sanitizer: skipped: no compute-sanitizer" >&2
    return 0
  }
  local fused=$build/tests/device/device_fused_test code=0
  [[ -x $fused ]] || fused=$build/device_fused_test
  {
    compute-sanitizer --tool memcheck --error-exitcode 9 "$fused" --gtest_brief=1 || code=1
    compute-sanitizer --tool racecheck --error-exitcode 9 "$fused" --gtest_brief=1 --gtest_filter='Fused.*' || code=1
    compute-sanitizer --tool memcheck --error-exitcode 9 "$build/zeroulp" doctor --conformance --device cuda || code=1
    compute-sanitizer --tool racecheck --error-exitcode 9 "$build/zeroulp" doctor --conformance --device cuda || code=1
  } >"$out/sanitizer.txt" 2>&1
  grep -E "SUMMARY|DIFFERS" "$out/sanitizer.txt"
  return "$code"
}

part_bench() {
  local bench=$build/bench/bench_gpu
  [[ -x $bench ]] || bench=$build/bench_gpu
  "$bench" --json "$out/decode.json" || return 1
  local linear=$build/bench/bench_cuda_linear libraries
  [[ -x $linear ]] || linear=$build/bench_cuda_linear
  # cuBLASLt, to measure beside, often comes with PyTorch.
  libraries=$(python3 -c 'import pathlib, nvidia; print(":".join(str(p.parent) for f in nvidia.__path__ for p in pathlib.Path(f).rglob("libcublasLt.so.13")))' 2>/dev/null)
  LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-} "$linear" "$out/linear.json" >"$out/linear.md" || return 1
  if python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
    python3 "$here/bench/peer_torch.py" --json "$out/peer.json"
  else
    echo "bench: PyTorch skipped: it is not installed, or sees no GPU" >&2
  fi
}

for name in "${parts[@]}"; do part "$name"; done
python3 "$here/tools/gpu/table.py" "$out" >"$out/README.md" || failed+=(table)
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
