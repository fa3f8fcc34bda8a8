// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "api/network.hpp"
#include "base/log.hpp"
#include "mpi/sessions.hpp"

namespace lockstep {
namespace {

using namespace test::sessions;
using testing::HasSubstr;

TEST_F(SessionTest, OneRanksFaultIsSaidByAllAndChangesNothing) {
  Session session(deck(), MPI_COMM_WORLD);
  step(session, share(0, comm_));
  session.save(file("before.h5"));
  const Examples good = share(1, comm_);
  const bool last = comm_.rank() == comm_.size() - 1;
  const auto expect = [&](const Array& inputs, const Array& targets, const std::string& message) {
    try {
      last ? session.step(inputs, targets) : session.step(good.x(), good.y());
      ADD_FAILURE() << "nothing was thrown instead of: " << message;
    } catch (const SharedError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  const std::vector<double> doubles(200);
  expect(Array(doubles.data(), good.count()), good.y(), "the inputs are numbers of type f64 (f32 is expected)");
  expect(Array(good.inputs.data(), good.count() - 1), good.y(), "examples and the targets");
  expect(Array(static_cast<const float*>(nullptr), good.count()), good.y(), "a null pointer");
  std::vector<std::int32_t> wrong = good.targets;
  wrong[0] = 3, wrong[1] = -1;
  expect(good.x(), Array(wrong.data(), good.count()),
         fmt::format("2 of the {} classes are not from 0 to 2", good.count()));
  const Kokkos::View<float* [4], Kokkos::LayoutRight, Kokkos::HostSpace> narrow("narrow", good.targets.size());
  expect(narrow, good.y(), "the inputs of an example have the shape 4 (5 is expected)");
  session.save(file("after.h5"));
  expect_same(file("before.h5"), file("after.h5"));
  step(session, good);
  EXPECT_THROW(session.step(Array(good.inputs.data(), 0), Array(good.targets.data(), 0)), SharedError);
}

TEST_F(SessionTest, RefusesTargetsThatAreNoProbabilities) {
  Session session(
      "run: {steps: 50}\ndata: {memory: {inputs: [5], targets: 1}}\nmodel: {layers: [{linear: {features: 1}}]}\n"
      "loss: {type: binary_cross_entropy}\nbatch: {global: 36}\n",
      MPI_COMM_WORLD);
  const Examples examples = share(0, comm_);
  std::vector<float> targets(examples.targets.begin(), examples.targets.end());
  for (float& target : targets) target /= 2;
  const Array y(targets.data(), examples.count());
  session.step(examples.x(), y);
  if (comm_.is_root()) targets[0] = 1.5F;
  try {
    session.step(examples.x(), y);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("1 of the "));
    EXPECT_THAT(error.what(), HasSubstr("targets are not from 0 to 1, as this loss reads them"));
  }
  EXPECT_EQ(session.steps(), 1);
}

TEST_F(SessionTest, ThrowsForALossThatIsNotFiniteAndGoesOn) {
  Session session(
      "run: {steps: 50}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [{linear: {features: 3}}]}\nbatch: {global: 36}\n"
      "loss_watch: {on_anomaly: stop}\n",
      MPI_COMM_WORLD);
  Examples examples = share(0, comm_);
  step(session, examples);
  session.save(file("before.h5"));
  examples.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    step(session, examples);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const SharedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the loss is nan"));
  }
  session.save(file("after.h5"));
  expect_same(file("before.h5"), file("after.h5"));
  EXPECT_EQ(session.steps(), 1);
  EXPECT_THROW(session.numbers(), SharedError);
  step(session, share(1, comm_));
  EXPECT_TRUE(std::isfinite(session.numbers().metrics.loss));
}

// As in a run, parameters that are not finite are found by the next step, even if the loss was finite: a library's relu
// may turn a NaN into 0.
TEST_F(SessionTest, RefusesTheStepAfterParametersThatAreNotFinite) {
  Session session(deck(), MPI_COMM_WORLD);
  Examples examples = share(0, comm_);
  examples.inputs[0] = std::numeric_limits<float>::quiet_NaN();
  const std::string before = file("before.h5");
  session.save(before);
  const auto complaint_of = [&](const Examples& given) -> std::string {
    try {
      step(session, given);
    } catch (const SharedError& error) {
      return error.what();
    }
    return "";
  };
  std::string found = complaint_of(examples);
  if (found.empty()) {
    EXPECT_THROW(session.save(file("after.h5")), SharedError);
    found = complaint_of(share(1, comm_));
  }
  EXPECT_THAT(found, HasSubstr("of layer "));
  EXPECT_THAT(found, HasSubstr("its batch, which the program supplied, was not checked"));
  session.restore(before);
  EXPECT_EQ(complaint_of(share(1, comm_)), "");
  EXPECT_TRUE(std::isfinite(session.numbers().metrics.loss));
}

TEST_F(SessionTest, DecksSayNothingThatASessionWouldPassOver) {
  EXPECT_THAT(complaint(deck("checkpoint: {every_steps: 3}\n")),
              HasSubstr("checkpoint.every_steps: is 3, which is for runs"));
  EXPECT_THAT(complaint(deck("parallel: {audit_every: 3}\n")), HasSubstr("parallel.audit_every"));
  EXPECT_THAT(complaint(deck("parallel: {survive: true}\n")),
              HasSubstr("parallel.survive: is true, which is for runs"));
  EXPECT_THAT(complaint(deck("schedule: {warmup: 2 epochs}\n")),
              HasSubstr("schedule.warmup: is 2 epochs, but a session has no epochs"));
  EXPECT_THAT(complaint(deck("schedule: {type: points, points: [[0, 1], [1 epoch, 0.5]]}\n")),
              HasSubstr("is [1 epoch, 0.5], but a session has no epochs"));
  EXPECT_EQ(complaint(deck("schedule: {type: multistep, milestones: [20 steps, 100 examples]}\n")), "");
  EXPECT_THAT(complaint("run: {steps: 5, output_dir: here}\ndata: {memory: {inputs: [5]}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("deck:1:29: run.output_dir"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: [5]}, shuffle: false}\nmodel: {layers: [relu]}\n"),
              HasSubstr("data.shuffle"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {file: x.h5}\nmodel: {layers: [relu]}\n"), HasSubstr("has no memory"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: []}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("must be the shape of one example"));
  EXPECT_THAT(complaint("run: {steps: 5}\ndata: {memory: {inputs: [5], targets: 3}}\nmodel: {layers: [relu]}\n"),
              HasSubstr("its targets are values"));
  EXPECT_THAT(complaint("run: {stepz: 5}\n"), HasSubstr("run.stepz"));
}

TEST_F(SessionTest, RefusesTokensThatTheNetworkDoesNotKnow) {
  Session session(
      "run: {steps: 5}\ndata: {memory: {inputs: [4], input_type: tokens}}\nmodel: {layers: [{embedding: {vocabulary: 7, "
      "features: 3}}, {linear: {features: 7}}]}\nbatch: {global: 2}\n",
      MPI_COMM_WORLD);
  std::vector<std::int32_t> tokens{0, 6, 3, 2, 1, 1, 5, 4}, next{6, 3, 2, 1, 1, 5, 4, 0};
  session.step(Array(tokens.data(), 2), Array(next.data(), 2));
  session.save(file("tokens.h5"));
  if (comm_.rank() == comm_.size() - 1) tokens[5] = 7;
  EXPECT_THROW(session.step(Array(tokens.data(), 2), Array(next.data(), 2)), SharedError);
  Network network = Network::load(file("tokens.h5"), MPI_COMM_WORLD);
  tokens[5] = -1;
  std::vector<float> y(2 * 4 * 7);
  EXPECT_THROW(network.predict(Array(tokens.data(), 2), OutputArray(y.data(), 2)), Error);
}

TEST_F(SessionTest, SpeaksToTheSinkOfRankZeroAlone) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  Session first(deck(), MPI_COMM_WORLD);
  first.save(file("first.h5"));
  const Session second(deck() + "", MPI_COMM_WORLD);
  const std::string with_weights = "run: {steps: 5}\ndata: {memory: {inputs: [5]}}\nmodel: {weights: " +
                                   file("first.h5") +
                                   ", layers: [{linear: {features: 16}}, relu, {linear: {features: 3}}]}\n";
  const Session third(with_weights, MPI_COMM_WORLD);
  set_log_sink({});
  ASSERT_EQ(lines.size(), comm_.is_root() ? 1u : 0u);
  if (comm_.is_root()) {
    EXPECT_THAT(lines[0], HasSubstr("4 of 4 parameters loaded"));
  }
}

}  // namespace
}  // namespace lockstep
