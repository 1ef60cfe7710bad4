#!/bin/sh
# pack.sh ZEROULP SOURCE: a packed model runs as it is, unpacks to the same bytes, and damage is named in one line with nothing left behind.
set -eu
zeroulp=$1 tiny=$2/tests/golden/tiny/qwen2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zeroulp" quantize "$tiny" "$work/model" >/dev/null
for level in fast balanced rest; do
  "$zeroulp" pack "$work/model" "$work/packed" --level "$level" --channels --force >/dev/null
  "$zeroulp" unpack "$work/packed" "$work/back" --force >/dev/null
  diff -r "$work/model" "$work/back"
done
"$zeroulp" run "$work/model" --prompt one --max-tokens 6 -q >"$work/a"
"$zeroulp" run "$work/packed" --prompt one --max-tokens 6 -q >"$work/b"
cmp "$work/a" "$work/b"
"$zeroulp" pack "$work/model" "$work/packed" 2>"$work/e" && { echo "an existing folder was overwritten"; exit 1; }
grep -q force "$work/e"
# One byte of the last frame damaged.
size=$(wc -c <"$work/packed/model.safetensors")
printf '\125' | dd of="$work/packed/model.safetensors" bs=1 seek=$((size - 40)) conv=notrunc 2>/dev/null
printf '\252' | dd of="$work/packed/model.safetensors" bs=1 seek=$((size - 41)) conv=notrunc 2>/dev/null
for verb in "unpack $work/packed $work/out" "run $work/packed --prompt one"; do
  code=0
  # shellcheck disable=SC2086  # words on purpose
  "$zeroulp" $verb >/dev/null 2>"$work/e" || code=$?
  [ "$code" = 3 ] || { echo "$verb: exit code $code"; cat "$work/e"; exit 1; }
  [ "$(wc -l <"$work/e")" = 1 ] && grep -q 'tensor' "$work/e"
done
[ ! -e "$work/out" ]
echo "packed models run, unpack and refuse damage"
