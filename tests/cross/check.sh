#!/bin/sh
# check.sh PROBE...: runs the probe (with a launcher before it, perhaps) and compares every line with tests/golden/digests.txt and conversions.txt.
set -eu
golden=$(dirname "$0")/../golden
printed=$("$@" "$golden/tiny")
[ -n "$printed" ] || { echo "the probe printed nothing"; exit 1; }
echo "$printed"
echo "$printed" | while read -r name kernel digest; do
  want=$(cat "$golden/digests.txt" "$golden/conversions.txt" | awk -v n="$name" '$1 == n { print $2 }')
  [ "$digest" = "$want" ] || { echo "$name with kernel $kernel gives $digest, golden is $want"; exit 1; }
done
while read -r name want; do
  echo "$printed" | grep -q "^$name " || { echo "the probe did not print $name"; exit 1; }
done <"$golden/conversions.txt"
