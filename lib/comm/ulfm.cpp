// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/ulfm.hpp"

#include <cstdlib>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace lockstep::ulfm {

#if defined(MPIX_ERR_PROC_FAILED) && defined(MPIX_ERR_REVOKED) && defined(MPIX_FT)

std::string missing() {
  int* is_on = nullptr;
  int is_known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &is_on, &is_known);
  if (is_known == 0 || *is_on == 0)
    return "the launcher ends all ranks when one dies; start them with mpirun --with-ft ulfm";
  return "";
}

bool is_loss(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  bool lost = kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_REVOKED;
#if defined(MPIX_ERR_PROC_FAILED_PENDING)
  lost |= kind == MPIX_ERR_PROC_FAILED_PENDING;
#endif
  return lost;
}

void revoke(MPI_Comm comm) { MPIX_Comm_revoke(comm); }

MPI_Comm shrink(MPI_Comm comm) {
  MPI_Comm left = MPI_COMM_NULL;
  while (MPIX_Comm_shrink(comm, &left) != MPI_SUCCESS) {  // another process has died meanwhile
  }
  return left;
}

bool agree(MPI_Comm comm, bool yes) {
  int all = yes ? 1 : 0;
  return MPIX_Comm_agree(comm, &all) == MPI_SUCCESS && all == 1;
}

#else

std::string missing() {
  return "the MPI library of this build ends all ranks when one dies; build with one that has ULFM, such as Open MPI "
         "5";
}

bool is_loss(int) { return false; }
void revoke(MPI_Comm) {}
MPI_Comm shrink(MPI_Comm) { std::abort(); }
bool agree(MPI_Comm, bool) { std::abort(); }

#endif

}  // namespace lockstep::ulfm
