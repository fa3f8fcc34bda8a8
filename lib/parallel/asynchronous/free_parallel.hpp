// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "parallel/asynchronous/asynchronous_workers.hpp"
#include "parallel/asynchronous/ordered_store.hpp"

namespace lockstep {

/// Training in the order in which workers come. A worker is a rank, or a group of neighbouring ranks. It computes the
/// gradient of one part of a batch after the other, by the parameters that an OrderedStore has at the time:
/// asynchronously, or with backup ranks (FreeRules). Ranks serve each other between the layers of their passes. Where
/// the run looks at its parameters, nothing is under way, and the ranks synchronize.
///
/// A rank reads from a store, and gives to it, only its fraction of the parameters; it has the others from the ranks of
/// its group. A rank waits for a store only where it reads, and then until all of its group have read. So ranks of a
/// group may wait for each other from there until they have given.
///
/// Where workers step by themselves, each has optimizer states of its own.
class FreeParallel final : public AsynchronousWorkers {
 public:
  /// `group` are the ranks of this rank's worker. Collective.
  FreeParallel(const ParallelConfig& config, const Communicator& ranks, const Topology& group, WorkersCourse course,
               ParameterBuffer& parameters);

  void go_on_after(std::int64_t steps, std::int64_t optimizer_steps) override;
  void bind(const Updater& updater) override;
  void gradient_ready(const ExecSpace& space, ElementRange) override { store_.advance(space); }
  void gradient_sum_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  PassHooks pass_hooks() override {
    return {.on_layer = [this](const ExecSpace& space) { store_.advance(space); }};
  }
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  GradientCounts gradient_counts(std::int64_t) const override { return store_.counts(); }
  double take_exposed_seconds() override {
    return std::exchange(exposed_seconds_, 0.0) + group_.take_exposed_seconds();
  }

 private:
  FreeParallel(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks, const Topology& group,
               WorkersCourse course, ParameterBuffer& parameters);
  void set_out(std::int64_t sync) override { store_.set_out(run().synced, sync); }
  Turn next_turn(const ExecSpace& space) override;
  PartRequest request(std::int64_t part) const override {
    return {.part = part * group_.size() + group_.ranks().rank()};
  }
  UpdateScope scope_of_step(const BatchPlan& batch) const override;
  OwnSteps& own_steps() override { return *own_; }
  void round_is_over(const ExecSpace& space) override { store_.give(space, group_.ranks().is_root()); }
  void sync_is_over() override { store_.write_record(); }
  double square_of_sum(const ExecSpace& space) override;

  Communicator ranks_;
  WorkerGroup group_;
  ParameterBuffer& parameters_;
  OrderedStore store_;
  std::optional<OwnSteps> own_;  ///< none: workers give gradients
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
