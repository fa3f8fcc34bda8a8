// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "run/deck/run_config.hpp"
#include "train/step_memory.hpp"

namespace lockstep {

struct StepVariantOptions {
  RankCount ranks{1, 1};
  double memory_gb = 0;  ///< that a rank may take; 0: what the deck says, else the machine
  std::string machine;   ///< file; empty: none
};

/// The best ways of each parallel.shard to do a deck's step (step_variants), as `lockstep check --nodes` prints them,
/// and which one it would take.
std::string step_variants_report(const RunConfig& config, const StepVariantOptions& options);

}  // namespace lockstep
