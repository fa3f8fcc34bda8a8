// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/local/outer_optimizer.hpp"

namespace lockstep {

/// What becomes of parameters that groups of ranks have stepped to by themselves: the arithmetic of parallel.local, for
/// any stretch of them. Who sums differences over all ranks, and when, is somebody else's business.
///
/// Beside the parameters that a group steps, which are a buffer's, lie those that all groups have in common: x₀. Where
/// both are kept (LocalConfig::keeps_replicas), they change places, so that who looks at the buffer sees the common
/// ones.
class ReplicaUpdate {
 public:
  /// `groups`: how many there are.
  ReplicaUpdate(const LocalConfig& config, int groups, ParameterBuffer& parameters);

  /// The parameters that groups have of their own: what is trained, and statistics. Flat.
  Tensor values() const { return moving(parameters_.values()); }
  /// As many numbers of the gradients' memory.
  Tensor room() const { return moving(parameters_.gradients()); }
  Tensor others() const { return others_.get(); }
  const OuterOptimizer& outer() const { return outer_; }

  /// differences = weight · (x₀ − x), of a stretch of the parameters.
  void take_differences(const ExecSpace& space, double weight, ParameterRange range, const Tensor& differences) const;
  /// The outer step of a stretch, whose `share` times `differences` is x₀ − x̄; `learning_rate`: of the steps. Then
  /// x ← x₀ + mix · (x − x₀). Statistics are averaged by any rule.
  void step(const ExecSpace& space, double share, double learning_rate, double mix, ParameterRange range,
            const Tensor& differences);

  /// Of all parameters, with the weights of what is trained, and of statistics.
  void take_differences(const ExecSpace& space, double trained, double statistics, const Tensor& differences) const;

  /// x ← x₀ − differences.
  void average(const ExecSpace& space, const Tensor& differences) const;

  // Elastic averaging, before and after the sum of `differences` over all ranks:
  /// `weight`: of a rank's statistics; `group`: ranks of a group.
  void take_pulls(const ExecSpace& space, double weight, int group, const Tensor& differences) const;
  void pull(const ExecSpace& space, const Tensor& differences);

 private:
  Tensor moving(const Tensor& numbers) const {
    return {numbers.data, numbers.dtype, {parameters_.layout().summed_size()}};
  }
  ParameterRange trained() const { return {0, parameters_.trained_size()}; }

  LocalConfig config_;
  int groups_;
  ParameterBuffer& parameters_;
  OwnedTensor others_;
  OuterOptimizer outer_;
};

}  // namespace lockstep
