// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "config/fields.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// What training minimises, summed over examples (the step divides once, by what the examples of all ranks count).
class Loss {
 public:
  virtual ~Loss() = default;
  /// Whether targets are classes (i32 [n], or [n, T] of sequences) or values ([n, K] of master_dtype).
  virtual bool wants_classes() const = 0;
  /// Throws KeyError where the deck's options do not suit a network of this output.
  virtual void check_output(const Shape& /*one_output*/) const {}
  /// Adds to sums (f64 [3]: LossSums) and, when doutputs is not empty, stores the gradient of
  /// the sum times `gradient_scale` (which keeps gradients of 16 bits from vanishing).
  /// per_example: f64 [n·T, 2] scratch.
  virtual void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                        const Tensor& per_example, const Tensor& sums, double gradient_scale = 1) const = 0;
};

/// The deck's `loss` section.
struct LossConfig : Config {
  std::string type = "cross_entropy";
  std::shared_ptr<Config> options;

  LossConfig();
  void describe(Fields& fields) override;
  std::unique_ptr<Loss> make() const;
};

}  // namespace lockstep
