#!/bin/sh
# verify.sh ZEROULP SOURCE: the main job from the command line on a tiny real checkpoint: it holds, and each plant makes it fail and is named.
set -eu
zeroulp=$1 tiny=$2/tests/golden/tiny/qwen2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zeroulp" quantize "$tiny" "$work/model" >/dev/null
"$zeroulp" verify "$work/model" --quick --reference "$tiny" --json "$work/v.json" --html "$work/v.html" >"$work/v.txt"
grep -q '^HOLDS: ' "$work/v.txt"
grep -q '"schema": "zeroulp.verify/1"' "$work/v.json"
grep -q '</html>' "$work/v.html"
"$zeroulp" verify "$work/model" --quick --json "$work/v.json" >/dev/null 2>"$work/e.txt" && { echo "an existing report was overwritten"; exit 1; }
grep -q 'force' "$work/e.txt"
for plant in threads:threads batch:batch chunk:"prefill chunk" tensor-parallel:"tensor-parallel degree" prefix-cache:"prefix cache" variant:kernel head:threads; do
  name=${plant%%:*} axis=${plant#*:} code=0
  "$zeroulp" verify "$work/model" --quick --locate --plant "$name" >"$work/p.txt" || code=$?
  if [ "$name" = variant ] && [ $code = 0 ] && ! grep -q avx2 "$work/p.txt"; then echo "variant: one kernel here, skipped"; continue; fi
  [ $code = 1 ] || { echo "plant $name: exit code $code"; exit 1; }
  tail -n 1 "$work/p.txt" | grep -q "DOES NOT HOLD: the bits depend on: .*$axis" || { echo "plant $name:"; tail -n 1 "$work/p.txt"; exit 1; }
  grep -A 1 '^first divergence' "$work/p.txt" | grep -q '^  layer [0-9]*, .* against ' || { echo "plant $name is not located"; cat "$work/p.txt"; exit 1; }
  if [ "$name" = head ]; then grep -q '^  layer [1-9][0-9]*, head, .*(0x[0-9a-f]\{8\}) against ' "$work/p.txt" || { cat "$work/p.txt"; exit 1; }; fi
  echo "plant $name: $(tail -n 1 "$work/p.txt")"
done
# Two runs under other conditions are equal to `diff`; another model is not.
"$zeroulp" digest "$work/model" --kernel reference --json "$work/a.json"
"$zeroulp" digest "$work/model" --threads 3 --batch 3 --chunk 7 --ranks 2 --json "$work/b.json"
"$zeroulp" digest seeded:llama --json "$work/c.json"
"$zeroulp" diff "$work/a.json" "$work/b.json" >/dev/null
if "$zeroulp" diff "$work/a.json" "$work/c.json" >/dev/null; then echo "logs of two models are equal to diff"; exit 1; fi
# The same text on other threads, ranks and batches; JSON with digests.
printf 'one\n"two\\nlines"\nthree\n' >"$work/prompts"
"$zeroulp" run "$work/model" --batch "$work/prompts" --max-tokens 6 --temperature 0.9 --seed 5 -q >"$work/r1"
"$zeroulp" run "$work/model" --batch "$work/prompts" --max-tokens 6 --temperature 0.9 --seed 5 -q --batch-size 1 --ranks 3 --kernel reference >"$work/r2"
cmp "$work/r1" "$work/r2"
echo "all as claimed"
