// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "data/data_config.hpp"
#include "run/deck/run_config.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// A deck's data, and its network before the first step.
struct Untrained {
  Datasets data;
  std::unique_ptr<Trainer> trainer;
};

/// Opens the data and initialises the network. Throws for whatever is wrong with the deck, its data, or the parameters
/// that it names. Collective.
Untrained open_untrained(const RunConfig& config, const Communicator& ranks);

}  // namespace lockstep
