// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "data/data_loader.hpp"
#include "run/training/opened_deck.hpp"
#include "run/training/run_state.hpp"
#include "train/balance/load_balance.hpp"

namespace lockstep {

/// Throws KeyError where the deck's sampler does not suit so many ranks.
void check_sampler(const RunConfig& config, int ranks);

/// The batches that a run trains on: this rank's shares, read from where the run stands in its data, in an order that
/// its seed gives and each rollback changes. Slower ranks get less to do, where the deck wants that.
class RunBatches {
 public:
  /// Makes the trainer ready for this rank's shares, also of evaluations. Both outlive this. Collective.
  RunBatches(const OpenedDeck& deck, DataPosition& state);

  /// Begins to read where the state has the run.
  void begin();
  /// Nothing is read any more; `begin` may follow.
  void end() { loader_.reset(); }
  /// The next one; stays as it is until the call after this. Waits for it.
  const HostBatch& next();
  /// The run follows this batch.
  void step_done(const BatchPlan& batch);
  /// The step on the last one comes to nothing: the run stands before it.
  void take_back() { state_.position = before_; }
  /// Where it stood before the last one.
  const SamplerPosition& position_before() const { return before_; }

  /// Of steps that have waited so long for other ranks: what follows for the next ones. Collective.
  void balance(const Trainer::ExposedSeconds& exposed);
  /// Ranks divide batches into these shares (BatchPartition) as soon as loaders can do it, where shares are measured,
  /// of several ranks. Collective.
  void set_shares(const std::vector<std::int64_t>& shares);
  /// Whether a group of ranks may leave out steps.
  bool paces_groups() const { return balance_.paces_groups(); }

 private:
  void prepare(const BatchPartition& partition);
  PartRequest next_part();
  std::vector<std::int64_t> sizes(const BatchPartition& partition) const;

  const OpenedDeck& deck_;
  Trainer& trainer_;
  BatchDealing& batch_dealing_;
  LoadBalance balance_;
  DataPosition& state_;
  SamplerPosition before_;
  std::unique_ptr<DataLoader> loader_;
};

}  // namespace lockstep
