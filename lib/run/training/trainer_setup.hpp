// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// The Trainer of a deck, for examples that outlive it; its parameters are not initialised. Collective; whatever is
/// wrong on any rank is thrown on all of them.
std::unique_ptr<Trainer> make_trainer(const RunConfig& config, Graph graph, std::unique_ptr<Loss> loss,
                                      const Dataset& train, const Communicator& comm);

/// The parameters that training begins with: by run.seed, or by model.weights, and then says which.
void initialize_parameters(const RunConfig& config, Model& model);

}  // namespace lockstep
