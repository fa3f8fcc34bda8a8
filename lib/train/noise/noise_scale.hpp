// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "comm/communicator.hpp"
#include "config/state_fields.hpp"

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

}  // namespace lockstep
