// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/data_loader.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_state.hpp"
#include "train/share_balance.hpp"

namespace lockstep {

/// The batches that a run trains on: this rank's shares, read from the run's position in its data on, in an order that
/// depends on its seed and its rollbacks. Slower ranks get smaller shares if the deck asks for that.
class BatchFeed {
 public:
  /// Prepares the trainer for the sizes of this rank's shares, in training and in evaluations. `deck` and `state`
  /// outlive this. Collective.
  BatchFeed(const PreparedRun& deck, DataPosition& state);

  /// Begins to read at the position of the state.
  void begin();
  /// Stops reading; `begin` may follow.
  void end() { loader_.reset(); }
  /// Returns the next batch, which stays valid until the following call. Waits for it.
  const HostBatch& next();
  /// Moves the run's position to the end of this batch.
  void step_done(const BatchPlan& batch);
  /// Moves the run's position back to before the last batch, whose step was taken back.
  void take_back() { state_.position = before_; }
  /// Position before the last batch.
  const SamplerPosition& position_before() const { return before_; }

  /// Adapts the shares of the next steps to the seconds for which the last one has waited for other ranks. Collective.
  void balance(const Trainer::ExposedSeconds& exposed);
  /// Divides batches among ranks into these shares (BatchPartition), from the first batch on that no loader can have
  /// begun. Only where shares are measured on several ranks. Collective.
  void set_shares(const std::vector<std::int64_t>& shares);

 private:
  void prepare(const BatchPartition& partition);
  PartRequest next_part();
  const BatchPartition& partition() const { return shares_ ? shares_->partition() : trainer_.partition(); }
  std::vector<std::int64_t> sizes(const BatchPartition& partition) const;

  const PreparedRun& deck_;
  Trainer& trainer_;
  BatchDealing& batch_dealing_;
  std::optional<ShareBalance> shares_;  ///< none: the division of batches stays
  DataPosition& state_;
  SamplerPosition before_;
  std::unique_ptr<DataLoader> loader_;
};

}  // namespace lockstep
