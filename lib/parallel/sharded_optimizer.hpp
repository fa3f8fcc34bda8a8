// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "parallel/gradient_reducer.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// Every rank computes with all parameters, and owns some: of these it gets the summed gradients, keeps the optimizer's
/// state, and makes the new values, which all others then get (ZeRO's first stage; Rajbhandari et al. 2020, "ZeRO:
/// Memory Optimizations Toward Training Trillion Parameter Models"). What is owned is whole blocks of the flat buffer,
/// and sums are made in the order of DataParallel's: the numbers are the same bits as with it.
class ShardedOptimizer final : public ParallelStrategy, ParameterArrival {
 public:
  /// `memory`: that the buffers of `parameters` lie in. Collective.
  ShardedOptimizer(const ParallelConfig& config, const Topology& topology, ParallelMemory memory,
                   ParameterBuffer& parameters);
  ~ShardedOptimizer() override;

  void gradient_ready(const ExecSpace& space, ParameterRange range) override { reducer_->ready(space, range.count); }
  void shard_done(const ExecSpace& space) override { reducer_->shard_done(space); }
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor gradient_square(const ExecSpace& space) override;
  Tensor nonfinite_gradients(const ExecSpace& space) override;
  void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double statistics_factor) override;
  ParameterArrival* parameter_arrival() override { return this; }
  void finish_update(const ExecSpace& space) override { await(space, 0); }
  void change_parameters(const ExecSpace& space, const std::function<void()>& change) override;

  void share(const ExecSpace& space, Optimizer& optimizer) override;
  std::vector<HeldNumbers> held_numbers(const Optimizer& optimizer) const override {
    return owned_states(parameters_, optimizer, topology_.all.is_root());
  }
  bool ranks_share_parameters() const override { return memory_.parameters != nullptr; }
  double take_exposed_seconds() override;

 private:
  bool have_arrived(const ExecSpace& space, std::int64_t first) override;
  void await(const ExecSpace& space, std::int64_t first) override;

  void start_gather(const ExecSpace& space);
  void arrive(const ExecSpace& space, const Stretch& bucket);
  std::byte* on_host(std::int64_t first) const;
  bool rounds_together() const;
  void wait_for_node();
  void sum_over_ranks(const ExecSpace& space, const Tensor& numbers);

  Topology topology_;
  ParallelMemory memory_;
  ParameterBuffer& parameters_;
  Communicator first_of_node_;                             ///< the first ranks of all nodes, or all others
  std::vector<Stretch> buckets_;                           ///< of what is trained, as it is summed and gathered
  Kokkos::View<std::byte*, StagingSpace> values_on_host_;  ///< where the host cannot read them in place
  std::unique_ptr<Collective> gather_, node_barrier_;
  std::vector<Stretch> gathered_;  ///< in one go each; buckets_, or all at once where the node's ranks share them
  std::size_t on_their_way_ = 0;   ///< of these, from the first on
  bool running_ = false;           ///< the last of them
  OwnedTensor block_squares_, square_, counts_, nonfinite_;
  std::vector<double> summed_;  ///< room of sum_over_ranks
  double exposed_seconds_ = 0;
  std::unique_ptr<GradientReducer> reducer_;
};

}  // namespace lockstep
