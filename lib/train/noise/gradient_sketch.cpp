// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/noise/gradient_sketch.hpp"

#include <algorithm>

#include "core/random.hpp"

namespace lockstep {

void GradientSketch::add(const ExecSpace& space, std::int64_t step, const Tensor& gradients, std::int64_t first) {
  space.fence("lockstep::gradient_sketch");
  const RandomStream draws(seed_, RandomPurpose::sketch, static_cast<std::uint64_t>(step));
  const auto add_numbers = [&](const auto* numbers) {
    for (std::int64_t i = 0; i < gradients.count(); ++i) {
      const RandomBits bits = draws.bits(static_cast<std::uint64_t>(first + i));
      const auto number = static_cast<double>(numbers[i]);
      sums_[bits.word[0] % size] += (bits.word[1] & 1) != 0 ? number : -number;
    }
  };
  if (gradients.dtype == DType::f64) add_numbers(gradients.as<const double>());
  else add_numbers(gradients.as<const float>());
}

double GradientSketch::take_square(const Communicator& ranks) {
  ranks.all_reduce_sum(sums_);
  double square = 0;
  for (const double sum : sums_) square += sum * sum;
  discard();
  return square;
}

void GradientSketch::discard() { std::ranges::fill(sums_, 0.0); }

}  // namespace lockstep
