// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/fields.hpp"
#include "nn/parameter_buffer.hpp"

namespace lockstep {

/// What an optimizer multiplies with in a step, a function of the learning rate and the step's number; what each is,
/// the optimizer knows. One rank computes them for all: powers and cosines differ in their last bits between kinds of
/// CPUs.
using StepCoefficients = std::array<double, 4>;

struct OptimizerStep {
  StepCoefficients coefficients{};
  Tensor
      gradient_scale;  ///< f64 [1] in the step's memory: times the summed gradients it is the gradient of the mean loss
};

/// Turns summed gradients into new parameters, and into their 16-bit copy where there is one. Its
/// state lies in flat buffers, which hold the ranges that this rank owns (ParameterLayout::owned) one after the other:
/// so a step is one kernel a range, and where a rank owns all that is trained, a checkpoint treats state as it does
/// parameters.
class Optimizer {
 public:
  struct State {
    std::string name;  ///< "velocity"
    Tensor values;     ///< flat, [ParameterLayout::owned_count()]
  };

  explicit Optimizer(const ParameterBuffer& parameters);
  virtual ~Optimizer() = default;

  /// `number`: of the steps that this optimizer has taken, that one included.
  virtual StepCoefficients coefficients(double learning_rate, std::int64_t number) const = 0;
  virtual void step(const ExecSpace& space, ParameterBuffer& parameters, const OptimizerStep& step) = 0;
  virtual const std::vector<State>& states() const = 0;

  /// Whether the last step has left a parameter of this rank's that is infinite or not a number. Waits for the device.
  bool left_nonfinite(const ExecSpace& space) const;
  /// Takes back what left_nonfinite has found: parameters are others now.
  void forget_nonfinite(const ExecSpace& space) { fill_zero(space, nonfinite_.get()); }

 protected:
  /// A range that this rank owns.
  struct Part {
    ParameterRange range;
    std::int64_t first;  ///< its place in the state
    Tensor nonfinite;    ///< i32 [1], for its kernel to set
  };
  const std::vector<Part>& parts() const { return parts_; }

 private:
  OwnedTensor nonfinite_;  // i32 [parts]
  mutable std::vector<std::int32_t> nonfinite_on_host_;
  std::vector<Part> parts_;
};

/// Keys that every optimizer has.
struct OptimizerOptions : Config {
  double learning_rate = 0.1;
  double clip_norm = 0;

  void describe(Fields& fields) override;
  virtual std::vector<std::string> state_names() const = 0;
  virtual std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const = 0;
};

/// The deck's `optimizer` section.
struct OptimizerConfig : Config {
  std::string type = "sgd";
  std::shared_ptr<Config> options;

  OptimizerConfig();
  void describe(Fields& fields) override;
  double learning_rate() const;
  double clip_norm() const;  ///< 0: off
  /// Names of the flat buffers that the optimizer keeps beside the parameters, as in Optimizer::states.
  std::vector<std::string> state_names() const;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const;
};

}  // namespace lockstep
