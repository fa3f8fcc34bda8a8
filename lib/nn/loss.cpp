// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/loss.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "ops/loss/loss.hpp"

namespace lockstep {
namespace {

struct LossOptions : Config {
  virtual std::unique_ptr<Loss> make() const = 0;
};

/// Rounds weights to multiples of 2⁻²⁶ of the largest one. Sums over up to 2²⁶ targets are then exact, and so
/// independent of the order of addition and of the number of ranks.
std::vector<double> with_exact_sums(std::vector<double> weights) {
  if (weights.empty()) return weights;
  const double unit = std::ldexp(1.0, std::ilogb(std::ranges::max(weights)) - 26);
  for (double& weight : weights) weight = std::round(weight / unit) * unit;
  return weights;
}

class CrossEntropy final : public Loss {
 public:
  CrossEntropy(double label_smoothing, std::vector<double> class_weights, std::int64_t ignored)
      : class_weights_(with_exact_sums(std::move(class_weights))) {
    meaning_.label_smoothing = label_smoothing;
    meaning_.total_weight = std::accumulate(class_weights_.begin(), class_weights_.end(), 0.0);
    meaning_.ignored = ignored;
  }
  bool wants_classes() const override { return true; }
  Probabilities probabilities() const override { return Probabilities::softmax; }
  std::int64_t ignored_class() const override { return meaning_.ignored; }
  bool counts_alike() const override { return class_weights_.empty() && meaning_.ignored < 0; }
  void check_output(const Shape& one_output) const override {
    const auto weights = static_cast<std::int64_t>(class_weights_.size());
    validate_key(weights == 0 || weights == one_output[-1], "loss.class_weights",
                 "has {} weights (the model's output has {} classes); give one for each class", weights,
                 one_output[-1]);
  }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_row, const Tensor& sums, const GradientFactor& gradient_scale,
                const MixedTargets& mixed) const override {
    softmax_cross_entropy(space, meaning(space), outputs, targets, doutputs, per_row, sums, gradient_scale, mixed);
  }
  bool is_of_rows() const override { return true; }
  void evaluate_rows(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                     const Tensor& per_row, const GradientFactor& gradient_scale,
                     const MixedTargets& mixed) const override {
    cross_entropy_of_rows(space, meaning(space), outputs, targets, doutputs, per_row, gradient_scale, mixed);
  }
  void add_rows(const ExecSpace& space, std::int64_t n, const Tensor& targets, const Tensor& per_row,
                const Tensor& sums) const override {
    add_cross_entropy(space, meaning(space), n, targets, per_row, sums);
  }

 private:
  /// Copies the class weights to device memory when the first batch comes, since a loss may be made where there is
  /// no device.
  const ClassTargets& meaning(const ExecSpace& space) const {
    if (!class_weights_.empty() && !on_device_.get()) {
      on_device_ = OwnedTensor("lockstep::loss::class_weights", DType::f64,
                               {static_cast<std::int64_t>(class_weights_.size())});
      copy_from_host(space, class_weights_.data(), on_device_.get());
      meaning_.class_weights = on_device_.get();
    }
    return meaning_;
  }

  std::vector<double> class_weights_;
  mutable OwnedTensor on_device_;  ///< class_weights_ in device memory
  mutable ClassTargets meaning_;
};

struct CrossEntropyOptions final : LossOptions {
  double label_smoothing = 0;
  std::vector<double> class_weights;
  std::optional<std::int64_t> ignore_class;
  void describe(Fields& fields) override {
    fields.number("label_smoothing", label_smoothing, fraction_below_one,
                  "share of each target that is spread evenly over all classes (0: none)");
    fields.numbers("class_weights", class_weights, not_negative,
                   "weight of a target of each class, one number per class (when not given: all 1); the mean loss is "
                   "divided by the sum of the targets' weights, over the examples of all ranks");
    fields.check(class_weights.empty() || std::ranges::max(class_weights) > 0, "class_weights",
                 "are all 0 (nothing would be learned); give at least one positive weight");
    fields.integer("ignore_class", ignore_class, {0, 2147483647},
                   "class whose targets are left out of loss, accuracy and metrics; it need not be a class of the "
                   "model, such as 255 for pixels without a label (when not given: all targets count)");
  }
  std::unique_ptr<Loss> make() const override {
    return std::make_unique<CrossEntropy>(label_smoothing, class_weights, ignore_class.value_or(-1));
  }
};

class LossOfValues final : public Loss {
 public:
  explicit LossOfValues(ValueLoss kind, double delta = 0) : kind_(kind), delta_(delta) {}
  bool wants_classes() const override { return false; }
  Probabilities probabilities() const override {
    return kind_ == ValueLoss::binary_cross_entropy ? Probabilities::sigmoid : Probabilities::none;
  }
  std::optional<Range> target_range() const override {
    return kind_ == ValueLoss::binary_cross_entropy ? std::optional(fraction) : std::nullopt;
  }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_row, const Tensor& sums, const GradientFactor& gradient_scale,
                const MixedTargets&) const override {
    value_loss(space, kind_, delta_, outputs, targets, doutputs, per_row, sums, gradient_scale);
  }

 private:
  ValueLoss kind_;
  double delta_;
};

template <ValueLoss kind>
struct ValueLossOptions final : LossOptions {
  void describe(Fields&) override {}
  std::unique_ptr<Loss> make() const override { return std::make_unique<LossOfValues>(kind); }
};

struct HuberOptions final : LossOptions {
  double delta = 1;
  void describe(Fields& fields) override {
    fields.number("delta", delta, positive,
                  "size of the error up to which the loss is quadratic; beyond it, the loss is linear");
  }
  std::unique_ptr<Loss> make() const override { return std::make_unique<LossOfValues>(ValueLoss::huber, delta); }
};

constexpr Alternative losses[] = {
    {"cross_entropy", "Softmax and cross entropy, for class targets", make_config<CrossEntropyOptions>},
    {"mse", "Squared error, averaged over examples and outputs, for float targets",
     make_config<ValueLossOptions<ValueLoss::squared_error>>},
    {"mae", "Absolute error, averaged over examples and outputs, for float targets",
     make_config<ValueLossOptions<ValueLoss::absolute_error>>},
    {"huber",
     "Half the squared error up to delta and linear beyond it, averaged over examples and outputs, for float targets",
     make_config<HuberOptions>},
    {"binary_cross_entropy",
     "Sigmoid and binary cross entropy of each output, averaged over examples and outputs, for float targets from 0 to "
     "1",
     make_config<ValueLossOptions<ValueLoss::binary_cross_entropy>>},
    {"relative_l2", "L2 norm of the error divided by that of the targets, averaged over examples, for float targets",
     make_config<ValueLossOptions<ValueLoss::relative_l2>>},
};

}  // namespace

LossConfig::LossConfig() : options(std::make_shared<CrossEntropyOptions>()) {}

void LossConfig::describe(Fields& fields) {
  fields.one_of("type", type, options, losses, "loss function that is minimised");
}

std::unique_ptr<Loss> LossConfig::make() const { return dynamic_cast<const LossOptions&>(*options).make(); }

}  // namespace lockstep
