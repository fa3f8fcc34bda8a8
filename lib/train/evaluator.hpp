// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "data/batch/upload.hpp"
#include "data/dataset/dataset.hpp"
#include "nn/loss.hpp"
#include "nn/metrics/metric.hpp"
#include "nn/model.hpp"
#include "ops/loss/loss.hpp"
#include "train/results.hpp"

namespace lockstep {

/// Sums of metrics in device memory, and the scratch memory in which the loss computes them. Loss and accuracy are
/// summed with every batch, the deck's `metrics` in evaluations only, because they take passes of their own over the
/// outputs.
class MetricSums {
 public:
  /// For batches of up to `max_batch` examples with outputs of shape `one_output`. `metrics` are names as in
  /// metric_names. Targets of `ignored_class` do not count (Loss::ignored_class).
  MetricSums(std::int64_t max_batch, const Shape& one_output, std::span<const std::string> metrics = {},
             std::int64_t ignored_class = -1);
  /// Bytes that the sums of these metrics take.
  static std::int64_t bytes_of(std::span<const std::string> metrics, const Shape& one_output);
  /// From now on, evaluations also count a confusion matrix. For class targets only.
  void count_confusions();

  void clear(const ExecSpace& space);
  /// Adds loss and accuracy of `n` examples: of all of them, or of the rows of a tile. Writes the gradient if `output`
  /// has a place for it. `targets` are those of all `n` examples.
  void add(const ExecSpace& space, const Loss& loss, std::int64_t n, const Model::Output& output, const Tensor& targets,
           const GradientFactor& gradient_scale = 1, const MixedTargets& mixed = {});
  /// Adds the other metrics of an output. Call it before `add` of the same output.
  void add_others(const ExecSpace& space, const Model::Output& output, const Tensor& targets);
  /// Returns this rank's sums over the examples so far. Waits for the device.
  LossSums local(const ExecSpace& space) const;
  /// This rank's sums in device memory, a LossSums; kernels may still add to them.
  const LossSums* in_memory() const { return static_cast<const LossSums*>(sums_.get().data); }
  /// Number of rows in the output of one example; the loss treats each row by itself.
  std::int64_t positions() const { return positions_; }
  /// Loss and accuracy over the examples of all ranks, of which this one has the sums `local`. Collective.
  Metrics reduce(const LossSums& local, const Communicator& comm, const Loss& loss) const;
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
  OwnedTensor sums_;  ///< a LossSums
  std::vector<Other> others_;
  OwnedTensor confusions_;  ///< f64 [classes, classes], where they are counted
};

/// Evaluates a network on examples that are divided among the ranks, up to `max_batch` at once on each.
class Evaluator {
 public:
  /// What an evaluation works with; training steps may use the same objects.
  struct Parts {
    Model& model;
    const Loss& loss;
    BatchUploader& uploader;
    MetricSums& sums;
  };
  /// The objects that `parts` refers to must outlive this one.
  Evaluator(const Communicator& comm, const Parts& parts, std::int64_t max_batch)
      : comm_(comm), parts_(parts), max_batch_(max_batch) {}

  /// Returns metrics over each example of a dataset exactly once. Warns if there is no loss because no target counts.
  /// `gives_up` is called after each batch, equally often on all ranks, and must return the same on all of them; if it
  /// returns true, there is no result. Collective.
  std::optional<Metrics> evaluate(const Dataset& dataset, const std::function<bool()>& gives_up = [] { return false; });
  /// Returns metrics over the examples of a batch, of which each rank passes its share. The batch's division into
  /// micro-batches does not matter. Collective.
  Metrics evaluate(const HostBatch& batch);

 private:
  /// Adds the metrics of `count` examples of the batch. All ranks call this equally often, some without examples in the
  /// last calls, because layers may wait for parameters of other ranks.
  void add(PassContext& context, const HostBatch& batch, std::int64_t first, std::int64_t count);

  Communicator comm_;
  Parts parts_;
  std::int64_t max_batch_;
  ExecSpace space_;
};

}  // namespace lockstep
