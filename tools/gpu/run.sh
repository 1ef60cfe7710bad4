#!/usr/bin/env bash
# run.sh BUILD OUT [PART...]: everything that a GPU build can prove and measure on the machine at hand, into the folder OUT.
#
#   tests        the tests with the label gpu
#   conformance  every GPU kernel of every op against its reference          OUT/conformance.json
#   digests      real models under models/ against the committed digests of the processor      OUT/digests.txt
#   running      sampling beside the processor's, the line that too little memory gives, perplexity of 65,536 tokens      OUT/running.txt
#   verify       zeroulp verify --quick --device cuda on both real models and on a seeded one of Qwen3-1.7B's shape    OUT/verify-*.json, *.txt
#   sanitizer    memcheck and racecheck over the fused kernels and the conformance cases     OUT/sanitizer.txt
#   bench        decoding and prefill, beside PyTorch where it is installed   OUT/decode.json, OUT/peer.json, OUT/linear.json, OUT/linear.md
#
# Without PART all of them; then OUT/README.md is made from what is there. Exit code 1 when a part fails. The models are
#   zeroulp quantize models/NAME models/NAME-w8a15 --profile w8a15-free    of smollm2 and qwen2.5-coder-0.5b (./dev models)
#   seeded_model qwen3-1.7b models/smollm2 models/seeded-qwen3-1.7b        made here when it is missing
# and ZEROULP_MODELS may say where models/ is.
set -uo pipefail
build=$1 out=$2
shift 2
parts=("$@")
((${#parts[@]})) || parts=(tests conformance digests running verify sanitizer bench)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
models=${ZEROULP_MODELS:-$here/models}
zeroulp=$build/zeroulp
mkdir -p "$out"
failed=()
# cuBLASLt and NCCL often come with PyTorch.
libraries=$(python3 -c 'import pathlib, nvidia; print(":".join(sorted({str(p.parent) for f in nvidia.__path__ for n in ("libcublasLt.so.13", "libnccl.so.2") for p in pathlib.Path(f).rglob(n)})))' 2>/dev/null)
export LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-}

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

part_conformance() { "$zeroulp" doctor --conformance --device cuda --json "$out/conformance.json" --force; }

# compare NAME WHAT GOLDEN: the log in OUT/digest.json with the processor's, where both have digests.
compare() {
  local found
  found=$("$zeroulp" diff "$3" "$out/digest.json" --common | head -n 1)
  if [[ $found == Equal:* ]]; then
    echo "digests: $1, $2: $found"
  else
    echo "digests: $1, $2: DIFFERS: $found"
    return 1
  fi
}

# The committed logs hold the identity of the model that they were made of.
part_digests() {
  local name model golden code=0 checked=0 options ranks identity
  {
    for name in smollm2 qwen2.5-coder-0.5b; do
      model=$models/$name-w8a15 golden=$here/tests/golden/device/$name-w8a15.json
      if [[ ! -d $model || ! -f $golden ]]; then
        echo "digests: $name skipped: no $model"
        continue
      fi
      identity=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["model"]["identity"])' "$golden")
      grep -q "$identity" "$model/zeroulp.json" || {
        echo "digests: $name: $model is not the model of $golden ($identity)"
        code=1
        continue
      }
      # Batch (which also changes the pages' order), chunk, ranks, graphs, a cached prefix, and every linear kernel.
      for options in "" "--no-graphs" "--batch 5" "--batch 3 --chunk 7" "--ranks 2" "--ranks 3 --batch 4" "--prefix-cache --batch 2" \
        "--kernel cuda_dp4a" "--kernel wgmma" "--kernel cutlass_sm90" "--kernel triton" "--kernel cublaslt" "--kernel wgmma_splitk"; do
        # shellcheck disable=SC2086  # words are meant to split
        "$zeroulp" digest "$model" --decode 64 --device cuda $options --json "$out/digest.json" --force || {
          echo "digests: $name, ${options:-as it is}: could not run"
          code=1
          continue
        }
        compare "$name" "${options:-as it is}" "$golden" || code=1
        checked=$((checked + 1))
      done
      for ranks in 2 3; do
        command -v mpirun >/dev/null || {
          echo "digests: $name, $ranks MPI processes skipped: no mpirun"
          continue
        }
        mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$zeroulp" digest "$model" --decode 64 --device cuda --json "$out/digest.json" --force &&
          compare "$name" "mpirun -n $ranks" "$golden" || code=1
        checked=$((checked + 1))
      done
    done
    ((checked)) || echo "digests: nothing was checked"
    exit "$code"
  } 2>&1 | tee "$out/digests.txt"
  local status=$?
  rm -f "$out/digest.json"
  return "$status"
}

# The seeded model, made when it is missing.
seeded() {
  local folder=$models/seeded-qwen3-1.7b maker=$build/bench/seeded_model
  [[ -x $maker ]] || maker=$build/seeded_model
  [[ -d $folder ]] || "$maker" qwen3-1.7b "$models/smollm2" "$folder" >&2 || return 1
  echo "$folder"
}

part_running() {
  local model=$models/smollm2-w8a15 text=$models/text/novel.txt code=0 options folder line status
  {
    # Sampling on the GPU, logits on the host or not, against the processor.
    printf 'The first rule of numerical\nOnce upon a time\nA package is\nShe said that\nTo install the\n' >"$out/prompts"
    for options in "--temperature 0" "--temperature 0.9 --seed 5" "--temperature 1.3 --top-k 40 --seed 6" "--temperature 0.8 --top-p 0.9 --seed 7"; do
      # shellcheck disable=SC2086
      {
        "$zeroulp" run "$model" --batch "$out/prompts" --max-tokens 64 $options -q >"$out/on-cpu"
        "$zeroulp" run "$model" --batch "$out/prompts" --max-tokens 64 $options -q --device cuda >"$out/on-gpu"
        "$zeroulp" run "$model" --batch "$out/prompts" --max-tokens 64 $options -q --device cuda --no-digests >"$out/drawn-on-gpu"
      }
      if [[ -s $out/on-cpu ]] && cmp "$out/on-cpu" "$out/on-gpu" && cmp "$out/on-cpu" "$out/drawn-on-gpu"; then
        echo "sampling, $options: the processor's text, $(wc -c <"$out/on-cpu") bytes of 5 prompts"
      else
        echo "sampling, $options: DIFFERS"
        code=1
      fi
    done
    # A cache that no GPU holds: 256 sequences of 8,000 positions of the seeded model.
    if folder=$(seeded); then
      python3 -c 'import json; print(json.dumps({"prompts": [[i % 1000 for i in range(8000)]], "decode_tokens": 1}))' >"$out/workload.json"
      line=$("$zeroulp" digest "$folder" --workload "$out/workload.json" --batch 256 --device cuda 2>&1 >/dev/null)
      status=$?
      echo "too little memory: exit code $status: $line"
      [[ $status == 4 && $(wc -l <<<"$line") == 1 && $line == *"GiB of GPU memory are wanted"* ]] || code=1
    fi
    if [[ -f $text ]]; then
      SECONDS=0
      "$zeroulp" quality "$model" --device cuda --text "$text" --tokens 65536 || code=1
      echo "quality of 65,536 tokens: $SECONDS s"
    fi
    exit "$code"
  } 2>&1 | tee "$out/running.txt"
  status=$?
  rm -f "$out"/{prompts,on-cpu,on-gpu,drawn-on-gpu,workload.json}
  return "$status"
}

part_verify() {
  local folder name options code=0
  for folder in "$models"/smollm2-w8a15 "$models"/qwen2.5-coder-0.5b-w8a15 "$(seeded)"; do
    name=$(basename "$folder")
    # Quick: fewer configurations of the processor; the GPU's rows and generations are all there. Of the large model the epilogues alone.
    options=--quick
    [[ $name == seeded-* ]] && options="--quick --epilogues"
    # shellcheck disable=SC2086
    "$zeroulp" verify "$folder" $options --device cuda --text "$models/text/technical.txt" --json "$out/verify-$name.json" --force >"$out/verify-$name.txt" || code=1
    tail -n 1 "$out/verify-$name.txt"
  done
  return "$code"
}

part_sanitizer() {
  command -v compute-sanitizer >/dev/null || {
    echo "sanitizer: skipped: no compute-sanitizer" >&2
    return 0
  }
  local fused=$build/tests/device/device_fused_test code=0
  [[ -x $fused ]] || fused=$build/device_fused_test
  # One process per tool and op: each works on one core most of the time.
  local tool op log job jobs=()
  mkdir -p "$out/sanitizer"
  under() { compute-sanitizer --tool "$1" --error-exitcode 9 "${@:3}" >"$out/sanitizer/$1-$2.txt" 2>&1; }
  for tool in memcheck racecheck; do
    under "$tool" fused "$fused" --gtest_brief=1 --gtest_filter="$([[ $tool == racecheck ]] && echo 'Fused.*' || echo '*')" &
    jobs+=($!)
    for op in argmax attention embedding nll quant_rows residual rmsnorm rope silu_mul linear_s8={cuda_ref,cuda_dp4a,triton,cublaslt,cutlass_sm90,wgmma_splitk,wgmma,cuda}; do
      under "$tool" "$op" "$zeroulp" doctor --conformance --device cuda --op "$op" &
      jobs+=($!)
    done
  done
  for job in "${jobs[@]}"; do wait "$job" || code=1; done
  for log in "$out"/sanitizer/*.txt; do echo "$(basename "$log" .txt): $(grep -E "SUMMARY|DIFFERS" "$log" || echo "no summary")"; done >"$out/sanitizer.txt"
  cat "$out/sanitizer.txt"
  return "$code"
}

part_bench() {
  local bench=$build/bench/bench_gpu
  [[ -x $bench ]] || bench=$build/bench_gpu
  "$bench" --json "$out/decode.json" || return 1
  local linear=$build/bench/bench_cuda_linear
  [[ -x $linear ]] || linear=$build/bench_cuda_linear
  "$linear" "$out/linear.json" >"$out/linear.md" || return 1
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
