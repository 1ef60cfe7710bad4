#!/bin/sh
# faults.sh ZEROULP: the fault study of a tiny model from the command line; killed at any time it goes on where it was.
set -eu
zeroulp=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zeroulp" faults --list | grep -q '^| scale-order '
# The gates on the suite's own inputs: equality rejects all of the catalogue, one bf16 spacing does not.
"$zeroulp" faults --suite --json "$work/s.json" >"$work/s.txt"
faults=$("$zeroulp" faults --list | sed '/^cannot change/,$d' | grep -c '^| [a-z]')
grep -q "^equal bits: rejects $((faults - 1)) of $((faults - 1)) faults" "$work/s.txt"
grep -q '^| truncated .*| x     | \.  ' "$work/s.txt"
grep -q '^| quant-truncated .*| x     | -  ' "$work/s.txt"
grep -q '"measured": "x\.\.\.\.\.\."' "$work/s.json"
code=0
"$zeroulp" faults --suite --only no-such-fault >/dev/null 2>"$work/e" || code=$?
[ $code = 2 ] && grep -q 'no-such-fault' "$work/e"
run() { "$zeroulp" faults seeded:qwen2 --threads 1 --only truncated --only bias-lost --only silu-exchanged "$@"; }
run --results "$work/whole" --json "$work/f.json" --html "$work/f.html" >"$work/f.txt"
grep -q '^Equality rejects all 3 faults' "$work/f.txt"
grep -q '"schema": "zeroulp.faults/1"' "$work/f.json"
grep -q '</html>' "$work/f.html"
# Killed: what was there stays, and the rest comes out the same.
run --results "$work/killed" >/dev/null & pid=$!
while [ ! -e "$work/killed/truncated.json" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
kill -9 "$pid" 2>/dev/null || true
wait "$pid" || true
run --results "$work/killed" >/dev/null
for name in truncated bias-lost silu-exchanged; do
  grep -v seconds "$work/whole/$name.json" >"$work/a"
  grep -v seconds "$work/killed/$name.json" >"$work/b"
  cmp "$work/a" "$work/b"
done
# Another number of threads is another study.
code=0
"$zeroulp" faults seeded:qwen2 --threads 2 --only truncated --results "$work/whole" >/dev/null 2>"$work/e" || code=$?
[ $code = 3 ] && grep -q 'baseline.json' "$work/e"
code=0
"$zeroulp" faults seeded:qwen2 --only no-such-fault --results "$work/whole" >/dev/null 2>"$work/e" || code=$?
[ $code = 2 ] && grep -q 'no-such-fault' "$work/e"
# A result that is another fault's, and one that was cut off, are bad input; the line says how to mend it.
cp "$work/whole/truncated.json" "$work/whole/bias-lost.json"
code=0
run --results "$work/whole" >/dev/null 2>"$work/e" || code=$?
[ $code = 3 ] && grep -q 'bias-lost.json: is of another fault, "truncated"; remove it, and bias-lost is run again' "$work/e"
: >"$work/whole/bias-lost.json"
code=0
run --results "$work/whole" >/dev/null 2>"$work/e" || code=$?
[ $code = 3 ] && grep -q 'bias-lost.json: damaged (.*); remove it, and it is run again' "$work/e"
rm "$work/whole/bias-lost.json"
run --results "$work/whole" >/dev/null
# Options without effect.
refused() {
  code=0
  "$zeroulp" faults "$@" >/dev/null 2>"$work/e" || code=$?
  [ $code = 2 ] && [ "$(wc -l <"$work/e")" = 1 ] && grep -q 'has no effect' "$work/e"
}
refused seeded:llama --text "$work/f.txt" --results "$work/none"
refused seeded:llama --list
refused seeded:llama --suite
refused --suite --threads 2
[ ! -e "$work/none" ]
# --outputs holds for a seeded model as for any.
"$zeroulp" faults seeded:llama --threads 1 --only truncated --outputs --results "$work/outputs" --json - | grep -q '"measured": "xx\.\.\.\.\.\.--"'
# One fault is not spoken of as many.
"$zeroulp" faults --suite --only truncated | grep -q '^equal bits: rejects 1 of 1 fault\.'
echo "all as claimed"
