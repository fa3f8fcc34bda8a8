// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batch/data_loader.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/run_state.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Times of this rank's passes in the newest steps in which it had examples, without waits for other ranks.
class PassTimes {
 public:
  /// Adds the seconds for one example of a step.
  void add(double seconds) { seconds_[static_cast<std::size_t>(steps_++ % kept)] = seconds; }
  /// Returns each rank's median in whole picoseconds, so that all ranks compute with the same numbers; an empty vector
  /// if some rank has no times. Collective.
  std::vector<double> medians(const Communicator& ranks) const;

 private:
  static constexpr std::int64_t kept = 16;
  std::array<double, kept> seconds_{};
  std::int64_t steps_ = 0;
};

/// Decides each rank's share of the batch from the time that its passes take for one example (parallel.shares:
/// measured). Shares with which all ranks take equally long are stable whatever a step costs besides its examples: with
/// fewer examples, a rank's time for each is longer.
class ShareBalance {
 public:
  /// `batch` is the largest global batch. `trainer` must outlive this object.
  ShareBalance(const Communicator& comm, Trainer& trainer, std::int64_t batch);

  /// Call after the trainer has done a step, in which it has waited for other ranks for `exposed`. Returns shares
  /// (BatchPartition::rank_shares) with which the slowest rank would finish sooner, if the gain is worth a change; else
  /// none. Collective.
  std::optional<std::vector<std::int64_t>> step_done(const Trainer::ExposedSeconds& exposed);
  /// Sets the shares that are in force.
  void set(const std::vector<std::int64_t>& shares) { partition_.rank_shares = shares; }
  const BatchPartition& partition() const { return partition_; }

 private:
  std::optional<std::vector<std::int64_t>> compare() const;

  Communicator comm_;
  Trainer& trainer_;
  BatchPartition partition_;
  std::int64_t total_;  ///< sum of all shares
  PassTimes times_;
  double pass_seconds_ = 0;  ///< pass seconds on the trainer's clock after the last step
};

/// The batches that a run trains on: this rank's shares, read from the run's position in its data on, in an order that
/// depends on its seed and its rollbacks. Slower ranks get smaller shares if the deck asks for that.
class BatchFeed final : public BatchSource {
 public:
  /// Prepares the trainer for the sizes of this rank's shares, in training and in evaluations. `prepared` and `state`
  /// outlive this. Collective.
  BatchFeed(const PreparedRun& prepared, DataPosition& state);

  /// Begins to read at the position of the state, what the trainer's ranks compute of the batches there.
  void begin();
  /// Stops reading; `begin` may follow.
  void end() { loader_.reset(); }
  const HostBatch& next() override;
  const HostBatch& part(std::int64_t number) override;
  void skip_to_batch(std::int64_t batches) override { next_ = loader_->position_after(batches); }
  /// Moves the run's position to the end of what the last step has taken.
  void step_done() { before_ = std::exchange(state_.position, next_); }
  /// Moves the run's position back to before the last batch, whose step was taken back.
  void take_back() { state_.position = before_; }
  /// Position before the last batch.
  const SamplerPosition& position_before() const { return before_; }

  /// How the trainer's ranks divide what they take of a batch.
  const BatchPartition& partition() const { return shares_ ? shares_->partition() : trainer_.partition(); }
  /// Adapts the shares of the next steps to the seconds for which the last one has waited for other ranks. Collective.
  void balance(const Trainer::ExposedSeconds& exposed);
  /// Divides batches among ranks into these shares (BatchPartition), from the first batch on that no loader can have
  /// begun. Only where shares are measured on several ranks. Collective.
  void set_shares(const std::vector<std::int64_t>& shares);

 private:
  void prepare(const BatchPartition& partition);
  std::vector<std::int64_t> sizes(const BatchPartition& partition) const;

  const PreparedRun& prepared_;
  Trainer& trainer_;
  std::optional<ShareBalance> shares_;  ///< none: the division of batches stays
  DataPosition& state_;
  SamplerPosition before_, next_;  ///< before the last step's batches, and after those that were taken since
  std::unique_ptr<DataLoader> loader_;
};

}  // namespace lockstep
