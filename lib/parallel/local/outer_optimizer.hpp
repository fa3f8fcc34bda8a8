// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "core/flat_part.hpp"
#include "optim/outer_step.hpp"
#include "parallel/config/local_config.hpp"

namespace lockstep {

/// The mean of the learning rates of some steps; exact if they are equal.
class MeanLearningRate {
 public:
  void add(double rate) { mean_ += (rate - mean_) / ++steps_; }
  double value() const { return mean_; }

 private:
  double mean_ = 0, steps_ = 0;
};

/// Updates parameters by the differences that replicas have made to them: the outer rule of parallel.local (OuterStep),
/// with what it remembers from one step to the next.
class OuterOptimizer {
 public:
  /// For `count` flat parameters of type f32 or f64. `replicas` is the number of replicas.
  OuterOptimizer(const LocalConfig& config, std::int64_t replicas, DType dtype, std::int64_t count);

  /// Number of values that it remembers for each parameter.
  static int numbers_each(const LocalConfig& config, std::int64_t replicas);

  struct Step {
    double share = 1;          ///< times the differences is x₀ − x̄
    double learning_rate = 0;  ///< mean of the replicas' steps since the last synchronization; for slowmo
    std::int64_t before = 0;   ///< outer steps before this one; for delayed_nesterov
  };
  /// Does a step of the parameters in `range`, to which `differences` and `values` belong.
  void step(const ExecSpace& space, const Step& step, ElementRange range, const Tensor& differences,
            const Tensor& values) const;

  struct State {
    std::string name;  ///< "velocity"; "slow_momentum" of slowmo, whose unit is another (a gradient's)
    Tensor values;     ///< flat; zero at first
  };
  /// What it remembers.
  const std::vector<State>& states() const { return states_; }

 private:
  OuterStep rule(double learning_rate) const;

  LocalConfig config_;
  double rate_;
  std::int64_t gathers_;  ///< differences for each step with momentum
  std::vector<OwnedTensor> memory_;
  std::vector<State> states_;
};

}  // namespace lockstep
