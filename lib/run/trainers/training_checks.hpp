// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "comm/topology.hpp"
#include "data/dataset/dataset.hpp"
#include "nn/graph.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "run/deck/run_config.hpp"

// What is found wrong with a deck before its network is made: as far as ranks and data decide it.
namespace lockstep {

/// Throws if so many ranks cannot train by this deck, whatever its data are.
void check_deck(const RunConfig& config, int ranks);

/// Throws KeyError if so many ranks cannot train as the deck says on so many examples.
void check_examples(const RunConfig& config, std::int64_t examples, int ranks);

/// Returns the order in which parallel.asynchronous applies gradients, simulated or from its record; empty if there is
/// none. Throws if the record, or the deck, does not suit it. Collective.
PushOrder planned_pushes(const RunConfig& config, std::int64_t examples, const Communicator& comm);

/// Throws if these ranks cannot train as the deck says, as far as that depends on the data and the network between
/// them. Collective.
void check_training(const RunConfig& config, const Dataset& train, const Communicator& ranks);

/// Returns how these ranks divide a batch. Throws KeyError if a step of theirs is not possible with the network, or
/// needs more than parallel.memory_gb. Prepares the graph's layers. Collective.
BatchPartition check_step(const RunConfig& config, Graph& graph, const Dataset& train, const Topology& ranks);

}  // namespace lockstep
