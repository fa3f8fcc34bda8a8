// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "core/tensor.hpp"

namespace lockstep {

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

}  // namespace lockstep
