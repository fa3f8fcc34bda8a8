// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/loss.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/loss.hpp"

namespace lockstep {
namespace {

struct LossOptions : Config {
  virtual std::unique_ptr<Loss> make() const = 0;
};

/// Rounded to 2⁻²⁶ of the largest: sums over up to 2²⁶ targets are exact, and so the same in any order, on any number of ranks.
std::vector<double> with_exact_sums(std::vector<double> weights) {
  if (weights.empty()) return weights;
  const double unit = std::ldexp(1.0, std::ilogb(std::ranges::max(weights)) - 26);
  for (double& weight : weights) weight = std::round(weight / unit) * unit;
  return weights;
}

class CrossEntropy final : public Loss {
 public:
  CrossEntropy(double label_smoothing, std::vector<double> class_weights)
      : label_smoothing_(label_smoothing), class_weights_(with_exact_sums(std::move(class_weights))) {}
  bool wants_classes() const override { return true; }
  void check_output(const Shape& one_output) const override {
    const auto weights = static_cast<std::int64_t>(class_weights_.size());
    validate_key(weights == 0 || weights == one_output[-1], "loss.class_weights",
                 "has {} weights (the model's output has {} classes); give one for each class", weights,
                 one_output[-1]);
  }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_example, const Tensor& sums, double gradient_scale) const override {
    if (class_weights_.empty()) {
      softmax_cross_entropy(space, label_smoothing_, outputs, targets, doutputs, per_example, sums, gradient_scale);
      return;
    }
    if (!weights_.get()) {  // the first batch: a loss may be made where no device is
      weights_ = OwnedTensor("lockstep::loss::class_weights", DType::f64,
                             {static_cast<std::int64_t>(class_weights_.size())});
      copy_from_host(space, class_weights_.data(), weights_.get());
    }
    weighted_cross_entropy(space, label_smoothing_, weights_.get(),
                           std::accumulate(class_weights_.begin(), class_weights_.end(), 0.0), outputs, targets,
                           doutputs, per_example, sums, gradient_scale);
  }

 private:
  double label_smoothing_;
  std::vector<double> class_weights_;
  mutable OwnedTensor weights_;  ///< the same where kernels read them
};

struct CrossEntropyOptions final : LossOptions {
  double label_smoothing = 0;
  std::vector<double> class_weights;
  void describe(Fields& fields) override {
    fields.number("label_smoothing", label_smoothing, fraction_below_one, "share of each target spread over all classes");
    fields.numbers("class_weights", class_weights, not_negative,
                   "how much a target of each class counts, one number a class (when not given: 1 each); the mean loss is "
                   "divided by the sum of the targets' weights, over the examples of all ranks");
    fields.check(class_weights.empty() || std::ranges::max(class_weights) > 0, "class_weights",
                 "are all 0, so that nothing would be learned; give a positive one");
  }
  std::unique_ptr<Loss> make() const override { return std::make_unique<CrossEntropy>(label_smoothing, class_weights); }
};

class MeanSquaredError final : public Loss {
 public:
  bool wants_classes() const override { return false; }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_example, const Tensor& sums, double gradient_scale) const override {
    mean_squared_error(space, outputs, targets, doutputs, per_example, sums, gradient_scale);
  }
};

struct MeanSquaredErrorOptions final : LossOptions {
  void describe(Fields&) override {}
  std::unique_ptr<Loss> make() const override { return std::make_unique<MeanSquaredError>(); }
};

constexpr Alternative losses[] = {
    {"cross_entropy", "Softmax and cross entropy, for class targets", make_config<CrossEntropyOptions>},
    {"mse", "Squared error, mean over examples and outputs, for float targets", make_config<MeanSquaredErrorOptions>},
};

}  // namespace

LossConfig::LossConfig() : options(std::make_shared<CrossEntropyOptions>()) {}

void LossConfig::describe(Fields& fields) { fields.one_of("type", type, options, losses, "what is minimised"); }

std::unique_ptr<Loss> LossConfig::make() const { return dynamic_cast<const LossOptions&>(*options).make(); }

}  // namespace lockstep
