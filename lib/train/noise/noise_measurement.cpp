// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/noise/noise_measurement.hpp"

namespace lockstep {

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
