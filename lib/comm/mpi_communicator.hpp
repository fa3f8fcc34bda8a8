// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include "comm/communicator.hpp"

namespace lockstep {

/// The ranks of another program's communicator; their messages do not meet those of that program. Errors of MPI itself
/// end the ranks, whatever that program has set. Throws bad_usage where MPI does not run, or for MPI_COMM_NULL.
/// Collective, as is the end of the last copy of it.
Communicator communicator_of(MPI_Comm comm);

}  // namespace lockstep
