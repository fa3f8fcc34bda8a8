// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <string>

// User-Level Failure Mitigation, for files of comm/ only: the MPIX_ functions of Open MPI 5, and substitutes for MPI
// libraries without them.
namespace lockstep::ulfm {

/// Explains why the death of one process would end all of this MPI world, and what to do; empty if it would not.
std::string missing();

/// True if an MPI call returned `code` because a process has died, or because another rank revoked the communicator.
bool is_loss(int code);
/// Makes all operations on `comm` that wait, on all ranks, return with an error. Not collective.
void revoke(MPI_Comm comm);
/// Returns a communicator of the living processes of `comm`, in their order. Collective over them, whatever has died.
MPI_Comm shrink(MPI_Comm comm);
/// Returns whether all ranks of `comm` are alive and passed yes = true; the same answer on all living ranks, over which
/// it is collective.
bool agree(MPI_Comm comm, bool yes);

}  // namespace lockstep::ulfm
