// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/deck/run_config.hpp"
#include "scaling/machine.hpp"
#include "scaling/workload.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

/// One way to do a deck's step. Ways differ in what leaves the network, and sums up to rounding, as they are.
struct ParallelChoice {
  Shard shard = Shard::none;
  NumberOrWord group;   ///< parallel.shard_group
  bool shares = false;  ///< whether the ranks of a node have one copy of the parameters in common
  Checkpointing checkpointing = Checkpointing::none;
  std::int64_t micro = 1;            ///< examples of a rank that are computed at once
  bool is_micro_of_deck = false;     ///< whether these are the deck's micro-batches
  bool offloads = false;             ///< whether the optimizer's state is elsewhere (parallel.offload)
  bool offloads_parameters = false;  ///< whether the parameters that a rank owns are there as well

  double memory = 0;              ///< bytes a rank
  double sent = 0, messages = 0;  ///< bytes that a rank sends in a step, and number of messages, on average
  std::optional<double> seconds;  ///< time of a step; none: there is no machine, or the rate of offloaded states is
                                  ///< unknown
  bool fits = true;
};

/// Returns all ways on so many ranks: each parallel.shard that the deck allows, in groups of all ranks, of a node and
/// of the deck, with one copy of the parameters for a node and for a rank; with and without
/// model.activation_checkpointing if that saves memory; with micro-batches of a rank's share, of the deck, and down to
/// an eighth of the share (except for networks whose layers need whole micro-batches); with the optimizer's state in
/// memory and elsewhere, and with divided parameters there as well. Ways that cannot be built are left out.
/// Ways that fit into `limit` bytes (0: any) come first. Among these the fastest come first on `machine`, whose
/// ranks_per_node are those of the nodes; without a machine, those that have states in memory, send least, compute
/// nothing twice, and divide the optimizer's state rather than more, or nothing. The workload is left as it was.
std::vector<ParallelChoice> parallel_choices(Workload& workload, const std::optional<Machine>& machine, RankCount ranks,
                                             double limit);

struct ParallelChoiceOptions {
  RankCount ranks{1, 1};
  double memory_gb = 0;  ///< memory that a rank may take; 0: as the deck says, or else the machine
  std::string machine;   ///< path of the machine's file; empty: none
};

/// Returns what `lockstep check --nodes` prints: the best ways of each parallel.shard to do a deck's step
/// (parallel_choices), and the choice among them.
std::string step_variants_report(const RunConfig& config, const ParallelChoiceOptions& options);

}  // namespace lockstep
