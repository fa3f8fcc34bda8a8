// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"
#include "optim/replica_steps.hpp"
#include "parallel/config/local_config.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Updates parameters by the differences that replicas have made to them: the outer rule of parallel.local (OuterStep),
/// with its velocity.
class OuterOptimizer {
 public:
  /// Name of the velocity in checkpoints.
  static constexpr const char* velocity_name = "velocity";

  /// For `count` flat parameters of type f32 or f64.
  OuterOptimizer(const LocalConfig& config, DType dtype, std::int64_t count);

  /// Number of values that it remembers for each parameter.
  static int numbers_each(const LocalConfig& config) { return config.has_momentum() ? 1 : 0; }

  /// Does a step of the parameters in `range`, to which `differences` and `values` belong; `share` times the
  /// differences is x₀ − x̄.
  void step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences,
            const Tensor& values) const;

  /// Flat, zero at first; empty if the rule has no momentum.
  const Tensor& velocity() const { return velocity_.get(); }

 private:
  OuterStep rule_;
  OwnedTensor velocity_;
};

/// The arithmetic of parallel.local: synchronizes the parameters of groups that step by themselves, or any range of
/// them. The caller sums differences over all ranks.
///
/// The parameters that a group steps are those of a buffer. Next to them lie the ones that all groups have in common:
/// x₀. If both are kept (LocalConfig::streams), they change places, so that readers of the buffer see the common ones.
class ReplicaUpdate {
 public:
  ReplicaUpdate(const LocalConfig& config, ParameterBuffer& parameters);

  /// The parameters that groups have of their own, flat: trained ones and statistics.
  Tensor values() const { return moving(parameters_.values()); }
  /// Memory of the gradients, as long as values().
  Tensor room() const { return moving(parameters_.gradients()); }
  Tensor others() const { return others_.get(); }
  const OuterOptimizer& outer() const { return outer_; }

  /// differences = weight · (x₀ − x), for a range of the parameters.
  void take_differences(const ExecSpace& space, double weight, ElementRange range, const Tensor& differences) const;
  /// Does the outer step of a range, where `share` times `differences` is x₀ − x̄; then x ← x₀. Statistics are
  /// averaged by any rule.
  void step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences);

  /// Takes the differences of all parameters, with one weight for trained ones and one for statistics.
  void take_differences(const ExecSpace& space, double trained, double statistics, const Tensor& differences) const;

  /// x ← x₀ − differences.
  void average(const ExecSpace& space, const Tensor& differences) const;

 private:
  Tensor moving(const Tensor& numbers) const {
    return {numbers.data, numbers.dtype, {parameters_.layout().summed_size()}};
  }
  ElementRange trained() const { return {0, parameters_.trained_size()}; }

  ParameterBuffer& parameters_;
  OwnedTensor others_;
  OuterOptimizer outer_;
};

}  // namespace lockstep
