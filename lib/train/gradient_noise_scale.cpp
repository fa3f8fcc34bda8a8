// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/gradient_noise_scale.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/random.hpp"

namespace lockstep {

void NoiseScale::describe_state(StateFields& fields) {
  if (fields.restores()) discard_step();
  fields.array("noise", [this](StateFields& entries) {
    entries.real("trace", average_.trace);
    entries.real("square", average_.square);
    entries.real("weight", average_.weight);
  });
}

void NoiseScale::discard_step() {
  square_ = small_ = 0;
  batches_ = 0;
}

void NoiseScale::end_small_batch(std::int64_t examples) {
  const double square = std::exchange(square_, 0.0);
  if (examples == 0) return;
  small_ += square / static_cast<double>(examples);
  ++batches_;
}

void NoiseScale::end_step(const Communicator& comm, double square, std::int64_t examples, double scale) {
  double sums[2] = {std::exchange(small_, 0.0) / (scale * scale), static_cast<double>(std::exchange(batches_, 0))};
  comm.all_reduce_sum(sums);
  const auto& [small, batches] = sums;
  if (batches < 2 || !std::isfinite(small) || !std::isfinite(square)) return;
  const double n = static_cast<double>(examples), large = square / (scale * scale) / n;
  const double trace = (small - large) / (batches - 1);
  constexpr double newest = 0.02;  // weight of the newest measurement: the averages are over the last 50 or so
  average_.trace += newest * (trace - average_.trace);
  average_.square += newest * ((large - trace) / n - average_.square);
  average_.weight += newest * (1 - average_.weight);
}

std::optional<double> NoiseScale::value() const {
  if (average_.weight == 0 || average_.square <= 0 || average_.trace <= 0) return std::nullopt;
  return average_.trace / average_.square;
}

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

void NoiseMeasurement::begin_step(std::int64_t steps, bool has_small_batches) {
  step_ = steps;
  measures_ = has_small_batches && steps % NoiseScale::every == 0;
  if (!measures_) return;
  scale_.discard_step();
  if (sketch_) sketch_->discard();
}

void NoiseMeasurement::gradient_ready(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range) {
  if (!measures_ || range.first >= parameters.trained_size()) return;
  const Tensor gradients = parameters.gradients(range);
  scale_.add_small_batch(f64_on_host(space, own_square_.compute(space, gradients)));
  if (sketch_) sketch_->add(space, step_, gradients, range.first);
}

void NoiseMeasurement::small_batch_done(std::int64_t examples) {
  if (measures_) scale_.end_small_batch(examples);
}

void NoiseMeasurement::end_step(const ExecSpace& space, const std::function<double()>& square, std::int64_t examples,
                                const Tensor& factor) {
  if (!measures_) return;
  scale_.end_step(ranks_, sketch_ ? sketch_->take_square(ranks_) : square(), examples, f64_on_host(space, factor));
}

}  // namespace lockstep
