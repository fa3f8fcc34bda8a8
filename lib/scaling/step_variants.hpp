// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scaling/machine.hpp"
#include "scaling/workload.hpp"

namespace lockstep {

/// One way to do a deck's step: what may be changed without another network, or other sums than rounding makes.
struct StepVariant {
  ParallelConfig::Shard shard = ParallelConfig::Shard::none;
  NumberOrWord group;   ///< parallel.shard_group
  bool shares = false;  ///< whether a node's ranks have one copy of the parameters
  Checkpointing checkpointing = Checkpointing::none;
  std::int64_t micro = 1;            ///< examples of a rank that are computed at once
  bool offloads = false;             ///< whether the optimizer's state is elsewhere (parallel.offload)
  bool offloads_parameters = false;  ///< and the parameters that a rank owns with it

  double memory = 0;              ///< bytes a rank
  double sent = 0, messages = 0;  ///< bytes a rank sends in a step, in how many messages, in the mean
  std::optional<double> seconds;  ///< of a step; none: of no machine, or of states that come and go at no known rate
  bool fits = true;
};

/// All ways on so many ranks: each parallel.shard that the deck allows, in groups of all ranks, of a node and of the
/// deck, with one copy of the parameters for a node and for a rank, with
/// and without model.activation_checkpointing where it saves memory, and with micro-batches of a rank's share, of the
/// deck, and down to an eighth of the share (but for networks whose layers look at whole micro-batches), with the
/// optimizer's state in the step's memory and elsewhere, and with divided parameters there, too. Those that fit into
/// `limit` bytes (0: any) come first; among them the fastest on `machine`, whose ranks_per_node are the nodes'; without
/// a machine, those that have states in memory, send least, compute nothing twice, and divide least. The workload is
/// left as it was.
std::vector<StepVariant> step_variants(Workload& workload, const std::optional<Machine>& machine, RankCount ranks,
                                       double limit);

}  // namespace lockstep
