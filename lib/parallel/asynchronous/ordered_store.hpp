// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/heartbeat.hpp"
#include "comm/collective/collective.hpp"
#include "comm/mailbox.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/topology.hpp"
#include "io/output_file.hpp"
#include "parallel/asynchronous/parameter_store.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The ranks of one worker of asynchronous training, which are neighbours among all ranks. They compute a gradient
/// together, each of them a piece, and sum in the tree of DeterministicReducer. Each rank has its fraction of the
/// parameters.
class WorkerGroup {
 public:
  /// `group` are the ranks of this rank's worker, out of `all`; all groups have equally many. Collective.
  WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters);

  const Communicator& ranks() const { return ranks_; }
  int size() const { return ranks_.size(); }
  /// Number of this group, and number of groups.
  int number() const { return first_ / size(); }
  int count() const { return count_; }
  /// This rank's part of the trained parameters.
  ElementRange fraction() const;

  /// Call when the buffer has the gradient of this rank's piece; the buffer may then be overwritten.
  void piece_done(const ExecSpace& space);
  /// Waits until the buffer has the sum of all pieces. `meanwhile` is called repeatedly and must not wait. Collective.
  void sum(const ExecSpace& space, const std::function<void()>& meanwhile);

  /// Begins to send each rank's values of its fraction to all ranks of the group. They must stay as they are until
  /// `gathered` returns true: then this rank has all values, and has sent its own.
  void gather();
  bool gathered() { return !gather_ || gather_->advance(); }

  /// Seconds that sums have waited since the last call.
  double take_exposed_seconds() { return sum_ ? sum_->take_exposed_seconds() : 0; }

 private:
  Communicator ranks_;
  int count_;
  int first_;  ///< number of its first rank among all ranks
  std::int64_t trained_;
  std::optional<DeterministicReducer> sum_;  ///< none: the rank is alone
  std::unique_ptr<Collective> gather_;       ///< null: the rank is alone
};

/// A ParameterStore and the order of its events, which rank 0 decides as workers come (FreeOrder) and sends to all
/// ranks. It makes progress where it is called (`advance`), as between the layers of passes. Rank 0 keeps the record of
/// the order.
///
/// Each fraction of the parameters (WorkerGroup) has a store of its own, among the ranks that have the same place in
/// their groups. All stores take the same events.
class OrderedStore {
 public:
  /// `record` is the path of the record; empty: there is none. Collective.
  OrderedStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
               const WorkerGroup& group, const std::string& record, std::int64_t part_examples,
               ParameterBuffer& parameters);

  /// Opens the record, which holds the whole run: the first `updates` updates are taken over from the existing one.
  /// Throws Error(bad_data) if that is the record of other workers, and cannot_create or io_error if the file cannot be
  /// written.
  void go_on_after(std::int64_t updates);
  /// See ParallelStrategy::bind.
  void bind(const ParallelStrategy::Updater& updater) { updater_.emplace(updater); }
  /// Takes the parameters of the buffer as those of this version.
  void adopt(const ExecSpace& space, std::int64_t version) { store_.adopt(space, version); }

  /// Workers set out from version `version`, and synchronize at version `sync`.
  void set_out(std::int64_t version, std::int64_t sync);
  /// Waits for what this rank goes on with, until its fraction of the parameters is in the buffer.
  StoreEvent next_turn(const ExecSpace& space);
  /// Serves other ranks until `done()`, while updates wait because the buffer is being read.
  template <class Done>
  void serve_unchanged_until(const ExecSpace& space, const Done& done) {
    store_.hold_updates(true);
    serve_until(space, done);
    store_.hold_updates(false);
  }
  /// Call when all have synchronized and nothing is under way. Waits until this rank's messages are sent.
  void end_course();
  /// Gives the gradients in the buffer. `tells` says that this rank tells rank 0 so, for all ranks of its worker.
  void give(const ExecSpace& space, bool tells);
  /// Does what can be done without waiting; returns whether that was anything.
  bool advance(const ExecSpace& space);

  /// Number of this rank's worker, and number of workers.
  int worker() const { return worker_; }
  int workers() const { return rules_.workers; }
  std::int64_t version() const { return store_.version(); }
  /// Number of examples in what was added since workers set out.
  std::int64_t examples() const { return steps_ * part_examples_; }
  bool has_dropped() const { return store_.has_dropped(); }
  double square(const ExecSpace& space) const { return store_.square(space); }
  GradientCounts counts() const { return {order_.staleness_counts(), order_.dropped() * part_examples_}; }
  void add_sharded_states(std::vector<ShardedState>& all) const { store_.add_sharded_states(all); }
  /// Adds to the record what was decided since the last call; if its disk is full, that is done later.
  void write_record();
  /// Makes sure that the record is on disk. From any thread. Throws io_error.
  void flush_record() {
    if (record_) record_->flush_to_disk();
  }

 private:
  template <class Done>
  void serve_until(const ExecSpace& space, const Done& done) {
    SpinBackoff backoff;
    while (!done()) {
      if (advance(space)) {
        backoff.reset();
        heartbeat().beat();  // a server may have something to do all the time
      } else {
        backoff.pause();
      }
    }
  }
  void take_up_record(std::int64_t updates);
  std::string new_lines();
  void take(const StoreEvent& event);
  void tell(StoreEvent event);

  AsynchronousConfig config_;
  FreeRules rules_;
  Communicator ranks_;
  int members_, worker_;  ///< ranks of a worker; number of this rank's worker
  std::int64_t part_examples_;
  ParameterStore store_;
  Mailbox mailbox_;
  FreeOrder order_;  ///< used by rank 0
  std::optional<ParallelStrategy::Updater> updater_;
  bool is_under_way_ = false;          ///< since the last synchronization
  std::int64_t told_version_ = 0;      ///< newest version, as rank 0 has told
  std::int64_t steps_ = 0;             ///< steps in what was added since workers set out
  std::optional<GrowingFile> record_;  ///< of rank 0, if there is one
};

}  // namespace lockstep
