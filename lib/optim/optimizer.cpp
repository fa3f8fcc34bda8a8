// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/optimizer.hpp"

#include "optim/sgd.hpp"

namespace lockstep {
namespace {

constexpr Alternative optimizers[] = {
    {"sgd", "Stochastic gradient descent with momentum, PyTorch's formula", make_config<SgdConfig>},
};

}  // namespace

OptimizerConfig::OptimizerConfig() : options(std::make_shared<SgdConfig>()) {}

void OptimizerConfig::describe(Fields& fields) {
  fields.one_of("type", type, options, optimizers, "how gradients become steps");
}

double OptimizerConfig::learning_rate() const { return dynamic_cast<const OptimizerOptions&>(*options).learning_rate; }

std::vector<std::string> OptimizerConfig::state_names() const {
  return dynamic_cast<const OptimizerOptions&>(*options).state_names();
}

std::unique_ptr<Optimizer> OptimizerConfig::make(const ParameterBuffer& parameters) const {
  return dynamic_cast<const OptimizerOptions&>(*options).make(parameters);
}

}  // namespace lockstep
