// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch/batch_partition.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"

namespace lockstep {

/// Simulated asynchronous training in a known order (PushOrder). A step is an update. Each of its gradients, of an
/// equal part of the batch, is computed by the version of the parameters that its worker has read, and applied to the
/// newest version. Ranks divide the gradients of an update, and all of them hold all copies of parameters. They add in
/// a fixed tree, so the numbers are the same on any number of ranks that divides `collect`. If gradients are sums of
/// pieces (PushOrder::members), several ranks may compute one gradient together, dividing its pieces.
///
/// Copies of versions hold the trained parameters. Statistics of layers change in the order of updates, and no worker
/// has any of its own.
class SimulatedGradients final : public ParallelStrategy {
 public:
  /// Number of neighbouring ranks, of `ranks` in all, that compute a gradient together.
  static int ranks_of_gradient(const AsynchronousConfig& config, int ranks) {
    return std::max(1, static_cast<int>(ranks / config.collect));
  }
  /// `sums` adds up the gradients of an update, over one rank of each set that computes a gradient together
  /// (ranks_of_gradient). `order` and `parameters` must outlive this.
  SimulatedGradients(const AsynchronousConfig& config, const Communicator& ranks, const PushOrder& order,
                     std::unique_ptr<ParallelStrategy> sums, ParameterBuffer& parameters);

  void bind(const Updater& updater) override {
    ParallelStrategy::bind(updater);
    sums_->bind(updater);
  }
  void begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) override;
  void end_step(const ExecSpace& space) override;
  void gradient_ready(const ExecSpace&, ElementRange) override {}
  void gradient_sum_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override {
    sums_->finish_gradients(space, meanwhile);
  }
  Tensor measure_gradients(const ExecSpace& space, Measure what) override {
    return sums_->measure_gradients(space, what);
  }
  void judged(const ExecSpace& space, Verdict verdict) override {
    if (verdict == Verdict::can_be_done) keep_copies(space, step_ - 1, true);
  }
  void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) override {
    sums_->update(space, step, statistics_factor);
  }
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  double take_exposed_seconds() override { return sums_->take_exposed_seconds(); }

 private:
  /// What a worker keeps; empty if it never needs it.
  struct Worker {
    OwnedTensor read;         ///< version that its next gradient is computed by
    OwnedTensor mean_square;  ///< mean square of its gradients, for adaptive compensation
  };
  std::int64_t place() const { return ranks_.rank() / ranks_per_gradient_ * gradients_per_rank_ + done_; }
  const PushOrder::Push& push() const { return order_.of_update(step_)[static_cast<std::size_t>(place())]; }
  Worker& worker() { return workers_[static_cast<std::size_t>(push().worker)]; }
  Tensor trained() const { return parameters_.values({0, parameters_.trained_size()}); }
  void swap_version(const ExecSpace& space);
  void keep_copies(const ExecSpace& space, std::int64_t version, bool before_update);
  void correct(const ExecSpace& space);

  AsynchronousConfig config_;
  Communicator ranks_;
  const PushOrder& order_;
  std::unique_ptr<ParallelStrategy> sums_;
  int ranks_per_gradient_;                      ///< ranks_of_gradient
  std::optional<DeterministicReducer> pieces_;  ///< sums the pieces of a gradient; none: gradients are in one piece
  ParameterBuffer& parameters_;
  std::vector<Worker> workers_;
  std::int64_t gradients_per_rank_;  ///< gradients of an update that this rank computes
  std::int64_t step_ = 0, examples_ = 0;
  std::int64_t done_ = 0;         ///< gradients of this update that this rank has computed
  std::int64_t pieces_done_ = 0;  ///< pieces that this rank has computed of them
};

}  // namespace lockstep
