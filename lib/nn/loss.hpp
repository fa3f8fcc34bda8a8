// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/fields.hpp"
#include "core/tensor.hpp"
#include "ops/loss/loss.hpp"

namespace lockstep {

/// The objective that training minimizes, summed over examples. The step divides it once, by the weight of the examples
/// of all ranks.
class Loss {
 public:
  virtual ~Loss() = default;
  /// True if targets are classes: i32 [n], or [n, …] for outputs [n, …, K]. False if they are values of master_dtype in
  /// the shape of the outputs.
  virtual bool wants_classes() const = 0;
  /// What makes probabilities of the outputs: the softmax of a row, or the sigmoid of each; none if they are values.
  enum class Probabilities { none, softmax, sigmoid };
  virtual Probabilities probabilities() const { return Probabilities::none; }
  /// The class number whose targets are ignored; such a number need not be a class of the network. -1: none is ignored.
  virtual std::int64_t ignored_class() const { return -1; }
  /// The values that targets may have, if they are values and not all of them are allowed.
  virtual std::optional<Range> target_range() const { return std::nullopt; }
  /// True if all targets have the same weight, so that the mean loss is the mean over examples.
  virtual bool counts_alike() const { return true; }
  /// Throws KeyError if the deck's options do not suit a network whose output for one example has this shape.
  virtual void check_output(const Shape& /*one_output*/) const {}
  /// Adds to `sums` (LossSums). If `doutputs` is not empty, also stores the gradient of the summed loss times
  /// `gradient_scale` (a loss scale keeps 16-bit gradients from underflow); `doutputs` may be the memory of `outputs`.
  /// `per_row` is scratch memory, f64 [rows, 2]. `mixed` applies to class targets only; targets that are values are
  /// already mixed.
  virtual void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                        const Tensor& per_row, const Tensor& sums, const GradientFactor& gradient_scale = 1,
                        const MixedTargets& mixed = {}) const = 0;

  /// True if each row (the last dimension's vector) of an output has a loss of its own. `evaluate` can then be split
  /// into calls of evaluate_rows for parts of the rows and one call of add_rows.
  virtual bool is_of_rows() const { return false; }
  /// outputs, doutputs: [rows, K]; targets: [rows]. Leaves in per_row, f64 [rows, 2], what add_rows needs. The gradient
  /// is that of the sum over rows.
  virtual void evaluate_rows(const ExecSpace&, const Tensor& /*outputs*/, const Tensor& /*targets*/,
                             const Tensor& /*doutputs*/, const Tensor& /*per_row*/,
                             const GradientFactor& /*gradient_scale*/, const MixedTargets& /*mixed*/ = {}) const {}
  /// Adds n examples to `sums`; all of their rows must have been evaluated.
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
