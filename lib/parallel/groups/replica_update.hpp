// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <vector>

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

/// The arithmetic of parallel.local: synchronizes the parameters of groups that train by themselves, or any range of
/// them. The caller sums differences over the groups.
///
/// A rank updates what it owns of its group's parameters (ParameterLayout::owned), and the layers' statistics. Ranges
/// count these numbers one after the other; if ranks do not divide the parameters, they are the flat buffer's. Next to
/// them lie the parameters that all groups have in common: x₀. If both are kept (LocalConfig::streams), they change
/// places, so that readers of the buffer see the common ones.
class ReplicaUpdate {
 public:
  /// Both arguments must outlive this object, and the parameters' owners be known.
  ReplicaUpdate(const LocalConfig& config, ParameterBuffer& parameters);

  /// All that is updated, and the trained parameters, which come first.
  ElementRange all() const { return {0, synced_.get().count()}; }
  ElementRange trained() const { return {0, trained_}; }
  ElementRange statistics() const { return {trained_, all().count - trained_}; }
  /// Memory for the differences of all numbers: that of the gradients, unless ranks divide the parameters.
  Tensor delta_buffer() const;
  Tensor synced() const { return synced_.get(); }
  const OuterOptimizer& outer() const { return outer_; }

  /// synced ← parameters, and the reverse.
  void save_synced(const ExecSpace& space) const;
  void put_back(const ExecSpace& space) const { put_back(space, all()); }
  /// Exchanges the synced parameters and the group's own.
  void swap(const ExecSpace& space) const;

  /// differences = weight · (x₀ − x), for a range of the parameters.
  void take_differences(const ExecSpace& space, double weight, ElementRange range, const Tensor& differences) const;
  /// Does the outer step of a range, where `share` times `differences` is x₀ − x̄; then x ← x₀. Statistics are
  /// averaged by any rule.
  void step(const ExecSpace& space, double share, ElementRange range, const Tensor& differences);
  /// x ← x₀ − differences.
  void average(const ExecSpace& space, const Tensor& differences) const;

 private:
  using Piece = std::function<void(ElementRange range, const Tensor& values)>;
  void for_pieces(ElementRange range, const Piece& use) const;
  void put_back(const ExecSpace& space, ElementRange range) const;
  void round(const ExecSpace& space, ElementRange range) const;

  ParameterBuffer& parameters_;
  std::int64_t trained_;
  OwnedTensor synced_, differences_;
  OuterOptimizer outer_;
};

}  // namespace lockstep
