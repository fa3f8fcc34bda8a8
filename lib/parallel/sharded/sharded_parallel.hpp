// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parallel/parallel_memory.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/sharded/parameter_gather.hpp"
#include "parallel/sharded/sharded_gradient_reducer.hpp"

namespace lockstep {

/// Every rank owns some of the parameters: it gets their summed gradients, keeps their optimizer state, and makes their
/// new values, which all other ranks of its group (ShardGroups) then get. Gradients and parameter values may be divided
/// as well; then layers see them in windows (UnshardPlan). These are the stages of Rajbhandari et al. 2020, "ZeRO:
/// Memory Optimizations Toward Training Trillion Parameter Models". What a rank owns is whole blocks of the flat
/// buffer, and sums are made in the order of DataParallel's: with one micro-batch a step, the numbers are the same bits
/// as with DataParallel.
class ShardedParallel final : public ParallelStrategy, WindowTraffic {
 public:
  /// The buffers of `parameters` lie in `memory`. Collective.
  ShardedParallel(const ParallelConfig& config, const ShardGroups& groups, ParallelMemory memory,
                  ParameterBuffer& parameters);
  ~ShardedParallel() override;

  void bind(const Updater& updater) override;
  void begin_step(const ExecSpace&, std::int64_t, const BatchPlan& batch) override { reducer_->begin_step(batch); }
  void gradient_ready(const ExecSpace& space, ElementRange range) override {
    reducer_->ready(space, range.first + range.count);
  }
  void gradient_sum_done(const ExecSpace& space) override { reducer_->gradient_sum_done(space); }
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor measure_gradients(const ExecSpace& space, Measure what) override {
    return what == Measure::square ? gradient_square(space) : nonfinite_gradients(space);
  }
  void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) override;
  PassHooks pass_hooks() override;
  void finish_update(const ExecSpace& space) override;
  void change_parameters(const ExecSpace& space, const std::function<void()>& change) override;

  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override {
    return owned_states(parameters_, optimizer(), groups_.ranks.all.is_root(), groups_.of_first_group());
  }
  double take_exposed_seconds() override;

 private:
  void enter(const ExecSpace& space, int time) override;
  /// Call when this rank's parameters are new.
  void start_update(const ExecSpace& space);
  void wait_for_node();
  Tensor gradient_square(const ExecSpace& space);
  Tensor nonfinite_gradients(const ExecSpace& space);
  /// Sums, over a group, what each rank says of what it owns.
  void sum_over_owners(const ExecSpace& space, const Tensor& numbers);

  ShardGroups groups_;
  ParallelMemory memory_;
  ParameterBuffer& parameters_;
  Communicator first_of_node_;  ///< the first ranks of all groups on all nodes; or all other ranks
  OwnedTensor block_squares_, square_, counts_, nonfinite_;
  std::vector<double> summed_;  ///< scratch memory of sum_over_owners
  double exposed_seconds_ = 0;
  OffloadedUpdate* updates_ = nullptr;  ///< updates of owned parameters that go on after a step; null: there are none
  std::unique_ptr<GradientReducer> reducer_;
  ShardedGradientReducer* gradient_windows_ = nullptr;  ///< reducer_, if gradients are divided
  std::optional<ParameterGather> gather_;               ///< if all ranks hold whole parameters
  std::optional<ParameterUnsharder> value_windows_;     ///< if they do not
};

}  // namespace lockstep
