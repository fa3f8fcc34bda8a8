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

/// The noise scale of a run's steps: looks at every tenth or so, where there are small batches, of ranks or of shards,
/// beside the sum of all.
class NoiseMeasurement final : public Stateful {
 public:
  /// `seed`: of the sketch of sums that no rank has exactly; none: ranks have them.
  NoiseMeasurement(const Communicator& ranks, std::int64_t trained, std::optional<std::uint64_t> seed)
      : ranks_(ranks), own_square_(trained) {
    if (seed) sketch_.emplace(*seed);
  }

  /// A step after so many others begins; what is known of one before it that could not be done is forgotten.
  /// `has_small_batches`: whether ranks or shards sum gradients of their own by
  /// the same parameters.
  void begin_step(std::int64_t steps, bool has_small_batches);
  /// The next stretch of a small batch's gradients is final.
  void gradient_ready(const ExecSpace& space, const ParameterBuffer& parameters, ParameterRange range);
  /// The small batch had so many examples.
  void small_batch_done(std::int64_t examples);
  /// The step had so many examples, of all ranks; it and its small batches were multiplied by `factor`, an f64 [1].
  /// `square()`: of the sum of all, collective, and asked for where no sketch is made. Collective.
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
