// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "data/data_loader.hpp"
#include "run/deck/run_config.hpp"
#include "run/training/run_state.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Throws KeyError where the deck's sampler does not suit so many ranks.
void check_sampler(const RunConfig& config, int ranks);

/// The batches that a run trains on: this rank's shares, read from where the run stands in its data, in an order that
/// its seed gives and each rollback changes.
class RunBatches {
 public:
  /// All outlive this.
  RunBatches(const Communicator& comm, const RunConfig& config, const Datasets& data, Trainer& trainer,
             DataPosition& state);

  /// Makes the trainer ready for this rank's shares of batches that are divided so, and of evaluations.
  void prepare(const BatchPartition& partition);
  /// Begins to read where the state has the run, batches that are divided so.
  void begin(const BatchPartition& partition);
  /// Nothing is read any more; `begin` may follow.
  void end() { loader_.reset(); }
  /// The next one; stays as it is until the call after this. Waits for it.
  const HostBatch& next();
  /// Batches are divided so as soon as loaders can do it. Collective.
  void deal(const BatchPartition& partition);

  /// The run stands behind this batch.
  void step_done(const BatchPlan& batch);
  /// The step on the last one comes to nothing: the run stands before it.
  void take_back() { state_.position = before_; }
  /// Where it stood before the last one.
  const SamplerPosition& position_before() const { return before_; }

 private:
  std::int64_t largest() const;
  std::vector<std::int64_t> sizes(const BatchPartition& partition) const;

  const Communicator& comm_;
  const RunConfig& config_;
  const Datasets& data_;
  Trainer& trainer_;
  BatchDealing& batch_dealing_;
  DataPosition& state_;
  SamplerPosition before_;
  std::unique_ptr<DataLoader> loader_;
};

}  // namespace lockstep
