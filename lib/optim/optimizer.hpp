// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fields.hpp"
#include "nn/parameter_buffer.hpp"

namespace lockstep {

/// Turns summed gradients into new parameters. Its state lies in flat buffers laid out as the
/// ParameterBuffer, so that a step is one kernel and a checkpoint treats state as it does parameters.
class Optimizer {
 public:
  struct State {
    std::string name;  ///< "velocity"
    Tensor values;     ///< flat, as ParameterBuffer::values()
  };

  virtual ~Optimizer() = default;

  /// One step; `gradient_scale` · gradients is the gradient of the mean loss (1 / global examples).
  virtual void step(const ExecSpace& space, ParameterBuffer& parameters, double learning_rate,
                    double gradient_scale) = 0;
  virtual const std::vector<State>& states() const = 0;
};

/// The deck's `optimizer` section.
struct OptimizerConfig : Config {
  std::string type = "sgd";
  std::shared_ptr<Config> options;

  OptimizerConfig();
  void describe(Fields& fields) override;
  double learning_rate() const;
  /// Of the flat buffers that it keeps beside the parameters, as in Optimizer::states.
  std::vector<std::string> state_names() const;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const;
};

}  // namespace lockstep
