// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "comm/communicator.hpp"
#include "data/dataset.hpp"
#include "data/upload.hpp"
#include "nn/loss.hpp"
#include "nn/model.hpp"
#include "train/metrics.hpp"

namespace lockstep {

/// Vectors in one example's output, each of which the loss looks at by itself: T for [T, K].
inline std::int64_t positions_in(const Shape& output) { return output.count() / output[-1]; }

/// Sums of a batch's metrics in the step's memory, and what the loss needs to make them.
class MetricSums {
 public:
  /// `rows`: most examples × positions_in(the model's output) at once.
  explicit MetricSums(std::int64_t rows)
      : per_example_("lockstep::loss_per_example", DType::f64, {rows, 2}),
        sums_("lockstep::loss_sums", DType::f64, {2}) {}

  void clear(const ExecSpace& space) { fill_zero(space, sums_.get()); }
  void add(const ExecSpace& space, const Loss& loss, const Tensor& outputs, const Tensor& targets,
           const Tensor& doutputs, double gradient_scale = 1) {
    loss.evaluate(space, outputs, targets, doutputs, per_example_.get(), sums_.get(), gradient_scale);
  }
  /// Summed over the examples so far, of this rank. Waits for the device.
  double loss(const ExecSpace& space) const;
  /// Means over the examples of all ranks; collective.
  Metrics reduce(const ExecSpace& space, const Communicator& comm, const Loss& loss, std::int64_t examples) const;

 private:
  OwnedTensor per_example_;
  OwnedTensor sums_;  // f64 [2]
};

/// Loss and accuracy over each example of a dataset exactly once, shared out over the ranks. Collective. `gives_up` is
/// asked after each batch, as many times on all ranks, and answers all of them the same: there is no result then.
std::optional<Metrics> evaluate(
    const ExecSpace& space, const Communicator& comm, Model& model, const Loss& loss, const Dataset& dataset,
    BatchUploader& uploader, MetricSums& sums, std::int64_t max_batch,
    const std::function<bool()>& gives_up = [] { return false; });

/// Loss and accuracy over the examples of a batch, each rank's share, whatever its micro-batches. Collective.
Metrics evaluate(const ExecSpace& space, const Communicator& comm, Model& model, const Loss& loss,
                 const HostBatch& batch, BatchUploader& uploader, MetricSums& sums, std::int64_t max_batch);

}  // namespace lockstep
