// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/tensor.hpp"

namespace lockstep {

struct MpiHandle;
class Interconnect;

/// Initializes and finalizes MPI. One object, in main.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// True if MPI was initialized, by an MpiSession or by another program. Callable without an MpiSession.
bool mpi_has_started();
/// True if any thread may call MPI, one at a time.
bool mpi_serves_threads();

/// A group of ranks; a handle, cheap to copy. Calls are collective over the group unless stated otherwise.
class Communicator {
 public:
  /// All ranks of MPI_COMM_WORLD (a single one without mpirun).
  static Communicator world();
  /// This process as a group of one, without MPI, which need not be initialized.
  static Communicator alone();
  /// Wraps an MPI communicator; for files of comm/ only.
  static Communicator over_handle(std::shared_ptr<MpiHandle> mpi) { return Communicator(std::move(mpi)); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// Returns a copy whose messages are separate from those of this communicator.
  Communicator duplicate() const;
  /// Returns the group of ranks that pass the same number, ordered as here.
  Communicator split(int number) const;
  /// Returns the group of ranks that can share memory with this one.
  Communicator on_this_node() const;
  /// Returns this group with transports over `network`, which duplicates and parts inherit. Not collective.
  Communicator over(std::shared_ptr<const Interconnect> network) const;
  /// The network of this group's transports; null: MPI.
  const Interconnect* network() const { return network_.get(); }

  void barrier() const;
  /// Broadcast from one rank to all. The text is resized as needed.
  void broadcast(std::string& text, int from = 0) const;
  /// Broadcasts of numbers or bytes from rank `from`, or from rank 0; sizes must be equal on all ranks.
  void broadcast(const ExecSpace& space, const Tensor& tensor, int from = 0) const;
  void broadcast(std::span<double> values) const;
  void broadcast(std::span<std::byte> bytes, int from = 0) const;
  /// Leaves the element-wise sums over ranks on every rank, with the same bits everywhere.
  void all_reduce_sum(std::span<double> values) const;
  std::int64_t all_reduce_max(std::int64_t value) const;
  double all_reduce_max(double value) const;
  std::int64_t all_reduce_min(std::int64_t value) const;
  double all_reduce_min(double value) const;
  /// Returns, on all ranks, whether `condition` is true on at least one rank.
  bool any_rank(bool condition) const { return all_reduce_max(std::int64_t{condition}) != 0; }
  /// Returns, on all ranks, whether `condition` is true on every rank.
  bool every_rank(bool condition) const { return !any_rank(!condition); }
  /// Returns rank 0's number.
  std::int64_t from_root(std::int64_t value) const;
  /// Returns the values of all ranks, in rank order.
  std::vector<std::int64_t> all_gather(std::int64_t value) const;
  /// Returns the texts of all ranks, in rank order, on rank 0; empty on the others. At most `at_once` bytes (at most
  /// INT_MAX) travel at once; a longer text is an error.
  std::vector<std::string> gather_to_root(const std::string& text, std::int64_t at_once = std::int64_t{1} << 30) const;
  /// Sends `text` of rank `from` to rank 0, which returns it; other ranks return at once. Below 2 GiB.
  std::string to_root(const std::string& text, int from) const;

  /// Runs `work` on every rank and waits for all. If it throws a std::exception on any rank, all ranks throw a
  /// SharedError with the message of the lowest such rank, so that none is left waiting.
  void run_collectively(const std::function<void()>& work) const;
  /// Runs `work`, which has collective calls of a part of this group to which this rank belongs, and waits for all
  /// parts. Errors that all ranks of a part throw (SharedError, and any error of a part of one rank) are thrown on all
  /// ranks, as by run_collectively. Another error leaves ranks of its part waiting, and is thrown at once, on this rank
  /// alone.
  void run_in_parts(const Communicator& part, const std::function<void()>& work) const;
  /// Runs `work` on rank 0 alone; errors are as in run_collectively. Collective.
  void run_on_root(const std::function<void()>& work) const;

  /// Ends all ranks with this status and does not return. Not collective.
  [[noreturn]] void abort(ExitStatus status) const;

  /// The MPI communicator; for files of comm/ only, and not for Communicator::alone().
  MpiHandle& mpi() const { return *mpi_; }

 private:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<MpiHandle> mpi, std::shared_ptr<const Interconnect> network = nullptr);

  std::shared_ptr<MpiHandle> mpi_;  // null for alone()
  std::shared_ptr<const Interconnect> network_;
  int rank_ = 0;
  int size_ = 1;
};

/// "Open MPI v5.0.7 …", in one line.
std::string mpi_version();

/// A value that must be the same on all ranks.
struct Agreement {
  std::string what;    ///< "the deck"
  std::string value;   ///< this rank's value, compared as a whole
  std::string advice;  ///< "start all ranks with the same deck"
  ExitStatus status = ExitStatus::internal;
};

/// Throws SharedError on all ranks if any value differs from that of rank 0. The message names the lowest such rank,
/// both hosts, and the lines that differ. Collective.
void expect_agreement(const Communicator& comm, const Agreement& agreement);

}  // namespace lockstep
