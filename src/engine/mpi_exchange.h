// Tensor-parallel ranks that are MPI processes. Built where an MPI library was found.
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/exchange.h"

namespace zeroulp::engine {

bool built_with_mpi();

// True when this process was started by an MPI launcher (its environment says so) and the build has MPI.
bool launched_by_mpi();
// This process's place in that launch and the number of its processes, as the environment says; 0 of 1 when there was none.
int launch_rank();
int launch_size();

// Initialises MPI once per process; the exchange over all ranks of the launch. Exit code 4 when the build has no MPI.
Result<std::unique_ptr<Exchange>> make_mpi_exchange();

}  // namespace zeroulp::engine
