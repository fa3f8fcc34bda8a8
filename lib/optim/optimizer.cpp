// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/optimizer.hpp"

#include "optim/adamw.hpp"
#include "optim/sgd.hpp"

namespace lockstep {
namespace {

constexpr Alternative optimizers[] = {
    {"sgd", "Stochastic gradient descent with momentum, PyTorch's formula", make_config<SgdConfig>},
    {"adamw", "Adam with decoupled weight decay, PyTorch's formula", make_config<AdamWConfig>},
};

const OptimizerOptions& options_of(const OptimizerConfig& config) {
  return dynamic_cast<const OptimizerOptions&>(*config.options);
}

}  // namespace

void OptimizerOptions::describe(Fields& fields) {
  fields.number("learning_rate", learning_rate, not_negative, "size of a step");
  fields.number("clip_norm", clip_norm, not_negative,
                "largest norm of the gradient: a longer one is scaled down to it (0: off)");
}

OptimizerConfig::OptimizerConfig() : options(std::make_shared<SgdConfig>()) {}

void OptimizerConfig::describe(Fields& fields) {
  fields.one_of("type", type, options, optimizers, "how gradients become steps");
}

double OptimizerConfig::learning_rate() const { return options_of(*this).learning_rate; }

double OptimizerConfig::clip_norm() const { return options_of(*this).clip_norm; }

std::vector<std::string> OptimizerConfig::state_names() const { return options_of(*this).state_names(); }

std::unique_ptr<Optimizer> OptimizerConfig::make(const ParameterBuffer& parameters) const {
  return options_of(*this).make(parameters);
}

Optimizer::Optimizer(const ParameterBuffer& parameters)
    : nonfinite_("lockstep::optimizer::nonfinite", DType::i32,
                 {static_cast<std::int64_t>(parameters.layout().owned().size())}) {
  std::int64_t first = 0;
  for (const ParameterRange& range : parameters.layout().owned()) {
    parts_.push_back({range, first, {nonfinite_.get().as<int>() + parts_.size(), DType::i32, {1}}});
    first += range.count;
  }
  nonfinite_on_host_.resize(parts_.size());
}

bool Optimizer::left_nonfinite(const ExecSpace& space) const {
  copy_to_host(space, nonfinite_.get(), nonfinite_on_host_.data());
  return std::ranges::any_of(nonfinite_on_host_, [](std::int32_t flag) { return flag != 0; });
}

}  // namespace lockstep
