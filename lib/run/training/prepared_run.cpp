// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/prepared_run.hpp"

#include <utility>

#include "run/experiment/experiment.hpp"
#include "run/experiment/provenance.hpp"
#include "run/monitor/machine_remarks.hpp"
#include "run/trainers/training_checks.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {
namespace {

/// Warns if the ranks of this node will need more memory than it has, as far as the deck alone says what they need.
void warn_of_memory_of_step(const RunConfig& config, Graph& graph, const Dataset& train, const Topology& ranks) {
  const ParallelConfig& parallel = config.parallel;
  if (runs_on_device || parallel.asynchronous.present || parallel.backup.present || parallel.sharding.chooses_shard)
    return;
  with_positions(config.source, [&] {
    warn_of_memory(ranks, memory_estimate(config, graph, train, {ranks.all.size(), ranks.nodes}).total());
  });
}

}  // namespace

PreparedRun::PreparedRun(const RunConfig& deck, const Communicator& ranks)
    : comm(ranks), config(deck), text(agreed_deck(comm, write_config(config))) {
  comm.run_collectively([&] { check_deck(config, comm.size()); });
  const Topology topology(comm);
  const SharedReading reading(comm, config.source);
  Experiment experiment = open_experiment(config, reading);
  data = std::move(experiment.data);
  provenance = lockstep::provenance(comm, data, reading);
  comm.run_on_root([&] { warn_of_memory_of_step(config, experiment.graph, *data.train, topology); });
  run_trainer = make_run_trainer(config, std::move(experiment.graph), std::move(experiment.loss), *data.train, comm);
  partition = run_trainer->partition();
}

}  // namespace lockstep
