// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/loss.hpp"

#include "ops/loss.hpp"

namespace lockstep {
namespace {

struct LossOptions : Config {
  virtual std::unique_ptr<Loss> make() const = 0;
};

class CrossEntropy final : public Loss {
 public:
  explicit CrossEntropy(double label_smoothing) : label_smoothing_(label_smoothing) {}
  bool wants_classes() const override { return true; }
  void evaluate(const ExecSpace& space, const Tensor& outputs, const Tensor& targets, const Tensor& doutputs,
                const Tensor& per_example, const Tensor& sums, double gradient_scale) const override {
    softmax_cross_entropy(space, label_smoothing_, outputs, targets, doutputs, per_example, sums, gradient_scale);
  }

 private:
  double label_smoothing_;
};

struct CrossEntropyOptions final : LossOptions {
  double label_smoothing = 0;
  void describe(Fields& fields) override {
    fields.number("label_smoothing", label_smoothing, fraction, "share of each target spread over all classes");
  }
  std::unique_ptr<Loss> make() const override { return std::make_unique<CrossEntropy>(label_smoothing); }
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
