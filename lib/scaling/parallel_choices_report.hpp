// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "run/deck/run_config.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

struct ParallelChoiceOptions {
  RankCount ranks{1, 1};
  double memory_gb = 0;  ///< memory that a rank may take; 0: as the deck says, or else the machine
  std::string machine;   ///< path of the machine's file; empty: none
};

/// Returns what `lockstep check --nodes` prints: the best ways of each parallel.shard to do a deck's step
/// (parallel_choices), and the choice among them.
std::string step_variants_report(const RunConfig& config, const ParallelChoiceOptions& options);

}  // namespace lockstep
