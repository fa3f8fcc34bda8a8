// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "comm/communicator.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "optim/gradient_scale.hpp"
#include "train/noise/gradient_sketch.hpp"
#include "train/noise/noise_scale.hpp"

namespace lockstep {

/// Measures the gradient noise scale of a run. Looks at every NoiseScale::every-th step, if there are small batches, of
/// ranks or of shards, besides the sum of all.
class NoiseMeasurement final : public Stateful {
 public:
  /// `trained` is the number of trained parameters. `seed` is that of the sketch, for sums that no rank holds exactly;
  /// none: ranks hold them.
  NoiseMeasurement(const Communicator& ranks, std::int64_t trained, std::optional<std::uint64_t> seed)
      : ranks_(ranks), own_square_(trained) {
    if (seed) sketch_.emplace(*seed);
  }

  /// Begins a step after `steps` others, and forgets what is known of an earlier one that could not be done.
  /// `has_small_batches` says whether ranks or shards sum gradients of their own by the same parameters.
  void begin_step(std::int64_t steps, bool has_small_batches);
  /// Call when the next range of a small batch's gradients is final. Waits for the device in steps that are measured.
  void gradient_ready(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range);
  /// Ends a small batch of so many examples.
  void small_batch_done(std::int64_t examples);
  /// Ends a step of `examples` on all ranks, whose gradients, those of small batches too, were multiplied by `factor`,
  /// an f64 [1]. `square()` returns the sum of squares of the sum of all; it is collective, and called only without a
  /// sketch. Collective.
  void end_step(const ExecSpace& space, const std::function<double()>& square, std::int64_t examples,
                const Tensor& factor);

  std::optional<double> value() const { return scale_.value(); }
  void describe_state(StateFields& fields) override { scale_.describe_state(fields); }

 private:
  Communicator ranks_;
  NoiseScale scale_;
  GradientSquare own_square_;             ///< of this rank's gradients
  std::optional<GradientSketch> sketch_;  ///< of the sum of all
  std::int64_t step_ = 0;
  bool measures_ = false;
};

}  // namespace lockstep
