// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// The sum of squares of gradients that no rank has the sum of, as those of compressed sums: each rank adds its
/// numbers, with drawn signs, into a few drawn sums, which are added up over ranks. The squares of these have the right
/// mean, and a deviation of 2 % here (Alon, Matias and Szegedy 1996, "The space complexity of approximating the
/// frequency moments"). Of gradients on the host.
class GradientSketch {
 public:
  explicit GradientSketch(std::uint64_t seed) : seed_(seed), sums_(size) {}

  /// This rank's gradients from element `first` on, of a step of this number.
  void add(const ExecSpace& space, std::int64_t step, const Tensor& gradients, std::int64_t first);
  /// |Σ g|² over all ranks, of what was added since the last call. Collective.
  double take_square(const Communicator& ranks);
  /// Forgets what was added.
  void discard();

 private:
  static constexpr std::size_t size = 4096;

  std::uint64_t seed_;
  std::vector<double> sums_;
};

}  // namespace lockstep
