// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batch/batch_partition.hpp"
#include "data/open_datasets.hpp"
#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "run/deck/run_config.hpp"

namespace lockstep {

/// A deck's data, network and loss, opened and checked against each other. Nothing is allocated for steps yet.
struct Experiment {
  Datasets data;
  Graph graph;
  std::unique_ptr<Loss> loss;
};

/// Opens what the deck names. Throws for everything that is wrong with the deck or its files: see docs/user/errors.md.
/// Collective over the ranks of `reading`.
Experiment open_experiment(const RunConfig& config, const SharedReading& reading = {});

/// Makes the deck's network for examples of this format. Its input shape is that of the examples, unless model.input
/// gives another. Throws KeyError.
Graph make_graph(const RunConfig& config, const ExampleFormat& format);

/// Returns what the network reads for the numbers of inputs in this format. Throws KeyError if data.normalize or
/// data.scale does not suit it.
inline Normalization normalization_of(const RunConfig& config, const ExampleFormat& format, const Graph& graph) {
  return normalization_of(config.data, format, !graph.tables_of_data().empty());
}

/// Size of the network's vocabulary (the smallest one, where several layers read tokens); 0: no layer reads tokens.
std::int64_t vocabulary_of(const Graph& graph);

/// Throws unless the network can read the inputs of `data`.
void check_inputs(const Dataset& data, const AugmentConfig& augment, const Graph& graph);
/// Throws KeyError unless these metrics suit the loss.
void check_metrics(std::span<const std::string> names, const Loss& loss);
/// Returns warnings about metrics that have the same value whatever an output of this shape is.
std::vector<std::string> metric_remarks(std::span<const std::string> names, const Shape& output);
/// Throws unless the network and the loss can read the examples of `data`.
void check_examples(const Dataset& data, const AugmentConfig& augment, const Graph& graph, const Loss& loss);

/// Says how a batch is divided, as in "batch 50 = 8 ranks × 6 or 7". `examples`: number of training examples.
std::string batch_text(const RunConfig& config, const BatchPartition& partition, std::int64_t examples);
/// Returns warnings about what may not be intended: keys without effect, a batch larger than the data, ranks without
/// work, a warm-up longer than the run, a ramp of batches beyond its end, a batch_norm of single values, metrics that
/// are always the same, a softmax or sigmoid in front of a loss that applies its own.
std::vector<std::string> run_remarks(const RunConfig& config, const Graph& graph, const BatchPartition& partition,
                                     std::int64_t examples);
/// Returns a warning if `largest`, the number of parameters of the rank that owns most of a divided model, is far above
/// the mean.
std::optional<std::string> remark_on_parts(const ParallelConfig& config, double largest, double mean);

}  // namespace lockstep
