// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streaming synchronization of parameters in fragments, beside steps, against plain loops in fp64.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "counting_network.hpp"
#include "local_steps.hpp"

namespace lockstep {
namespace {

using namespace test::local_steps;

struct StreamedCase {
  const char* name;
  const char* outer;  ///< keys of the outer rule
  int every, fragments, delay;
  int batch = 7, from_step = 0, group = 1;
};
void PrintTo(const StreamedCase& c, std::ostream* out) { *out << c.name; }

class StreamedSteps : public testing::TestWithParam<StreamedCase> {
 protected:
  const StreamedCase& c = GetParam();
  const Communicator comm = Communicator::world();
  std::vector<Replica> replicas;
  std::vector<double> common, velocity, mean_way;
  std::vector<int> fragment_of;  ///< the fragment of each parameter
  bool under_way = false;

  /// Computes the difference between the common parameters and the replicas' average, weighted by examples.
  void begin(int fragment) {
    double all = 0;
    for (const Replica& replica : replicas) all += replica.examples;
    for (std::size_t i = 0; i < common.size(); ++i) {
      if (fragment_of[i] != fragment) continue;
      mean_way[i] = 0;
      for (const Replica& replica : replicas) mean_way[i] += replica.examples / all * (common[i] - replica.x[i]);
    }
    under_way = true;
  }
  void apply(int fragment, const PlainOuter& outer) {
    for (std::size_t i = 0; i < common.size(); ++i) {
      if (fragment_of[i] != fragment) continue;
      outer.step(common[i], velocity[i], mean_way[i]);
      for (Replica& replica : replicas) replica.x[i] = common[i];
    }
    under_way = false;
  }
};

TEST_P(StreamedSteps, AreThoseOfPlainLoops) {
  if (comm.size() % c.group != 0) GTEST_SKIP() << "no groups of " << c.group;
  constexpr int steps = 24;
  Steps run(plain_deck(fmt::format("local: {{every: {}, fragments: {}, delay: {}, from_step: {}, group: {}{}}}",
                                   c.every, c.fragments, c.delay, c.from_step, c.group, c.outer),
                       c.batch, steps),
            comm);
  const PlainOuter outer(run.config.parallel.local);
  const ParameterBuffer& parameters = run.parameters();
  common = numbers_of(run.parameters());
  velocity.resize(common.size());
  mean_way.resize(common.size());
  fragment_of.resize(common.size());
  if (c.fragments == 2)  // each tensor is a fragment, in the order of the buffer
    for (std::size_t i = 0; i < common.size(); ++i)
      fragment_of[i] = (parameters.parameters()[0].name == "fc/bias") == (i >= classes * inputs) ? 0 : 1;
  const int groups = comm.size() / c.group, period = c.every / c.fragments;
  replicas.assign(static_cast<std::size_t>(groups), {common, std::vector<double>(common.size())});
  GroupBatches next_batches(comm, c.group, c.batch);
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(run.step().done());
    const auto batches = next_batches.next(step <= c.from_step);
    for (std::size_t group = 0; group < replicas.size(); ++group) replicas[group].step(run.data(), batches[group]);
    const int alone = step - c.from_step;
    if (alone <= 0) {
      common = replicas[0].x;
    } else if (step == steps) {
      for (int fragment = 0; fragment < c.fragments; ++fragment) {
        begin(fragment);
        apply(fragment, outer);
      }
    } else {
      if ((alone + c.delay) % period == 0 && step + c.delay < steps)
        begin(((alone + c.delay) / period - 1) % c.fragments);
      if (alone % period == 0 && under_way) apply((alone / period - 1) % c.fragments, outer);
    }
    const bool is_common = alone <= 0 || step == steps || alone % c.every == 0;
    EXPECT_EQ(run.run_trainer->has_common_parameters(), is_common);
    const auto& expected = is_common ? common : replicas[static_cast<std::size_t>(comm.rank() / c.group)].x;
    EXPECT_LT(test::largest_difference(numbers_of(run.parameters()), expected), 1e-12) << "step " << step;
    if (is_common)
      for (Replica& replica : replicas) replica.examples = 0;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, StreamedSteps,
                         testing::Values(StreamedCase{"fragments", "", 4, 2, 0}, StreamedCase{"later", "", 5, 1, 3},
                                         StreamedCase{"nesterov", ", outer: nesterov", 6, 2, 2},
                                         StreamedCase{"from_a_step", ", outer: nesterov", 6, 2, 1, 7, 3},
                                         StreamedCase{"fewer_than_ranks", ", outer: nesterov", 6, 2, 1, 3},
                                         StreamedCase{"pairs", ", outer: nesterov", 6, 2, 2, 7, 4, 2}),
                         [](const auto& info) { return info.param.name; });

/// Fragments send as many bytes as synchronizations of all parameters at once. (Messages with a fragment's number of
/// examples are too small to be counted.)
TEST(Streaming, SendsEachFragmentOnce) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(1);
  const Communicator comm = world.over(network);
  const auto bytes = [&](const std::string& local) {
    Steps run(fmt::format("{{run: {{steps: 100}}, batch: {{global: 12}}, parallel: {{all_reduce: ring, local: {{{}}}}},"
                          " data: {{synthetic: {{kind: random, shape: [40], classes: 40, train: 61}}}},"
                          " model: {{layers: [{{linear: {{features: 60}}}}, relu, {{linear: {{features: 40}}}}]}}}}",
                          local),
              comm);
    network->take_bytes(world);
    for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
    return network->take_bytes(world);
  };
  const double at_once = bytes("every: 6");
  EXPECT_EQ(at_once > 0, world.size() > 1);
  EXPECT_EQ(bytes("every: 6, fragments: 2, delay: 1"), at_once);
}

/// After a run's only step all fragments are synchronized, as all parameters at once are, by the examples of unequal
/// groups.
TEST(Streaming, WeightsUnequalGroupsByTheirExamples) {
  const Communicator comm = Communicator::world().over(std::make_shared<test::CountingNetwork>(3));
  const auto train = [&](const std::string& local) {
    Steps run(plain_deck(fmt::format("local: {{every: 4, group: node{}}}", local), 8, 1), comm);
    EXPECT_TRUE(run.step().done());
    return run.values();
  };
  EXPECT_LT(test::largest_difference(train(", fragments: 2"), train("")), 1e-12);
}

TEST(Streaming, WantsAsManyTensorsAsFragments) {
  try {
    Steps(plain_deck("local: {every: 6, fragments: 3}", 7, 3), Communicator::world());
    ADD_FAILURE() << "3 fragments of 2 tensors";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("2 trained tensors cannot be cut into 3 fragments"), std::string::npos) << message;
    EXPECT_NE(message.find(":1:"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lockstep
