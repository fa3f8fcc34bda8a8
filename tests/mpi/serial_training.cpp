// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mpi/serial_training.hpp"

#include "data/batch/sampler.hpp"
#include "data/batch/upload.hpp"
#include "ops/loss/loss.hpp"
#include "optim/update_scalars.hpp"
#include "run/experiment/experiment.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

RunConfig read_run_config(const std::string& deck, const std::string& output_dir) {
  DeckNode node = parse_deck(deck, "test");
  apply_override(node, "run.output_dir='" + output_dir + "'");
  apply_override(node, "run.resume=never");
  apply_override(node, "run.overwrite=true");
  return lockstep::read_run_config(std::move(node));
}

Curve train_serially(const RunConfig& config, int steps) {
  const ExecSpace space;
  Experiment experiment = open_experiment(config);
  const Dataset& data = *experiment.data.train;
  const std::int64_t batch = std::min(config.batch.largest(), data.size());
  Model model = make_model(config, std::move(experiment.graph), batch, Purpose::training);
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  model.parameters().initialize(space, seed);
  const GradientSquare square(model.parameters().trained_size());
  const UpdateScalarsMemory scalars;
  const RunLength length = run_length(config, data.size());
  const LearningRateSchedule schedule(config.schedule, length);
  const auto optimizer = config.optimizer.make(model.parameters());
  BatchUploader uploader(data.format(), normalization_of(config, data.format(), model.graph()), config.dtype(), batch);
  const OwnedTensor scratch("scratch", DType::f64, {batch * model.graph().output_shape().rows(), 2}),
      sums("sums", DType::f64, {loss_sum_count});
  HostBatch host;
  host.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs",
                                                       static_cast<std::size_t>(batch) * data.format().input_bytes());
  host.targets = Kokkos::View<std::byte*, StagingSpace>("targets",
                                                        static_cast<std::size_t>(batch) * data.format().target_bytes());
  Sampler sampler({.dataset_size = data.size(),
                   .batch_at = [&](const SamplerPosition& at) { return length.batch_at(at.epoch, at.next); },
                   .seed = seed,
                   .shuffle = config.data.shuffle,
                   .drop_last = config.data.drop_last});
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    host.plan = *sampler.next();
    data.read(host.plan.examples, host.inputs.data(), host.targets.data());
    const PassContext context{.space = space, .seed = seed, .step = step};
    const DeviceBatch examples = uploader.upload(space, host, 0, host.size());
    fill_zero(space, sums.get());
    const Tensor outputs = model.forward(context, examples.inputs);
    experiment.loss->evaluate(space, outputs, examples.targets, model.output_gradient(), scratch.get(), sums.get());
    model.backward(context, examples.inputs, [](ElementRange) {});
    const double count = static_cast<double>(host.plan.global_examples);
    const double norm_square = values_of(
        square.compute(space, model.parameters().gradients({0, model.parameters().trained_size()})))[0];
    optimizer->step(
        space, model.parameters(),
        scalars.set(
            space,
            {.coefficients = optimizer->coefficients(
                 {.learning_rate = config.optimizer.rule().learning_rate * schedule.factor(step), .number = step + 1}),
             .gradient_scale = clipped_gradient_scale(1 / count, config.optimizer.rule().clip_norm, norm_square)}));
    model.parameters().update_statistics(space, 1 / count);
    space.fence();
    curve.losses.push_back(values_of(sums.get())[0] / count);
  }
  curve.parameters = values_of(model.parameters().values());
  return curve;
}

}  // namespace lockstep::test
