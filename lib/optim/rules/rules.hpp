// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizer.hpp"

// The update rules that a deck can choose (`optimizer.type`), by their keys. Each has a source file with its formula.
namespace lockstep {

/// What `weight_decay` means in most rules: as a part of the gradient, or decoupled from it.
inline constexpr std::string_view gradient_decay_help =
    "weight decay as a part of the gradient, to which this times the parameter is added (0: none)";
inline constexpr std::string_view decoupled_decay_help =
    "decoupled weight decay: each step reduces the parameter by learning rate × this × the parameter (0: none)";

struct SgdConfig : OptimizerOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;

  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return gradient_decay_help; }
  std::vector<std::string> state_names() const override;
  bool steps_along_gradient() const override { return true; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

/// The keys of Adam and its variants.
struct AdamOptions : OptimizerOptions {
  std::vector<double> betas = {0.9, 0.999};
  double epsilon = 1e-8;

  AdamOptions() { learning_rate = 1e-3; }
  void describe(Fields& fields) override;
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool counts_steps() const override { return true; }  // for the bias correction
};

struct AdamConfig final : AdamOptions {
  std::string_view weight_decay_help() const override { return gradient_decay_help; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct AdamWConfig final : AdamOptions {
  AdamWConfig();
  std::string_view weight_decay_help() const override { return decoupled_decay_help; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct RmspropConfig final : OptimizerOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;

  RmspropConfig() { learning_rate = 1e-2; }
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return gradient_decay_help; }
  std::vector<std::string> state_names() const override;
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct LionConfig final : OptimizerOptions {
  std::vector<double> betas = {0.9, 0.99};

  LionConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return decoupled_decay_help; }
  std::vector<std::string> state_names() const override { return {"exp_avg"}; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct LarsConfig final : OptimizerOptions {
  double momentum = 0.9;
  double trust_coefficient = 0.001;
  bool momentum_correction = false;

  LarsConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return gradient_decay_help; }
  std::vector<std::string> state_names() const override { return {"velocity"}; }
  bool needs_all_gradients() const override { return true; }  // norms need all gradients
  StatePasses state_passes(bool values) const override { return {.reads = values ? 2 : 1, .writes = 1}; }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct LambConfig final : AdamOptions {
  bool bias_correction = true;

  LambConfig();
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override {
    return "weight decay: this times the parameter is added to its update, before the trust ratio is taken (0: none)";
  }
  bool needs_all_gradients() const override { return true; }  // norms need all gradients
  StatePasses state_passes(bool values) const override {
    return {.reads = 2, .writes = ema_decay > 0 || values ? 2 : 1};
  }
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

struct AdafactorConfig final : OptimizerOptions {
  double beta2_decay = 0.8;
  double clip_threshold = 1;
  std::vector<double> epsilons = {1e-15, 1e-3};

  AdafactorConfig() { learning_rate = 0.01; }
  void describe(Fields& fields) override;
  std::string_view weight_decay_help() const override { return decoupled_decay_help; }
  std::vector<std::string> state_names() const override { return {"col_var", "row_var"}; }
  std::vector<Parameter> state_layout(std::string_view state, const std::vector<Parameter>& trained) const override;
  bool counts_steps() const override { return true; }
  bool divides() const override { return false; }  // row and column averages span all blocks
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters) const override;
};

}  // namespace lockstep
