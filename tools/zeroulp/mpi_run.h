// Another run of this program under an MPI launcher.
#pragma once

#include <string>

#include "base/result.h"
#include "verify/digests.h"

namespace zeroulp::cli {

// Empty when `mpirun` is on the PATH and this build has MPI; otherwise why not.
std::string why_no_mpi();

// The digest log of the workload with `ranks` MPI processes, by `mpirun -n RANKS zeroulp digest MODEL`.
Result<verify::DigestLog> digest_under_mpi(const std::string& model_folder, const verify::Workload& workload, int ranks);

}  // namespace zeroulp::cli
