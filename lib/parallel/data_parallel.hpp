// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "comm/device_all_reduce.hpp"
#include "optim/update_scalars.hpp"
#include "parallel/compression/compression.hpp"
#include "parallel/parallel_strategy.hpp"
#include "parallel/reducers/bucketed_reducer.hpp"

namespace lockstep {

/// What replicas may have for summing their gradients.
struct ReplicaSums {
  std::span<const AllReduceRow> measured{};       ///< see make_all_reduce
  std::optional<NodeMemory> memory{};             ///< in which the gradients lie (gradient_memory), on hosts
  std::unique_ptr<DeviceAllReduce> on_devices{};  ///< sums in the devices' memory; null: the hosts sum
  std::uint64_t seed = 0;                         ///< of compression's random draws
};

/// Synchronous training of whole replicas: every rank sums all gradients and updates all parameters.
class DataParallel : public ParallelStrategy {
 public:
  /// Collective.
  DataParallel(const ParallelConfig& config, const ShardGroups& groups, ParameterBuffer& parameters,
               ReplicaSums sums = {});

  void begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch) override;
  void gradient_ready(const ExecSpace& space, ElementRange range) override;
  void gradient_sum_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor measure_gradients(const ExecSpace& space, Measure what) override;
  void judged(const ExecSpace& space, Verdict verdict) override {
    if (compression_ && verdict == Verdict::cannot_be_done) compression_->forget(space);
  }
  void update(const ExecSpace& space, const UpdateScalars* step, double statistics_factor) override;
  PassHooks pass_hooks() override;
  void finish_update(const ExecSpace& space) override;
  void change_parameters(const ExecSpace& space, const std::function<void()>& change) override;
  void share(const ExecSpace& space) override;
  std::vector<ShardedState> sharded_states() const override;
  double take_exposed_seconds() override { return reducer_->take_exposed_seconds(); }

 private:
  Communicator ranks_;
  ParameterBuffer& parameters_;
  std::optional<NodeMemory> memory_;
  std::unique_ptr<Compression> compression_;  ///< null: sums are exact
  std::unique_ptr<GradientReducer> reducer_;
  GradientSquare square_;
  OwnedTensor nonfinite_;               // f64 [1]
  OffloadedUpdate* updates_ = nullptr;  ///< updates that go on after a step; null: there are none
};

}  // namespace lockstep
