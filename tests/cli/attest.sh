#!/bin/sh
# attest.sh ZEROULP SOURCE: a run that is recorded and replayed: equal under other kernels and threads; every kind of disagreement is named.
set -eu
zeroulp=$1 tiny=$2/tests/golden/tiny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$zeroulp" quantize "$tiny/qwen2" "$work/model" >/dev/null
"$zeroulp" quantize "$tiny/smollm2" "$work/other" >/dev/null
printf 'a secret of both machines' >"$work/key"
printf 'not the one of the others' >"$work/wrong"

# wants CODE WORDS COMMAND...: exit code, and words in what it says.
wants() {
  code=0 want=$1 words=$2
  shift 2
  "$@" >"$work/said" 2>&1 || code=$?
  [ "$code" = "$want" ] && grep -q -e "$words" "$work/said" || { echo "$*: wanted $want '$words', gave $code:"; cat "$work/said"; exit 1; }
}

wants 0 "sealed by its hash" "$zeroulp" verify "$work/model" --record "$work/plain.zlog" --kernel reference --decode 6
wants 0 "sealed with the key" "$zeroulp" verify "$work/model" --record "$work/keyed.zlog" --key "$work/key" --decode 6
wants 0 "sealed by its hash" "$zeroulp" verify "$work/model" --record "$work/drawn.zlog" --decode 6 --temperature 0.8 --seed 11
wants 3 "exists already" "$zeroulp" verify "$work/model" --record "$work/plain.zlog"
for log in plain drawn; do
  wants 0 "^HOLDS: the same bits at all" "$zeroulp" verify "$work/model" --replay "$work/$log.zlog" --threads 3
done
wants 0 "^HOLDS: .*" "$zeroulp" verify "$work/model" --replay "$work/keyed.zlog" --key "$work/key" --kernel reference --json "$work/r.json"
grep -q '"sealed_with_key": true' "$work/r.json"
# What the same command wrote twice differs in nothing but its time, and the two logs are equal to diff.
cp "$work/plain.zlog" "$work/again.zlog"
wants 0 "sealed by its hash" "$zeroulp" verify "$work/model" --record "$work/again.zlog" --force --kernel reference --decode 6
wants 0 "Equal: 8 sequences" "$zeroulp" diff "$work/plain.zlog" "$work/again.zlog"
# A seal that nobody looked at is no seal: diff wants the key too.
wants 3 "is sealed with a key; give --key" "$zeroulp" diff "$work/keyed.zlog" "$work/keyed.zlog"
wants 3 "is not sealed with a key" "$zeroulp" diff "$work/keyed.zlog" "$work/plain.zlog" --key "$work/key"
wants 3 "or the key is another" "$zeroulp" diff "$work/keyed.zlog" "$work/keyed.zlog" --key "$work/wrong"
wants 0 "Equal: 8 sequences" "$zeroulp" diff "$work/keyed.zlog" "$work/keyed.zlog" --key "$work/key"
wants 2 "checkpoints have no seal" "$zeroulp" diff "$work/model" "$work/model" --key "$work/key"
head -c 4000 "$work/keyed.zlog" >"$work/forged.zlog"
printf 'x' >>"$work/forged.zlog"
tail -c +4002 "$work/keyed.zlog" >>"$work/forged.zlog"
wants 3 "its seal does not fit" "$zeroulp" diff "$work/keyed.zlog" "$work/forged.zlog" --key "$work/key"
wants 1 "first divergence: sequence" "$zeroulp" diff "$work/plain.zlog" "$work/drawn.zlog"
# Cut inside its first word, or empty, a log is still called one.
for bytes in 0 5; do
  head -c "$bytes" "$work/plain.zlog" >"$work/cut.zlog"
  wants 3 "is not a run log" "$zeroulp" diff "$work/plain.zlog" "$work/cut.zlog"
done

# Seals.
wants 3 "is sealed with a key; give --key" "$zeroulp" verify "$work/model" --replay "$work/keyed.zlog"
wants 3 "or the key is another" "$zeroulp" verify "$work/model" --replay "$work/keyed.zlog" --key "$work/wrong"
wants 3 "is not sealed with a key" "$zeroulp" verify "$work/model" --replay "$work/plain.zlog" --key "$work/key"
printf 'short' >"$work/short"
wants 3 "16 at least" "$zeroulp" verify "$work/model" --replay "$work/keyed.zlog" --key "$work/short"
head -c 3000 "$work/plain.zlog" >"$work/cut.zlog"
wants 3 "the log was changed or cut off" "$zeroulp" verify "$work/model" --replay "$work/cut.zlog"
wants 3 "is not a run log" "$zeroulp" verify "$work/model" --replay "$work/key"

# Another model, and other bits.
wants 3 "the log is of the model" "$zeroulp" verify "$work/other" --replay "$work/plain.zlog"
wants 1 "^DOES NOT HOLD: .* first position .* of sequence .* the first divergence is in layer 0, residual after attention" "$zeroulp" verify "$work/model" --replay "$work/plain.zlog" --plant chunk
echo "all as claimed"
