#!/bin/sh
# check.sh PROBE...: runs the probe (with a launcher before it, perhaps) and compares every line with tests/golden/digests.txt.
set -eu
golden=$(dirname "$0")/../golden/digests.txt
printed=$("$@")
[ -n "$printed" ] || { echo "the probe printed nothing"; exit 1; }
echo "$printed"
echo "$printed" | while read -r family kernel digest; do
  want=$(awk -v f="$family" '$1 == f { print $2 }' "$golden")
  [ "$digest" = "$want" ] || { echo "$family with kernel $kernel gives $digest, golden is $want"; exit 1; }
done
