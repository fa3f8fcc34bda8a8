// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/fields.hpp"
#include "core/tensor.hpp"
#include "ops/loss.hpp"

namespace lockstep {

/// What training minimises, summed over examples (the step divides once, by what the examples of all ranks count).
class Loss {
 public:
  virtual ~Loss() = default;
  /// Whether targets are classes (i32 [n], or [n, …] for outputs [n, …, K]) or values (of master_dtype, in the shape of
  /// the outputs).
  virtual bool wants_classes() const = 0;
  /// Targets of this number count nothing, and need not be a class; -1: there are none.
  virtual std::int64_t ignored_class() const { return -1; }
  /// Whether each target counts as much as any other, so that the mean is that over examples.
  virtual bool counts_alike() const { return true; }
  /// Throws KeyError where the deck's options do not go with mixed targets.
  virtual void check_mixed() const {}
  /// Throws KeyError where the deck's options do not suit a network of this output.
  virtual void check_output(const Shape& /*one_output*/) const {}
  /// Adds to sums (LossSums) and, when doutputs is not empty, stores the gradient of
  /// the sum times `gradient_scale` (which keeps gradients of 16 bits from vanishing); doutputs may be the memory of
  /// the outputs. per_row: f64 [rows, 2] scratch. Mixed targets are of classes; values come mixed already.
  virtual void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                        const Tensor& per_row, const Tensor& sums, const GradientFactor& gradient_scale = 1,
                        const MixedTargets& mixed = {}) const = 0;

  /// Whether the vectors of an example's output each have a loss of their own: then `evaluate` may be taken apart, into
  /// evaluate_rows for some rows after the others, and one add_rows.
  virtual bool is_of_rows() const { return false; }
  /// outputs, doutputs [rows, K], targets [rows]; leaves what add_rows needs in per_row, f64 [rows, 2]. The gradient is
  /// that of the sum over rows.
  virtual void evaluate_rows(const ExecSpace&, const Tensor& /*outputs*/, const Tensor& /*targets*/,
                             const Tensor& /*doutputs*/, const Tensor& /*per_row*/,
                             const GradientFactor& /*gradient_scale*/, const MixedTargets& /*mixed*/ = {}) const {}
  /// Adds n examples to sums, whose rows have all been evaluated.
  virtual void add_rows(const ExecSpace&, std::int64_t /*n*/, const Tensor& /*targets*/, const Tensor& /*per_row*/,
                        const Tensor& /*sums*/) const {}
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
