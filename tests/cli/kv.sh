#!/bin/sh
# kv.sh ZEROULP SOURCE: a saved KV cache goes on with the digests of the uninterrupted run; another model and damage are refused in one line.
set -eu
zeroulp=$1 tiny=$2/tests/golden/tiny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zeroulp" quantize "$tiny/qwen2" "$work/model" >/dev/null
"$zeroulp" quantize "$tiny/llama3" "$work/other" >/dev/null
steps() { sed -n 's/.*"position": \([0-9]*\).*/\1/p; s/.*"token": \([0-9]*\).*/\1/p; s/.*"xxh3": "\(.*\)".*/\1/p' "$1"; }
set -- --ignore-stop --temperature 0.7 --seed 3 -q
"$zeroulp" run "$work/model" --prompt "one two three" --max-tokens 20 --json "$work/whole.json" "$@" >/dev/null
"$zeroulp" run "$work/model" --prompt "one two three" --max-tokens 0 --save-kv "$work/prefill" -q >/dev/null
"$zeroulp" run "$work/model" --load-kv "$work/prefill" --max-tokens 8 --save-kv "$work/middle" --json "$work/first.json" "$@" >/dev/null
"$zeroulp" run "$work/model" --load-kv "$work/middle" --max-tokens 12 --kernel reference --json "$work/rest.json" "$@" >/dev/null
steps "$work/whole.json" >"$work/expected"
{ steps "$work/first.json"; steps "$work/rest.json"; } >"$work/made"
[ -s "$work/expected" ]
cmp "$work/expected" "$work/made"

refuse() { # CODE WORDS ARGUMENT...
  wanted=$1 words=$2 code=0
  shift 2
  "$zeroulp" "$@" >/dev/null 2>"$work/e" || code=$?
  [ "$code" = "$wanted" ] && [ "$(wc -l <"$work/e")" = 1 ] && grep -q "$words" "$work/e" || { echo "$*: exit code $code"; cat "$work/e"; exit 1; }
}
refuse 3 "another model" run "$work/other" --load-kv "$work/middle"
refuse 3 "no saved KV cache" run "$work/model" --load-kv "$work/model/model.safetensors"
refuse 2 "exactly one of" run "$work/model" --max-tokens 3
refuse 2 "batch" run "$work/model" --load-kv "$work/middle" --batch "$work/e"
refuse 3 "force" run "$work/model" --load-kv "$work/middle" --save-kv "$work/middle"
size=$(wc -c <"$work/middle")
printf '\125\252' | dd of="$work/middle" bs=1 seek=$((size - 200)) conv=notrunc 2>/dev/null
refuse 3 "tensor" run "$work/model" --load-kv "$work/middle"
echo "a saved cache goes on with the same digests"
