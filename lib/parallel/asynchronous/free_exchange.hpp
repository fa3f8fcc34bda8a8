// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/heartbeat.hpp"
#include "comm/collective/collective.hpp"
#include "comm/mailbox.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/topology.hpp"
#include "io/output_file.hpp"
#include "parallel/asynchronous/parameter_store.hpp"
#include "parallel/asynchronous/worker_exchange.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/optimizer_step_count.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// A rank's place among workers that are groups of neighbouring ranks, equally many each. Servers, of one rank each,
/// come before them.
struct WorkerPlace {
  /// `ranks` are those of this rank's worker, or this server, out of `all`. Collective over `ranks`.
  WorkerPlace(const Communicator& all, const Topology& ranks, int workers);

  int members() const { return ranks.all.size(); }
  bool is_server() const { return number < servers; }
  int worker() const { return number - servers; }
  /// The part of the parameters that this rank reads from a store, and gives to it: it has the others from the ranks of
  /// its worker.
  ElementRange fraction(const ParameterBuffer& parameters) const;
  /// The part of that fraction that this rank keeps for all workers.
  ElementRange kept(const ParameterBuffer& parameters) const {
    return kept_slice(fraction(parameters), number, count, servers);
  }

  Topology ranks;
  int number = 0, count = 1;  ///< number of this worker or server; number of workers and servers together
  int servers = 0;
};

/// Sums the gradients of a worker's ranks. The parameters are updated by those who keep them (FreeExchange).
class WorkerGradients final : public DataParallel {
 public:
  using DataParallel::DataParallel;
  void update(const ExecSpace&, const UpdateScalars*, double) override {}
  void share(const ExecSpace&) override {}
};

/// The exchange of workers in the order in which they come: asynchronously, or with backup ranks (FreeRules). Rank 0
/// decides that order (FreeOrder), sends it to all ranks, and keeps the record of it. All stores (ParameterStore) take
/// the same events. There is one for each fraction of the parameters, among the ranks that have the same place in their
/// workers.
///
/// Ranks serve each other where `advance` is called, as between the layers of passes. A rank waits for stores only
/// while it reads, which ends when all ranks of its worker have read. Ranks of one worker may therefore wait for each
/// other between reading and pushing, and nowhere else.
class FreeExchange final : public WorkerExchange {
 public:
  /// Returns what the optimizer multiplies with in the update after so many others.
  using Scalars = std::function<UpdateScalars(std::int64_t updates)>;
  /// `part_examples` is the number of examples of a gradient. What is taken by reference, except `config`, must outlive
  /// the exchange. Collective over `ranks`, which are all.
  FreeExchange(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
               const WorkerPlace& place, std::int64_t part_examples, ParameterBuffer& parameters, Optimizer& optimizer,
               Scalars scalars);

  /// Opens the record, which holds the whole run: what it holds of the updates before is taken over. Throws
  /// Error(bad_data) if that is the record of other workers, and cannot_create or io_error if the file cannot be
  /// written.
  void begin(const ExecSpace& space, std::int64_t version, std::int64_t optimizer_steps) override;
  void run_until(std::int64_t sync) override;
  WorkerTurn next_turn(const ExecSpace& space) override;
  void push(const ExecSpace& space) override;
  bool has_dropped() const override { return store_.has_dropped(); }
  void advance(const ExecSpace& space) override { static_cast<void>(makes_progress(space)); }
  double end_sync(const ExecSpace& space) override;
  std::int64_t& optimizer_steps() override { return optimizer_steps_; }
  std::vector<ShardedState> sharded_states() const override;
  void flush_record() override {
    if (record_) record_->flush_to_disk();
  }
  /// Without a record, those of this process.
  GradientCounts counts(std::int64_t) const override {
    return {order_.staleness_counts(), order_.dropped() * part_examples_};
  }
  double take_exposed_seconds() override { return std::exchange(exposed_seconds_, 0.0); }

 private:
  /// Does what can be done without waiting; returns whether that was anything.
  bool makes_progress(const ExecSpace& space);
  template <class Done>
  void serve_until(const ExecSpace& space, const Done& done) {
    SpinBackoff backoff;
    while (!done()) {
      if (makes_progress(space)) {
        backoff.reset();
        heartbeat().beat();  // a server may have something to do all the time
      } else {
        backoff.pause();
      }
    }
  }
  void open_record(std::int64_t updates);
  void resume_record(std::int64_t updates);
  std::string new_lines();
  void take(const StoreEvent& event);
  void tell(StoreEvent event);

  AsynchronousConfig config_;
  FreeRules rules_;
  Communicator ranks_;
  WorkerPlace place_;
  std::int64_t part_examples_;
  ParameterBuffer& parameters_;
  ParameterStore store_;
  std::unique_ptr<Collective> gather_;  ///< of the fractions of a worker's ranks; null: it has one rank
  Mailbox mailbox_;
  FreeOrder order_;  ///< used by rank 0
  Optimizer& optimizer_;
  Scalars scalars_;
  bool is_under_way_ = false;          ///< since the last synchronization
  std::int64_t told_version_ = 0;      ///< newest version, as rank 0 has told
  std::int64_t steps_ = 0;             ///< steps in what was added since workers set out
  std::optional<GrowingFile> record_;  ///< of rank 0, if there is one
  std::int64_t optimizer_steps_ = 0;
  std::optional<OptimizerStepCount> noted_steps_;  ///< none: workers do no rounds of steps
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
