// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

// For the files of comm/ alone: what follows a Communicator.
namespace lockstep {

/// Whether a destructor may release what ranks release together. Not once MPI has ended; and not while an exception
/// goes by, since the other ranks may not have it, and this one would wait for them instead of saying what is wrong.
/// Nor once a rank has been lost, for whom that might wait: what was made with it is left to the library until the end.
bool may_release();

/// What is known of communicators to who revokes them all when a rank is lost (SurvivingRanks).
void register_communicator(MPI_Comm comm);
void forget_communicator(MPI_Comm comm);

/// Throws RankLost where that is what a call of MPI has returned (else Error), which it does where ranks survive; where
/// not, MPI itself ends them.
[[noreturn]] void mpi_failed(int code);
inline void expect_mpi(int code) {
  if (code != MPI_SUCCESS) mpi_failed(code);
}

struct MpiHandle {
  explicit MpiHandle(MPI_Comm given) : comm(given) { register_communicator(comm); }
  MpiHandle(const MpiHandle&) = delete;
  MpiHandle& operator=(const MpiHandle&) = delete;
  ~MpiHandle() {
    forget_communicator(comm);
    if (comm != MPI_COMM_WORLD && may_release()) MPI_Comm_free(&comm);
  }

  MPI_Comm comm;
};

/// MPI is asked for calls of one thread at a time; while a second thread advances reductions, all calls that do not
/// wait are made under this lock. (Recursive, as who finds a rank lost may hold it; who waits for that one waits for
/// other ranks.)
class MpiLock {
 public:
  MpiLock();
  ~MpiLock();
  MpiLock(const MpiLock&) = delete;
  MpiLock& operator=(const MpiLock&) = delete;
};

/// A message of so many bytes begins, which a lost rank may leave half sent.
void note_message(std::size_t bytes);

/// Whether what the request stands for is done; also for MPI_REQUEST_NULL.
bool has_ended(MPI_Request& request);

/// Counts of one MPI call are ints.
inline constexpr std::int64_t max_mpi_count = std::int64_t{1} << 30;

/// Calls f(first, how many, as an int) for the pieces of so many elements that calls of MPI can take.
template <class F>
void for_mpi_pieces(std::size_t elements, const F& f) {
  for (std::size_t done = 0, count = 0; done < elements; done += count) {
    count = std::min<std::size_t>(elements - done, max_mpi_count);
    f(done, static_cast<int>(count));
  }
}

MPI_Datatype mpi_type(DType dtype);

}  // namespace lockstep
