// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// When this process aborts (Kokkos aborts if a device fails, and libraries if they find that something cannot be),
/// reports on which rank, in which step and, on devices, after which kernel; then ends the process with
/// ExitStatus::internal, upon which the launcher ends all ranks. Call it after MPI has started, because MPI takes the
/// signal, too.
void report_aborts(int rank);

}  // namespace lockstep
