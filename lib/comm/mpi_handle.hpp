// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "comm/communicator.hpp"
#include "core/dtype.hpp"

// The MPI side of Communicator: all but communicator_of is for files of comm/ only.
namespace lockstep {

/// True if a destructor may make a collective release. False after MPI_Finalize; during an exception, which other ranks
/// may not have, so that this one would wait for them instead of reporting it; and after the loss of a rank, for which
/// the release might wait. What is not released is left to the MPI library.
bool may_release();

/// Maintains the list of communicators that are revoked when a rank is lost (SurvivingRanks).
void register_communicator(MPI_Comm comm);
void forget_communicator(MPI_Comm comm);

/// Throws RankLost if `code`, returned by an MPI call, means the loss of a rank, else Error. MPI calls return errors
/// only if ranks survive (SurvivingRanks); otherwise MPI itself ends the ranks.
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

/// Serializes calls of MPI, which is initialized for one thread at a time; a second thread may advance reductions. Held
/// for all calls that do not wait. Recursive, because the thread that detects a lost rank may hold it. Waiting for the
/// lock counts as waiting for other ranks.
class MpiLock {
 public:
  MpiLock();
  ~MpiLock();
  MpiLock(const MpiLock&) = delete;
  MpiLock& operator=(const MpiLock&) = delete;
};

/// Records the size of a message that begins; after a loss, messages in progress get time in proportion to the largest.
void note_message(std::size_t bytes);

/// True if the request is complete or MPI_REQUEST_NULL. Makes progress and does not wait.
bool has_ended(MPI_Request& request);

/// Largest count of one MPI call: counts are ints.
inline constexpr std::int64_t max_mpi_count = std::int64_t{1} << 30;

/// Calls f(first, count as an int) for consecutive pieces that MPI calls can take.
template <class F>
void for_mpi_pieces(std::size_t elements, const F& f) {
  for (std::size_t done = 0, count = 0; done < elements; done += count) {
    count = std::min<std::size_t>(elements - done, max_mpi_count);
    f(done, static_cast<int>(count));
  }
}

MPI_Datatype mpi_type(DType dtype);

/// Returns the ranks of another program's communicator; messages are separate from that program's. MPI errors end the
/// ranks, whatever error handler the program has set. Throws bad_usage if MPI is not running, or for MPI_COMM_NULL.
/// Collective, as is the destruction of the last copy.
Communicator communicator_of(MPI_Comm comm);

}  // namespace lockstep
