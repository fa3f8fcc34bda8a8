// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch_partition.hpp"
#include "data/data_config.hpp"
#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// A deck's data, network and loss, opened and found to fit each other; nothing is allocated for steps yet.
struct Experiment {
  Datasets data;
  Graph graph;
  std::unique_ptr<Loss> loss;
};

/// Throws for everything that is wrong with the deck or its files: see docs/user/errors.md. Collective (SharedReading).
Experiment open_experiment(const RunConfig& config, const SharedReading& reading = {});

/// The deck's network for such examples, whose shape it has unless the deck says another.
Graph make_graph(const RunConfig& config, const ExampleFormat& format);

/// Words that the network knows; 0: its inputs are no tokens.
std::int64_t vocabulary_of(const Graph& graph);

/// Throws unless the network can read these inputs.
void check_inputs(const Dataset& data, const AugmentConfig& augment, const Graph& graph);
/// Throws unless the loss and an output of this shape go with these metrics.
void check_metrics(std::span<const std::string> names, const Loss& loss, const Shape& output);
/// Throws unless the network and the loss can read these examples.
void check_examples(const Dataset& data, const AugmentConfig& augment, const Graph& graph, const Loss& loss);

/// "batch 50 = 8 ranks × 6 or 7": of `examples` to train on.
std::string batch_text(const RunConfig& config, const BatchPartition& partition, std::int64_t examples);
/// What may not be meant: keys that have no effect, a batch larger than the data, ranks that have nothing to do, a
/// warm-up that the run does not come to the end of, a softmax in front of a loss that has its own.
std::vector<std::string> run_remarks(const RunConfig& config, const Graph& graph, const BatchPartition& partition,
                                     std::int64_t examples);

}  // namespace lockstep
