// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "run/experiment/experiment.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {

/// The work of a layer for one example.
struct LayerWork {
  double flops = 0;  ///< operations of its large product in the forward pass
  int backward = 0;  ///< number of products of this size in the backward pass
  double bytes = 0;  ///< bytes of its inputs and outputs
};

/// A point of the backward pass: the layers that are passed, and the gradients that are final by then.
struct ReadyPoint {
  std::vector<int> layers;  ///< layers passed since the previous point
  std::int64_t elements = 0;
};

/// A key of a deck whose steps are not predicted, and the reason.
struct NotPredicted {
  std::string key, why;
};
std::optional<NotPredicted> not_predicted(const ParallelConfig& config);

/// A deck whose steps are predicted, with its data open and its network planned.
class Workload {
 public:
  /// Throws for everything that is wrong with the deck or its files, and for what is not predicted.
  explicit Workload(const RunConfig& config);

  /// Changes how the model is divided, how batches are cut, or which activations are kept. The network must stay the
  /// same.
  void change(const std::function<void(TrainingConfig&)>& change) { change(config_); }
  /// Chooses parallel.shard: auto for these ranks, and returns the reason; empty: the deck names a way.
  std::string choose_shard(RankCount ranks);
  /// Plans the step on these ranks.
  MemoryEstimate plan(RankCount ranks) {
    return memory_estimate(config_, experiment_.graph, *experiment_.data.train, ranks);
  }
  /// Returns the points of the backward pass, in order; the last one has all gradients.
  std::vector<ReadyPoint> ready_points(const ExecutionPlan& plan) const;
  /// Returns the bytes of each exchange of batch norms' statistics in a step; none if there are none.
  std::vector<double> statistics(const ExecutionPlan& plan) const;

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
