#!/bin/sh
# mpi.sh ZEROULP RANKS: the tiny models with tensor-parallel ranks as MPI processes give the golden digests.
set -eu
zeroulp=$1 ranks=$2
golden=$(dirname "$0")/../golden/digests.txt
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
while read -r family want; do
  log=$(mpirun --oversubscribe --mca btl self,vader -n "$ranks" "$zeroulp" digest "seeded:$family" --threads 1)
  got=$(echo "$log" | sed -n 's/.*"combined": "\([0-9a-f]*\)".*/\1/p')
  echo "$family, $ranks MPI processes: $got"
  [ "$got" = "$want" ] || { echo "golden is $want"; exit 1; }
  echo "$log" | grep -q '"ranks_are": *"MPI processes"' || { echo "the ranks were not MPI processes"; exit 1; }
done < "$golden"
