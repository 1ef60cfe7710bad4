#!/usr/bin/env bash
# pipe.sh ZEROULP OP KERNEL...: are the kernel's answers to all cases of the op the contract's?
set -euo pipefail
zeroulp=$1 op=$2
shift 2
"$zeroulp" cases emit "$op" --kind all | "$@" | "$zeroulp" cases check --allow-declined
