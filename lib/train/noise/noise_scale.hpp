// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>

#include "comm/communicator.hpp"
#include "config/state_fields.hpp"

namespace lockstep {

/// The gradient noise scale B = tr(Σ) / |G|² (McCandlish, Kaplan, Amodei et al., "An empirical model of large-batch
/// training", 2018): about how many examples a batch may have before more of them stop paying. G is the true gradient,
/// Σ the covariance of one example's. It comes from the norms of sums over small batches and of their sum over all:
/// with n_r examples in each of R small batches, N together, and g_r the sum of their gradients,
///   E Σ_r |g_r|² / n_r = N |G|² + R tr(Σ)   and   E |Σ_r g_r|² / N = N |G|² + tr(Σ).
class NoiseScale final : public Stateful {
 public:
  /// Steps between two that are looked at: each costs one more reading of the gradients.
  static constexpr std::int64_t every = 10;

  /// Averages over the latest steps. Forgets what it has seen of a step that is not done.
  void describe_state(StateFields& fields) override;

  /// Some of this rank's g_r, by its Σ g².
  void add_small_batch(double square) { square_ += square; }
  /// The small batch is complete; it had so many examples.
  void end_small_batch(std::int64_t examples);
  /// The step's sum over all: |Σ g_r|², of N examples; it and all g_r have been multiplied by `scale`. Collective.
  void end_step(const Communicator& comm, double square, std::int64_t examples, double scale);

  /// Forgets the running step, which is not done.
  void discard_step();

  /// The ratio of averages over the latest steps; none before there was one with two small batches, or where noise
  /// hides the gradient altogether.
  std::optional<double> value() const;

 private:
  /// Over the latest steps.
  struct Averages {
    double trace = 0, square = 0;  ///< of tr(Σ) and |G|²
    double weight = 0;             ///< of what they are made of; 1 in the long run
  };

  double square_ = 0;         ///< of g_r, so far
  double small_ = 0;          ///< Σ |g_r|² / n_r of this rank, in the running step
  std::int64_t batches_ = 0;  ///< of these
  Averages average_;
};

}  // namespace lockstep
