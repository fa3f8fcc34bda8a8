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

/// Starts and ends MPI; one object in main.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Whether there is an MpiSession, or another program's. Needs none.
bool mpi_has_started();
/// Whether MPI may be called by any thread, one at a time.
bool mpi_serves_threads();

/// An error that every rank throws at the same place: one of them may speak for all.
struct SharedError : Error {
  using Error::Error;
};

/// A group of ranks: a handle, of which classes keep copies. Every call is collective over them unless it says
/// otherwise.
class Communicator {
 public:
  /// All ranks of the MPI world (a single one without mpirun).
  static Communicator world();
  /// This process by itself, without MPI, which need not have started: what is collective concerns nobody else.
  static Communicator alone();
  /// For comm/ alone: what `mpi` stands for.
  static Communicator over_handle(std::shared_ptr<MpiHandle> mpi) { return Communicator(std::move(mpi)); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }

  /// A copy of this communicator, whose messages do not meet those of others.
  Communicator duplicate() const;
  /// The ranks that give the same number, in the order that they have here.
  Communicator split(int number) const;
  /// The ranks that can share memory with this one.
  Communicator on_this_node() const;
  /// These ranks, whose transports are made of this network; so are those of duplicates and parts. Of this rank
  /// alone.
  Communicator over(std::shared_ptr<const Interconnect> network) const;
  /// Null: MPI.
  const Interconnect* network() const { return network_.get(); }

  void barrier() const;
  /// From one rank to all.
  void broadcast(std::string& text, int from = 0) const;
  /// Numbers of one rank go to all: doubles those of rank 0.
  void broadcast(const ExecSpace& space, const Tensor& tensor, int from = 0) const;
  void broadcast(std::span<double> values) const;
  void broadcast(std::span<std::byte> bytes, int from = 0) const;
  /// Element-wise sums over ranks, left on every rank; the same bits on all of them.
  void all_reduce_sum(std::span<double> values) const;
  std::int64_t all_reduce_max(std::int64_t value) const;
  /// What each rank has given, in the order of ranks.
  std::vector<std::int64_t> all_gather(std::int64_t value) const;
  /// What each rank has given, on rank 0 alone; empty on the others.
  std::vector<std::string> gather_to_root(const std::string& text) const;
  /// The text of rank `from` for rank 0, to which it is returned; no other rank takes part. Below 2 GiB.
  std::string to_root(const std::string& text, int from) const;

  /// Runs `work` on every rank and waits for all. When it throws anywhere, every rank throws a
  /// SharedError with the message of the lowest rank on which it did, so that all leave the same way and none is left
  /// waiting.
  void run_collectively(const std::function<void()>& work) const;

  /// Ends all ranks with this status, from any one of them. Does not return.
  [[noreturn]] void abort(ExitStatus status) const;

  /// For comm/ alone, which has no use for a Communicator::alone().
  MpiHandle& mpi() const { return *mpi_; }

 private:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<MpiHandle> mpi, std::shared_ptr<const Interconnect> network = nullptr);

  std::shared_ptr<MpiHandle> mpi_;  // null: alone, without MPI
  std::shared_ptr<const Interconnect> network_;
  int rank_ = 0;
  int size_ = 1;
};

/// Name of the machine that this rank runs on.
std::string host_name();

/// "Open MPI v5.0.7 …", one line.
std::string mpi_version();

}  // namespace lockstep
