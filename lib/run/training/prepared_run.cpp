// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/prepared_run.hpp"

#include <utility>

#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/trainers/training_checks.hpp"

namespace lockstep {

PreparedRun::PreparedRun(const RunConfig& deck, const Communicator& ranks)
    : comm(ranks), config(deck), text(agreed_deck(comm, write_config(config))) {
  comm.run_collectively([&] { check_deck(config, comm.size()); });
  const SharedReading reading(comm, config.source);
  Experiment experiment = open_experiment(config, reading);
  data = std::move(experiment.data);
  provenance = lockstep::provenance(comm, data, reading);
  run_trainer = make_run_trainer(config, std::move(experiment.graph), std::move(experiment.loss), *data.train, comm);
  partition = run_trainer->partition();
}

}  // namespace lockstep
