// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// Makes the Trainer of a deck. `train` outlives it. The parameters are not initialised. Collective; whatever is wrong
/// on any rank is thrown on all of them.
std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& comm);

/// Sets the parameters with which training begins: by run.seed, and by model.weights if given, which is then logged.
void initialize_parameters(const RunConfig& config, Model& model);

}  // namespace lockstep
