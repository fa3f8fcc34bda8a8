// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "data/open_datasets.hpp"
#include "mpi/serial_training.hpp"
#include "mpi/sessions.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {
namespace {

using namespace test::sessions;

// A Session that is given the batches of a run ends with the run's parameters, bit for bit.
TEST_F(SessionTest, TrainsAsARunDoes) {
  const std::string rest =
      "model: {layers: [{conv2d: {filters: 6, kernel: 3}}, batch_norm, relu, {max_pool: {kernel: 4}}, flatten, {dropout: "
      "{rate: 0.2}}, {linear: {features: 10}}]}\nbatch: {global: 37, micro: 5}\nparallel: {overlap: none}\n"
      "optimizer: {type: adamw, learning_rate: 0.002}\nschedule: {type: cosine}\n";
  const std::string normalize = "normalize: {mean: [0.1], std: [0.3]}";
  RunConfig config = test::read_run_config(
      "run: {steps: 6}\ndata: {synthetic: {kind: glyphs, train: 222, validation: 9}, "
      "shuffle: false, " +
          normalize + "}\n" + rest,
      file("run"));
  TrainingRun(config, comm_).run();

  const std::unique_ptr<Dataset> data = open_datasets(config.data, 1).train;
  const ExampleFormat& format = data->format();
  ASSERT_EQ(format.input_dtype, DType::u8);
  Session session(fmt::format("run: {{steps: 6}}\ndata: {{memory: {{inputs: [{}], input_type: u8}}, {}}}\n{}",
                              fmt::join(format.input_shape.extents(), ", "), normalize, rest),
                  MPI_COMM_WORLD);
  for (std::int64_t step = 0; step < 6; ++step) {
    const RankShare own = share_of(37, comm_.rank(), comm_.size());
    std::vector<std::int64_t> examples(static_cast<std::size_t>(own.count));
    for (std::size_t i = 0; i < examples.size(); ++i)
      examples[i] = 37 * step + own.first + static_cast<std::int64_t>(i);
    std::vector<std::uint8_t> inputs(examples.size() * format.input_bytes());
    std::vector<std::int32_t> targets(examples.size());
    data->read(examples, inputs.data(), targets.data());
    session.step(Array(inputs.data(), own.count), Array(targets.data(), own.count));
  }
  session.save(file("session.h5"));
  expect_same(file("session.h5"), file("run") + "/checkpoints/step-00000006.h5", false);
}

TEST_F(SessionTest, LearnsWhateverRankGivesWhichExamples) {
  Session even(deck(), MPI_COMM_WORLD), uneven(deck(), MPI_COMM_WORLD);
  const Examples test(1000, 0, 50);
  const Metrics before = even.evaluate(test.x(), test.y());
  for (std::int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(step(even, share(i, comm_)).examples, batch);
    step(uneven, comm_.is_root() ? Examples(i, 0, batch) : Examples(i, 0, 0));  // rank 0 has all examples
    EXPECT_NEAR(even.numbers().metrics.loss, uneven.numbers().metrics.loss, 1e-4);
    EXPECT_NEAR(even.numbers().gradient_norm, uneven.numbers().gradient_norm, 1e-3);
  }
  EXPECT_EQ(even.steps(), 40);
  const Metrics after = even.evaluate(test.x(), test.y());
  EXPECT_LT(after.loss, before.loss / 2);
  EXPECT_GT(after.accuracy.value(), 0.8);
}

TEST_F(SessionTest, TakesViews) {
  Session session(deck(), MPI_COMM_WORLD), by_pointer(deck(), MPI_COMM_WORLD);
  const Examples examples = share(0, comm_);
  const auto n = static_cast<std::size_t>(examples.count());
  const Kokkos::View<float* [5], Kokkos::LayoutRight, Kokkos::HostSpace> x("x", n);
  const Kokkos::View<std::int32_t*, Kokkos::HostSpace> y("y", n);
  std::memcpy(x.data(), examples.inputs.data(), n * 5 * sizeof(float));
  std::memcpy(y.data(), examples.targets.data(), n * sizeof(std::int32_t));
  session.step(x, y);
  step(by_pointer, examples);
  session.save(file("view.h5"));
  by_pointer.save(file("pointer.h5"));
  expect_same(file("view.h5"), file("pointer.h5"));
  EXPECT_EQ(std::memcmp(x.data(), examples.inputs.data(), n * 5 * sizeof(float)), 0) << "the program's own numbers";

  // An error of rank 0 alone: all ranks throw.
  const Kokkos::View<float* [5], Kokkos::LayoutLeft, Kokkos::HostSpace> columns("columns", n);
  const Array wrong = comm_.is_root() && n > 1 ? Array(columns) : Array(x);
  EXPECT_THROW(session.step(wrong, y), SharedError);
}

// As with a solver and its trainers, half of the ranks have a Session of their own; here, both halves train.
TEST_F(SessionTest, TwoHalvesOfTheRanksTrainByThemselves) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, comm_.rank() % 2, comm_.rank(), &half);
  {
    int rank = 0, size = 0;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    Session session(deck(fmt::format("parallel: {{overlap: {}}}\n", comm_.rank() % 2 == 0 ? "poll" : "none")), half);
    const RankShare own = share_of(batch, rank, size);
    for (std::int64_t i = 0; i < 5 + comm_.rank() % 2; ++i) step(session, Examples(i, own.first, own.count));
    EXPECT_EQ(session.steps(), 5 + comm_.rank() % 2);
  }
  MPI_Comm_free(&half);
}

// Coupled programs have such communicators.
TEST_F(SessionTest, RefusesAnIntercommunicator) {
  if (comm_.size() == 1) GTEST_SKIP() << "has two groups of ranks";
  const int half = comm_.is_root() ? 0 : 1;
  MPI_Comm own = MPI_COMM_NULL, both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, half, 0, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, 1 - half, 0, &both);
  EXPECT_THROW(Session(deck(), both), Error);
  MPI_Comm_free(&both);
  MPI_Comm_free(&own);
}

TEST_F(SessionTest, IsMadeFromAConfigToo) {
  const RunConfig config = read_run_config(parse_deck(deck(), "deck"));
  Session by_config(config, MPI_COMM_WORLD), by_text(deck(), MPI_COMM_WORLD);
  step(by_config, share(0, comm_));
  step(by_text, share(0, comm_));
  by_config.save(file("config.h5"));
  by_text.save(file("text.h5"));
  expect_same(file("config.h5"), file("text.h5"));
}

TEST_F(SessionTest, SharesMustBeWhatShardsNeed) {
  Session session(deck(fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  if (comm_.size() == 1) return;
  const Examples all(0, 0, batch), none(0, 0, 0);
  const Examples& own = comm_.is_root() ? all : none;
  EXPECT_THROW(step(session, own), SharedError);
  Session without(deck(), MPI_COMM_WORLD);  // both start with the same parameters
  Session with(deck(fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())), MPI_COMM_WORLD);
  EXPECT_NEAR(with.evaluate(own.x(), own.y()).loss, without.evaluate(all.x(), all.y()).loss, 1e-6);
}

// More examples than batch.global are computed in micro-batches, as by a session that was made for them.
TEST_F(SessionTest, TakesLargerBatchesThanItWasMadeFor) {
  for (const std::string& more :
       {std::string(), fmt::format("parallel: {{deterministic: {{shards: {}}}}}\n", 2 * comm_.size())}) {
    SCOPED_TRACE(more);
    Session session(deck(more), MPI_COMM_WORLD);
    constexpr std::int64_t larger = 7 * batch;
    std::string text = deck(more);
    text.replace(text.find("global: 36"), 10, fmt::format("global: {}", larger));
    Session made_for_it(text, MPI_COMM_WORLD);
    const RankShare own = share_of(larger, comm_.rank(), comm_.size());
    for (std::int64_t i = 0; i < 5; ++i) {
      const Examples examples(i, own.first, own.count);
      step(session, examples);
      step(made_for_it, examples);
      EXPECT_NEAR(session.numbers().metrics.loss, made_for_it.numbers().metrics.loss, 1e-5);
      EXPECT_NEAR(session.numbers().gradient_norm, made_for_it.numbers().gradient_norm, 1e-4);
    }
  }
}

TEST_F(SessionTest, NumbersAreThoseOfTheLastStepWhateverIsEvaluated) {
  Session session(deck(), MPI_COMM_WORLD), other(deck(), MPI_COMM_WORLD);
  EXPECT_THROW(session.numbers(), SharedError);
  step(session, share(0, comm_));
  step(other, share(0, comm_));
  const Examples many(5, 0, 4 * batch);
  session.evaluate(many.x(), many.y());
  EXPECT_EQ(session.numbers().metrics.loss, other.numbers().metrics.loss);
  EXPECT_EQ(session.numbers().gradient_norm, other.numbers().gradient_norm);
}

}  // namespace
}  // namespace lockstep
