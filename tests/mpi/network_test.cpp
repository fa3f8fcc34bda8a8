// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "api/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "api/session.hpp"
#include "io/hdf5.hpp"
#include "mpi/largest_allocation.hpp"
#include "mpi/serial_training.hpp"
#include "run/inference/predictor.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr std::int64_t examples = 300;  // more than one chunk of a prediction

class NetworkTest : public testing::Test {
 protected:
  /// Trains on glyphs in a folder of its own; returns the checkpoint. Collective.
  std::string trained(const std::string& model, const std::string& precision = "fp32") {
    const RunConfig config = test::read_run_config(
        fmt::format(
            "run: {{steps: 3}}\ndata: {{synthetic: {{kind: glyphs, train: 300, validation: 9}}, normalize: {{mean: "
            "[0.1], std: [0.3]}}}}\nmodel: {{layers: [{}]}}\nbatch: {{global: 50}}\nprecision: {{compute: {}}}\n",
            model, precision),
        folder_.path() / "run");
    TrainingRun run(config, comm_);
    run.run();
    data_ = open_datasets(config.data, 1).train;
    return folder_.path() / "run/checkpoints/step-00000003.h5";
  }
  std::vector<std::uint8_t> inputs() const {
    std::vector<std::int64_t> numbers(examples);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    std::vector<std::uint8_t> inputs(examples * data_->format().input_bytes());
    std::vector<std::int32_t> targets(examples);
    data_->read(numbers, inputs.data(), targets.data());
    return inputs;
  }

  static constexpr const char* cnn =
      "{conv2d: {filters: 6, kernel: 3}}, batch_norm, relu, {max_pool: {kernel: 4}}, flatten, {dropout: {rate: 0.2}}, "
      "{linear: {features: 10}}";

  test::TemporaryFolder folder_;
  Communicator comm_ = Communicator::world();
  std::unique_ptr<Dataset> data_;
};

// Predictions are those of `lockstep predict`, bit for bit.
TEST_F(NetworkTest, PredictsAsTheCommandDoes) {
  for (const char* precision : {"fp32", "fp64", "bf16"}) {
    SCOPED_TRACE(precision);
    const std::string checkpoint = trained(cnn, precision);
    const std::vector<std::uint8_t> x = inputs();
    Network network = Network::load(checkpoint, MPI_COMM_WORLD);
    EXPECT_EQ(network.input_shape(), data_->format().input_shape);
    EXPECT_EQ(network.input_dtype(), DType::u8);
    EXPECT_EQ(network.output_shape(), Shape({10}));
    std::vector<float> y(10 * examples);
    network.predict(Array(x.data(), examples), OutputArray(y.data(), examples));
    Network alone = Network::load(checkpoint);
    std::vector<double> same(10 * examples);
    alone.predict(Array(x.data(), examples), OutputArray(same.data(), examples));

    const std::string file = folder_.path() / "examples.h5", output = folder_.path() / "predicted.h5";
    comm_.run_collectively([&] {
      if (!comm_.is_root()) return;
      Hdf5File stored = Hdf5File::create(file);
      const Shape& shape = data_->format().input_shape;
      std::vector<std::int64_t> extents{examples};
      extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
      stored.write("/test/inputs", StoredType::of(DType::u8), extents, x.data());
    });
    predict({.checkpoint = checkpoint, .data = file, .output = output, .overwrite = true}, comm_);
    if (comm_.is_root()) {
      const Hdf5File predicted = Hdf5File::open(output);
      if (precision == std::string("fp64")) {
        std::vector<double> wanted(10 * examples);
        predicted.read("/outputs", StoredType::of(DType::f64), wanted.data());
        EXPECT_EQ(same, wanted);
      } else {
        std::vector<float> wanted(10 * examples);
        predicted.read("/outputs", StoredType::of(DType::f32), wanted.data());
        EXPECT_EQ(y, wanted);
        EXPECT_EQ(same, std::vector<double>(wanted.begin(), wanted.end()));
      }
    }
    comm_.barrier();
  }
}

TEST_F(NetworkTest, AllocatesNothingAfterTheFirstCallOfASize) {
  const std::string checkpoint = trained(cnn);
  Network network = Network::load(checkpoint, MPI_COMM_WORLD);
  const std::vector<std::uint8_t> x = inputs();
  std::vector<float> y(10 * examples);
  const auto call = [&](std::int64_t n) { network.predict(Array(x.data(), n), OutputArray(y.data(), n)); };
  for (const std::int64_t n : {1, 7, 128, 300}) call(n);
  static int kokkos_allocations;
  kokkos_allocations = 0;
  Kokkos::Tools::Experimental::set_allocate_data_callback(
      [](auto, const char*, const void*, std::uint64_t) { ++kokkos_allocations; });
  test::take_largest_allocation();
  for (const std::int64_t n : {1, 7, 128, 300, 7, 1}) call(n);
  // Only names of kernels (Kokkos) and lists of arguments (oneDNN) are still allocated.
  EXPECT_LT(test::take_largest_allocation(), 2000u);
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  EXPECT_EQ(kokkos_allocations, 0);
}

TEST_F(NetworkTest, SaysWhatDoesNotFit) {
  const std::string checkpoint = trained("flatten, {linear: {features: 10}}");
  EXPECT_THROW(Network::load(folder_.path() / "none.h5", MPI_COMM_WORLD), SharedError);
  if (comm_.is_root()) {
    EXPECT_THROW(Network::load(folder_.path() / "none.h5"), Error);
  }
  Network network = Network::load(checkpoint, MPI_COMM_WORLD);
  const std::vector<std::uint8_t> x = inputs();
  std::vector<float> y(10 * examples);
  EXPECT_THROW(network.predict(Array(y.data(), 2), OutputArray(y.data(), 2)), Error);
  EXPECT_THROW(network.predict(Array(x.data(), 2), OutputArray(y.data(), 3)), Error);
  const Kokkos::View<float* [9], Kokkos::LayoutRight, Kokkos::HostSpace> narrow("narrow", 2);
  EXPECT_THROW(network.predict(Array(x.data(), 2), narrow), Error);
  network.predict(Array(x.data(), 0), OutputArray(y.data(), 0));
  static_assert(!std::is_constructible_v<OutputArray, const float*, std::int64_t>);
  static_assert(!std::is_constructible_v<OutputArray, Kokkos::View<int* [10], Kokkos::LayoutRight, Kokkos::HostSpace>>);
}

// Outputs are NaN even where a library's relu turns a NaN into 0.
TEST_F(NetworkTest, OutputsOfInputsThatAreNotFiniteAreNaNAsTheCommandsAre) {
  const std::string checkpoint = folder_.path() / "session.h5", file = folder_.path() / "examples.h5",
                    output = folder_.path() / "predicted.h5";
  Session(
      "run: {steps: 1}\ndata: {memory: {inputs: [4]}}\nmodel: {layers: [{linear: {features: 16}}, relu, {linear: "
      "{features: 3}}]}\nbatch: {global: 8}\n",
      MPI_COMM_WORLD)
      .save(checkpoint);
  std::vector<float> x(4 * examples, 0.5f), y(3 * examples), wanted(3 * examples);
  x[4 * 7] = std::numeric_limits<float>::quiet_NaN();  // in the first chunk, and in the last
  x[4 * 290 + 3] = -std::numeric_limits<float>::infinity();
  Network::load(checkpoint, MPI_COMM_WORLD).predict(Array(x.data(), examples), OutputArray(y.data(), examples));
  for (std::size_t i = 0; i < examples; ++i)
    EXPECT_EQ(std::isnan(y[3 * i]) && std::isnan(y[3 * i + 2]), i == 7 || i == 290) << i;
  comm_.run_collectively([&] {
    if (!comm_.is_root()) return;
    Hdf5File::create(file).write("/test/inputs", StoredType::of(DType::f32), {examples, 4}, x.data());
  });
  predict({.checkpoint = checkpoint, .data = file, .output = output, .overwrite = true}, comm_);
  if (!comm_.is_root()) return;
  Hdf5File::open(output).read("/outputs", StoredType::of(DType::f32), wanted.data());
  EXPECT_EQ(std::memcmp(y.data(), wanted.data(), y.size() * sizeof(float)), 0);
}

// Loads the checkpoint of a Session that was trained on doubles.
TEST_F(NetworkTest, TakesASessionsCheckpoint) {
  Session session(
      "run: {steps: 5}\ndata: {memory: {inputs: [2], input_type: f64, targets: 1, target_type: f64}}\n"
      "model: {layers: [{linear: {features: 1}}]}\nloss: {type: mse}\noptimizer: {type: sgd, learning_rate: 0.3}\n"
      "batch: {global: 64}\nprecision: {compute: fp64}\n",
      MPI_COMM_WORLD);
  const std::vector<double> x = test::filling(3, 128);
  std::vector<double> y(64);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 2 * x[2 * i] - x[2 * i + 1] + 0.5;
  for (int step = 0; step < 200; ++step) session.step(Array(x.data(), 64), Array(y.data(), 64));
  const std::string file = folder_.path() / "session.h5";
  session.save(file);
  Network network = Network::load(file, MPI_COMM_WORLD);
  std::vector<double> predicted(64);
  network.predict(Array(x.data(), 64), OutputArray(predicted.data(), 64));
  EXPECT_LT(test::largest_difference(predicted, y), 1e-6);
}

}  // namespace
}  // namespace lockstep
