// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scaling/machine.hpp"
#include "scaling/workload.hpp"

namespace lockstep {

/// Seconds of a step of one rank, with nobody to wait for.
struct PhaseSeconds {
  double forward = 0, backward = 0, optimizer = 0, other = 0;

  double total() const { return forward + backward + optimizer + other; }
};

/// How long a rank computes: from steps of this network, where the machine's file has them, else from its speed in
/// products and of its memory.
class ComputeTimes {
 public:
  /// Both outlive it. Throws Error(bad_deck) for a precision of which the machine's file says nothing.
  ComputeTimes(const Machine& machine, const Workload& workload);

  bool is_measured() const { return !measured_.empty(); }
  /// Examples of the only step that was measured, if it is the only one: how other batches do is then taken, and not
  /// known.
  std::optional<std::int64_t> only_batch() const {
    return measured_.size() == 1 ? std::optional(measured_.front().examples) : std::nullopt;
  }
  /// Seconds of a step of so many examples, all at once. `again`: the part of the forward pass that the backward pass
  /// computes again (part_computed_again).
  PhaseSeconds of(std::int64_t examples, double again = 0) const;
  /// Seconds of a rank's share of a batch, in micro-batches of at most `micro`.
  PhaseSeconds of_share(std::int64_t share, std::int64_t micro, double again = 0) const;
  double part_computed_again(const StepPlan& plan, std::int64_t examples) const;
  /// A layer's forward pass on so many examples, beside those of the others.
  double forward_weight(int layer, std::int64_t examples) const;
  /// A layer's backward pass on so many examples, beside those of the others.
  double backward_weight(int layer, std::int64_t examples) const;

 private:
  /// Seconds in which the gradients of a micro-batch are added to those of the ones before it.
  double accumulation() const;
  double product_seconds(double flops) const;
  double layer_seconds(const LayerWork& layer, std::int64_t examples, int products, double passes) const;
  PhaseSeconds known(std::int64_t examples) const;
  PhaseSeconds estimated(std::int64_t examples) const;

  const Machine& machine_;
  const Workload& workload_;
  std::vector<MeasuredStep> measured_;  ///< of this network, by rising examples
  std::vector<ProductSpeed> products_;  ///< of this precision
};

}  // namespace lockstep
