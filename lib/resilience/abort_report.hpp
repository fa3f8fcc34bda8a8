// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// When this process aborts (Kokkos does when a device fails, and libraries when they find that something cannot be),
/// says on which rank, in which step, and on devices after which kernel; then ends it with ExitStatus::internal, upon
/// which the launcher ends all ranks. Called after MPI's start, which takes the signal too.
void report_aborts(int rank);

}  // namespace lockstep
