// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scaling/machine.hpp"
#include "scaling/workload.hpp"

namespace lockstep {

/// Seconds of a step of one rank that waits for no other.
struct PhaseSeconds {
  double forward = 0, backward = 0, optimizer = 0, other = 0;

  double total() const { return forward + backward + optimizer + other; }
};

/// How long a rank computes: from measured steps of this network, if the machine's file has them, else from its speed
/// in products and that of its memory.
class ComputeTimes {
 public:
  /// Both arguments outlive this. Throws Error(bad_deck) for a precision that the machine's file lacks.
  ComputeTimes(const Machine& machine, const Workload& workload);

  bool is_measured() const { return !measured_.empty(); }
  /// Examples of the measured step, if there is only one: times of other batches are then assumptions.
  std::optional<std::int64_t> only_batch() const {
    return measured_.size() == 1 ? std::optional(measured_.front().examples) : std::nullopt;
  }
  /// Seconds of a step of so many examples, all at once. `again`: the part of the forward pass that the backward pass
  /// computes again (part_computed_again).
  PhaseSeconds of(std::int64_t examples, double again = 0) const;
  /// Seconds of a rank's share of a batch, in micro-batches of at most `micro` examples.
  PhaseSeconds of_share(std::int64_t share, std::int64_t micro, double again = 0) const;
  double part_computed_again(const ExecutionPlan& plan, std::int64_t examples) const;
  /// Relative time of a layer's forward pass on so many examples, compared with other layers.
  double forward_weight(int layer, std::int64_t examples) const;
  /// Relative time of a layer's backward pass on so many examples, compared with other layers.
  double backward_weight(int layer, std::int64_t examples) const;

 private:
  /// Seconds for adding the gradients of a micro-batch to those of earlier ones.
  double accumulation() const;
  double product_seconds(double flops) const;
  double layer_seconds(const LayerWork& layer, std::int64_t examples, int products, double passes) const;
  PhaseSeconds known(std::int64_t examples) const;
  PhaseSeconds estimated(std::int64_t examples) const;

  const Machine& machine_;
  const Workload& workload_;
  std::vector<MeasuredStep> measured_;  ///< those of this network, by rising number of examples
  std::vector<ProductSpeed> products_;  ///< those of this precision
};

}  // namespace lockstep
