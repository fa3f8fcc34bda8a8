// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>

#include "mpi/serial_training.hpp"
#include "ops/loss/loss.hpp"
#include "reference/metrics.hpp"
#include "run/experiment/experiment.hpp"
#include "support/fixtures.hpp"
#include "train/evaluator.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {
namespace {

/// A dataset that counts how often each example is read.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::unique_ptr<Dataset> inner)
      : inner_(std::move(inner)), reads(static_cast<std::size_t>(inner_->size())) {}
  std::int64_t size() const override { return inner_->size(); }
  const ExampleFormat& format() const override { return inner_->format(); }
  std::string description() const override { return inner_->description(); }
  void read(std::span<const std::int64_t> examples, void* inputs, void* targets) const override {
    for (const auto example : examples) reads[static_cast<std::size_t>(example)] += 1;
    inner_->read(examples, inputs, targets);
  }
  void check_classes(std::int64_t classes, std::int64_t ignored) const override {
    inner_->check_classes(classes, ignored);
  }

 private:
  std::unique_ptr<Dataset> inner_;

 public:
  mutable std::vector<double> reads;
};

class Evaluation : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {};

TEST_P(Evaluation, ReadsEachExampleOnce) {
  const auto& [size, max_batch] = GetParam();
  const Communicator comm = Communicator::world();
  const ExecSpace space;
  const RunConfig config = test::read_run_config(
      fmt::format(
          "{{run: {{steps: 1}}, data: {{synthetic: {{kind: random, shape: [9], classes: 4, train: 4, validation: {}}}}},"
          " model: {{layers: [{{linear: {{features: 8}}}}, relu, {{dropout: {{rate: 0.5}}}}, {{linear: {{features: 4}}}}]}}, precision: {{compute: fp64}}, metrics: [perplexity, top_2]}}",
          size),
      "unused");
  CountingDataset data(std::move(open_experiment(config).data.validation));
  Metrics metrics;
  {
    Experiment experiment = open_experiment(config);
    Model model = make_model(config, std::move(experiment.graph), max_batch, Purpose::inference);
    model.parameters().initialize(space, 1);
    BatchUploader uploader(data.format(), normalization_of(config, data.format(), model.graph()), config.dtype(),
                           max_batch);
    MetricSums sums(max_batch, model.graph().output_shape(), config.metrics);
    metrics = Evaluator(comm, {model, *experiment.loss, uploader, sums}, max_batch).evaluate(data).value();
  }
  comm.all_reduce_sum(data.reads);
  EXPECT_EQ(data.reads, std::vector<double>(static_cast<std::size_t>(size), 1.0));

  // The same metrics by one forward pass over all examples.
  Experiment experiment = open_experiment(config);
  Model model = make_model(config, std::move(experiment.graph), size, Purpose::inference);
  model.parameters().initialize(space, 1);
  const Dataset& all = *experiment.data.validation;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < size; ++i) numbers.push_back(i);
  HostBatch host;
  host.plan.examples = numbers;
  host.inputs = Kokkos::View<std::byte*, StagingSpace>("inputs",
                                                       static_cast<std::size_t>(size) * all.format().input_bytes());
  host.targets = Kokkos::View<std::byte*, StagingSpace>("targets",
                                                        static_cast<std::size_t>(size) * all.format().target_bytes());
  all.read(numbers, host.inputs.data(), host.targets.data());
  BatchUploader uploader(all.format(), normalization_of(config, all.format(), model.graph()), config.dtype(), size);
  const DeviceBatch examples = uploader.upload(space, host, 0, size);
  const OwnedTensor scratch("scratch", DType::f64, {size, 2}), sums("sums", DType::f64, {loss_sum_count});
  const Tensor outputs = model.forward({.space = space, .training = false}, examples.inputs);
  experiment.loss->evaluate(space, outputs, examples.targets, Tensor{}, scratch.get(), sums.get());
  space.fence();
  std::vector<std::int32_t> classes(static_cast<std::size_t>(size));
  copy_to_host(space, examples.targets, classes.data());
  const auto expected = test::values_of(sums.get());
  EXPECT_NEAR(metrics.loss * static_cast<double>(size) / expected[0], 1.0, 1e-13);
  EXPECT_NEAR(metrics.accuracy.value() * static_cast<double>(size), expected[1], 1e-9);
  EXPECT_NEAR(metrics.find("perplexity").value(), std::exp(metrics.loss), 1e-12 * std::exp(metrics.loss));
  EXPECT_NEAR(metrics.find("top_2").value() * static_cast<double>(size),
              reference::hits(2, 4, test::values_of(outputs), classes), 1e-9);
}

/// The planned workspace includes the sums of metrics: three for each of 30 classes.
TEST(MemoryEstimate, HoldsTheSumsOfMetrics) {
  const auto planned = [](const char* metrics) {
    const RunConfig config = test::read_run_config(
        fmt::format("{{run: {{steps: 1}}, data: {{synthetic: {{kind: random, shape: [9], classes: 30, train: 4}}}},"
                    " model: {{layers: [{{linear: {{features: 30}}}}]}}, metrics: [{}]}}",
                    metrics),
        "unused");
    Experiment experiment = open_experiment(config);
    return memory_estimate(config, experiment.graph, *experiment.data.train, {1, 1}).workspace;
  };
  EXPECT_EQ(planned("f1") - planned(""), 3 * 30 * 8);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Evaluation, testing::Combine(testing::Values(1, 2, 7, 101), testing::Values(1, 3, 64)));

}  // namespace
}  // namespace lockstep
