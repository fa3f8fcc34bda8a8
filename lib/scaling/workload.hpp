// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run/experiment/experiment.hpp"
#include "train/step_memory.hpp"

namespace lockstep {

/// What a layer does for an example.
struct LayerWork {
  double flops = 0;  ///< of its large product, forward
  int backward = 0;  ///< products of as many operations in the backward pass
  double bytes = 0;  ///< of inputs and outputs
};

/// A point of the backward pass: the layers that have been passed, and how many gradients are final by then.
struct ReadyPoint {
  std::vector<int> layers;  ///< passed since the point before
  std::int64_t elements = 0;
};

/// What of a deck has steps that are not predicted, and why.
struct NotPredicted {
  std::string key, why;
};
std::optional<NotPredicted> not_predicted(const ParallelConfig& config);

/// A deck whose steps are predicted, with its data open and its network planned.
class Workload {
 public:
  /// Throws for everything that is wrong with the deck or its files, and for what is not predicted.
  explicit Workload(const RunConfig& config);

  /// Takes another way of dividing the model, of cutting batches, of keeping activations: what leaves the network as it
  /// is.
  void change(const std::function<void(TrainingConfig&)>& change) { change(config_); }
  /// What parallel.shard: auto comes to on these ranks, with the words for it; empty: the deck names a way.
  std::string choose_shard(RankCount ranks);
  /// The step on these ranks.
  StepMemory plan(RankCount ranks) { return step_memory(config_, experiment_.graph, *experiment_.data.train, ranks); }
  /// In the order of the backward pass; the last one has all gradients.
  std::vector<ReadyPoint> ready_points(const StepPlan& plan) const;
  /// Bytes that ranks which share batch_norm's statistics have for each exchange of them in a step; empty: none.
  std::vector<double> statistics(const StepPlan& plan) const;

  const RunConfig& config() const { return config_; }
  const std::vector<LayerWork>& layers() const { return layers_; }
  double flops_per_example() const;
  std::int64_t parameters() const { return experiment_.graph.parameter_count(); }
  std::int64_t states() const { return static_cast<std::int64_t>(config_.optimizer.state_names().size()); }
  const ParameterLayout& layout() const { return layout_; }
  const Graph& graph() const { return experiment_.graph; }
  double element_bytes() const { return static_cast<double>(size_of(master_dtype(config_.dtype()))); }
  std::int64_t train_examples() const { return experiment_.data.train->size(); }
  std::int64_t validation_examples() const {
    return experiment_.data.validation ? experiment_.data.validation->size() : 0;
  }
  double example_bytes() const;
  RunLength length() const { return run_length(config_, train_examples()); }
  std::int64_t batch() const { return std::min(config_.batch.largest(), train_examples()); }
  BatchPartition partition(int ranks) const { return batch_partition(config_, experiment_.graph, ranks); }

 private:
  RunConfig config_;
  Experiment experiment_;
  ParameterLayout layout_;
  std::vector<LayerWork> layers_;
};

}  // namespace lockstep
