// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include "comm/communicator.hpp"

namespace lockstep {

/// Returns the ranks of another program's communicator; messages are separate from that program's. MPI errors end the
/// ranks, whatever error handler the program has set. Throws bad_usage if MPI is not running, or for MPI_COMM_NULL.
/// Collective, as is the destruction of the last copy.
Communicator communicator_of(MPI_Comm comm);

}  // namespace lockstep
