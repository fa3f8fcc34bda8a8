// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "config/state_fields.hpp"
#include "core/tensor.hpp"
#include "optim/update_scalars.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The gradient noise scale B = tr(Σ) / |G|² (McCandlish, Kaplan, Amodei et al., "An empirical model of large-batch
/// training", 2018): about the batch size beyond which more examples stop paying off. G is the true gradient, Σ the
/// covariance of the gradient of one example. B follows from the norms of sums over small batches and of their total:
/// with n_r examples in each of R small batches, N together, and g_r the sum of the gradients of one,
///   E Σ_r |g_r|² / n_r = N |G|² + R tr(Σ)   and   E |Σ_r g_r|² / N = N |G|² + tr(Σ).
class NoiseScale final : public Stateful {
 public:
  /// Steps from one that is measured to the next: each costs one more reading of the gradients.
  static constexpr std::int64_t every = 10;

  /// The state is the averages over the latest steps. Restoring it forgets the unfinished step.
  void describe_state(StateFields& fields) override;

  /// Adds Σ g² of a part of this rank's g_r.
  void add_small_batch(double square) { square_ += square; }
  /// Ends a small batch of so many examples.
  void end_small_batch(std::int64_t examples);
  /// Ends a step. `square` is |Σ g_r|² over N = `examples`; the sum and all g_r have been multiplied by `scale`.
  /// Collective.
  void end_step(const Communicator& comm, double square, std::int64_t examples, double scale);

  /// Forgets the current step, which is not done.
  void discard_step();

  /// Returns the ratio of averages over the latest steps; none before a step with two small batches, or if noise hides
  /// the gradient altogether.
  std::optional<double> value() const;

 private:
  /// Exponential averages over the latest measured steps.
  struct Averages {
    double trace = 0, square = 0;  ///< of tr(Σ) and |G|²
    double weight = 0;             ///< of the measurements in the averages; 1 in the long run
  };

  double square_ = 0;         ///< Σ g² of the current small batch, so far
  double small_ = 0;          ///< Σ |g_r|² / n_r of this rank, in the current step
  std::int64_t batches_ = 0;  ///< number of terms in `small_`
  Averages average_;
};

/// Estimates the sum of squares of a sum of gradients that no rank holds, as with compressed sums. Each rank adds its
/// numbers, with random signs, into a few random sums, which are then added up over ranks. The squares of these have
/// the right mean, with a deviation of 2 % here (Alon, Matias and Szegedy 1996, "The space complexity of approximating
/// the frequency moments"). The gradients must be in host memory.
class GradientSketch {
 public:
  explicit GradientSketch(std::uint64_t seed) : seed_(seed), sums_(size) {}

  /// Adds this rank's gradients of step number `step`, from element `first` of the flat buffer on. Waits for `space`.
  void add(const ExecSpace& space, std::int64_t step, const Tensor& gradients, std::int64_t first);
  /// Returns |Σ g|² over all ranks, of the gradients added since the last call. Collective.
  double take_square(const Communicator& ranks);
  /// Forgets what was added.
  void discard();

 private:
  static constexpr std::size_t size = 4096;

  std::uint64_t seed_;
  std::vector<double> sums_;
};

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
