// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <string>

// For the files of comm/ alone: what MPI libraries that outlive a process have for it (User-Level Failure Mitigation,
// the MPIX_ functions of Open MPI 5), and what others answer in its place.
namespace lockstep::ulfm {

/// Why the death of a process would end all others of this MPI world, and what to do; empty: it need not.
std::string missing();

/// Whether this is what a call returns because a process has died, or because another one has said so (revoke).
bool is_loss(int code);
/// All that waits for ranks of `comm`, here and on other ranks, is to return. Not collective.
void revoke(MPI_Comm comm);
/// The processes of `comm` that live, in their order; each has the same. Collective over them, whatever has died.
MPI_Comm shrink(MPI_Comm comm);
/// Whether all ranks of `comm` are there and have said `yes`: the same answer on all that live. Collective over them.
bool agree(MPI_Comm comm, bool yes);

}  // namespace lockstep::ulfm
