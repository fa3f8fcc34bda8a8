// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/untrained.hpp"

#include <utility>

#include "run/experiment/experiment.hpp"
#include "run/training/trainer_setup.hpp"

namespace lockstep {

Untrained open_untrained(const RunConfig& config, const Communicator& ranks) {
  const SharedReading reading(ranks, config.source);
  Experiment experiment = open_experiment(config, reading);
  Untrained untrained{.data = std::move(experiment.data), .trainer = nullptr};
  untrained.trainer = make_trainer(config, std::move(experiment.graph), std::move(experiment.loss),
                                   *untrained.data.train, ranks);
  ranks.run_on_root([&] { initialize_parameters(config, untrained.trainer->model()); });
  untrained.trainer->share_parameters();
  return untrained;
}

}  // namespace lockstep
