// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "data/upload.hpp"
#include "nn/loss.hpp"
#include "nn/metric_table.hpp"
#include "nn/model.hpp"
#include "ops/loss.hpp"
#include "parallel/step_scope.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// Sums of metrics in the step's memory, and what the loss needs to make them. Loss and accuracy come with every batch,
/// the deck's `metrics` with evaluations alone: they take passes of their own over the outputs.
class MetricSums {
 public:
  /// For batches of up to so many examples of this output, metrics of these names (see metric_names), and targets of
  /// which those of one number do not count (Loss::ignored_class).
  MetricSums(std::int64_t max_batch, const Shape& one_output, std::span<const std::string> metrics = {},
             std::int64_t ignored_class = -1);
  /// What the sums of these metrics take, in bytes.
  static std::int64_t bytes_of(std::span<const std::string> metrics, const Shape& one_output);
  /// Evaluations bring a confusion matrix too, from now on. For class targets.
  void count_confusions();

  void clear(const ExecSpace& space);
  /// Of a step: anew, or after the sums of steps before.
  void begin(const ExecSpace& space, StepScope::Losses losses);
  /// Loss and accuracy of n examples: of all, or of the next rows of them. Stores the gradient where there is a place
  /// for one. `targets`: of all.
  void add(const ExecSpace& space, const Loss& loss, std::int64_t n, const Model::Output& output, const Tensor& targets,
           const GradientFactor& gradient_scale = 1, const MixedTargets& mixed = {});
  /// Before `add`, of the same output: the other metrics.
  void add_others(const ExecSpace& space, const Model::Output& output, const Tensor& targets);
  /// Summed over the examples so far, of this rank. Waits for the device.
  LossSums local(const ExecSpace& space) const;
  /// Those of the step alone, where they are.
  const LossSums* in_memory() const { return static_cast<const LossSums*>(sums_.get().data); }
  /// Rows of one example's output, each of which the loss looks at by itself.
  std::int64_t positions() const { return positions_; }
  /// Loss and accuracy over the examples of all ranks; collective.
  Metrics reduce(const ExecSpace& space, const Communicator& comm, const Loss& loss) const;
  /// Loss, accuracy and the other metrics over the examples of all ranks; collective.
  Metrics reduce_all(const ExecSpace& space, const Communicator& comm, const Loss& loss, std::int64_t examples) const;

 private:
  struct Other {
    std::string_view name;
    std::unique_ptr<Metric> metric;
    OwnedTensor sums;  ///< f64 [metric->sum_count()]
  };
  std::int64_t positions_, classes_, ignored_class_;
  OwnedTensor per_example_;
  OwnedTensor sums_, before_;  ///< LossSums; and those of the steps before that they are after
  bool has_before_ = false;
  std::vector<Other> others_;
  OwnedTensor confusions_;  ///< f64 [classes, classes], where they are counted
};

/// Evaluates a network on examples that ranks share out, up to `max_batch` of a rank at once.
class Evaluator {
 public:
  /// What it evaluates, and with what; steps may use the same.
  struct Parts {
    Model& model;
    const Loss& loss;
    BatchUploader& uploader;
    MetricSums& sums;
  };
  /// What `parts` refer to outlives this.
  Evaluator(const Communicator& comm, const Parts& parts, std::int64_t max_batch)
      : comm_(comm), parts_(parts), max_batch_(max_batch) {}

  /// Metrics over each example of a dataset exactly once; a warning where there is no loss, because no target counts.
  /// `gives_up` is asked after each batch, as many times on all ranks, and answers all of them the same: there is no
  /// result then. Collective.
  std::optional<Metrics> evaluate(const Dataset& dataset, const std::function<bool()>& gives_up = [] { return false; });
  /// Metrics over the examples of a batch, each rank's share, whatever its micro-batches. Collective.
  Metrics evaluate(const HostBatch& batch);

 private:
  /// Adds the metrics of `count` examples of the batch. All ranks do that equally often, the last times some without
  /// examples: layers may wait for each other's parameters.
  void add(StepContext& context, const HostBatch& batch, std::int64_t first, std::int64_t count);

  Communicator comm_;
  Parts parts_;
  std::int64_t max_batch_;
  ExecSpace space_;
};

}  // namespace lockstep
