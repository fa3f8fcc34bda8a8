// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hierarchical local SGD, in which the groups of a node synchronize often and all groups rarely, against plain loops in
// fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "counting_network.hpp"
#include "local_steps.hpp"

namespace lockstep {
namespace {

using namespace test::local_steps;

struct NestedCase {
  const char* name;
  const char* more;  ///< keys of parallel.local
  int every, node_every;
  int batch = 7, from_step = 0, group = 1, ranks_per_node = 2;
};
void PrintTo(const NestedCase& c, std::ostream* out) { *out << c.name; }

/// The replicas of a node, and the number of their examples since the last synchronization of all groups.
struct Node {
  std::vector<std::size_t> replicas;
  double examples = 0;
};

class NestedSteps : public testing::TestWithParam<NestedCase> {
 protected:
  const NestedCase& c = GetParam();
  const Communicator world = Communicator::world();
  const std::shared_ptr<test::CountingNetwork> network = std::make_shared<test::CountingNetwork>(c.ranks_per_node);
  const Communicator comm = world.over(network);
  std::vector<Replica> replicas;
  std::vector<Node> nodes;
  std::vector<double> common, velocity;

  /// Averages the replicas of each node, weighted by their examples since the last synchronization of any kind.
  void sync_in_nodes() {
    for (Node& node : nodes) {
      double all = 0;
      for (const std::size_t replica : node.replicas) all += replicas[replica].examples;
      node.examples += all;
      for (std::size_t i = 0; i < common.size() && all > 0; ++i) {
        double mean = 0;
        for (const std::size_t replica : node.replicas)
          mean += replicas[replica].examples / all * replicas[replica].x[i];
        for (const std::size_t replica : node.replicas) replicas[replica].x[i] = mean;
      }
      for (const std::size_t replica : node.replicas) replicas[replica].examples = 0;
    }
  }
  /// Averages the averages of nodes, weighted by all their examples.
  void sync(const LocalConfig& local) {
    sync_in_nodes();
    double all = 0;
    for (const Node& node : nodes) all += node.examples;
    for (std::size_t i = 0; i < common.size(); ++i) {
      double mean = 0;
      for (const Node& node : nodes) mean += node.examples / all * replicas[node.replicas[0]].x[i];
      PlainOuter(local).step(common[i], velocity[i], common[i] - mean);
      for (Replica& replica : replicas) replica.x[i] = common[i];
    }
    for (Node& node : nodes) node.examples = 0;
  }
};

TEST_P(NestedSteps, AreThoseOfPlainLoops) {
  if (comm.size() % c.group != 0) GTEST_SKIP() << "no groups of " << c.group;
  constexpr int steps = 22;
  Steps run(plain_deck(fmt::format("local: {{every: {}, node_every: {}, from_step: {}, group: {}{}}}", c.every,
                                   c.node_every, c.from_step, c.group, c.more),
                       c.batch, steps),
            comm);
  const ParameterBuffer& parameters = run.parameters();
  common = numbers_of(run.parameters());
  velocity.resize(common.size());
  replicas.assign(static_cast<std::size_t>(comm.size() / c.group), {common, std::vector<double>(common.size())});
  nodes.resize(static_cast<std::size_t>((comm.size() + c.ranks_per_node - 1) / c.ranks_per_node));
  for (std::size_t i = 0; i < replicas.size(); ++i)
    nodes[i * static_cast<std::size_t>(c.group) / static_cast<std::size_t>(c.ranks_per_node)].replicas.push_back(i);
  const Communicator node = network->node(comm);
  GroupBatches next_batches(comm, c.group, c.batch);
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(run.step().done());
    const auto batches = next_batches.next(step <= c.from_step);
    for (std::size_t group = 0; group < replicas.size(); ++group) replicas[group].step(run.data(), batches[group]);
    const int alone = step - c.from_step;
    const bool all_sync = alone <= 0 || step == steps || alone % c.every == 0;
    if (alone <= 0) {
      common = replicas[0].x;
      for (Replica& replica : replicas) replica.examples = 0;
    } else if (all_sync) {
      sync(run.config.parallel.local);
    } else if (alone % c.node_every == 0) {
      sync_in_nodes();
      std::int64_t hash = 0;
      for (const std::uint8_t byte : test::bytes_of(parameters.values())) hash = hash * 31 % 1000000007 + byte;
      EXPECT_EQ(node.all_reduce_max(hash), node.all_reduce_min(hash)) << "ranks of a node have other bits";
    }
    EXPECT_EQ(run.run_trainer->has_common_parameters(), all_sync);
    const auto& expected = replicas[static_cast<std::size_t>(comm.rank() / c.group)].x;
    EXPECT_LT(test::largest_difference(numbers_of(run.parameters()), expected), 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, NestedSteps,
                         testing::Values(NestedCase{"average", "", 6, 2}, NestedCase{"each_step", "", 4, 1, 5, 1},
                                         NestedCase{"threes", "", 6, 3},
                                         NestedCase{"nesterov_later", ", outer: nesterov", 6, 2, 7, 3},
                                         NestedCase{"fewer_than_ranks", "", 6, 2, 3},
                                         NestedCase{"pairs", ", outer: nesterov", 6, 2, 7, 0, 2, 4}),
                         [](const auto& info) { return info.param.name; });

std::string deck(const std::string& local, int batch, double of_momentum = momentum) {
  return fmt::format(
      "{{run: {{steps: 100}}, batch: {{global: {}}}, precision: {{compute: fp64}}, parallel: {{all_reduce: ring{}}},"
      " data: {{synthetic: {{kind: random, shape: [40], classes: 40, train: 61}}}}, optimizer: {{type: sgd, momentum: {}}},"
      " model: {{layers: [{{linear: {{features: 60}}}}, relu, {{linear: {{features: 40}}}}]}}}}",
      batch, local, of_momentum);
}

/// If nodes average their parameters after each step, and optimizers have no states, they act as groups.
TEST(NestedPeriods, OfOneStepAreStepsOfNodes) {
  const Communicator comm = Communicator::world().over(std::make_shared<test::CountingNetwork>(2));
  for (const int batch : {13, 3}) {
    Steps nested(deck(", local: {every: 4, node_every: 1}", batch, 0), comm),
        nodes(deck(", local: {every: 4, group: node}", batch, 0), comm);
    for (int step = 0; step < 12; ++step) {
      ASSERT_TRUE(nested.step().done());
      ASSERT_TRUE(nodes.step().done());
      EXPECT_LT(test::largest_difference(nested.values(), nodes.values()), 1e-12) << batch;
    }
  }
}

TEST(NestedPeriods, OfOneLengthAreOne) {
  const Communicator comm = Communicator::world().over(std::make_shared<test::CountingNetwork>(2));
  Steps nested(deck(", local: {every: 4, node_every: 4}", 13), comm), plain(deck(", local: 4", 13), comm);
  for (int step = 0; step < 9; ++step) {
    ASSERT_TRUE(nested.step().done());
    ASSERT_TRUE(plain.step().done());
    EXPECT_EQ(nested.values(), plain.values());
  }
}

/// A ring of P ranks sends 2 (P − 1) times the parameters, and only in synchronizations.
TEST(NestedPeriods, SendWhenSynchronizingAlone) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(2);
  const Communicator comm = world.over(network);
  const auto bytes = [&](const std::string& local) {
    Steps run(deck(local, 12), comm);
    network->take_bytes(world);
    for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
    return network->take_bytes(world);
  };
  if (world.size() == 1) GTEST_SKIP() << "one rank";
  const int of_nodes = world.size() / 2;  // ranks that are not the first ones of their nodes
  const double once = bytes("") / 12 / (world.size() - 1);
  EXPECT_NEAR(bytes(", local: {every: 6, node_every: 2}"), once * (2 * (world.size() - 1) + 4 * of_nodes), 1e-6);
}

TEST(NestedPeriods, WantGroupsWithinNodes) {
  const Communicator world = Communicator::world();
  if (world.size() != 4) GTEST_SKIP() << "ranks 2 and 3 are on one node";
  const Communicator comm = world.over(std::make_shared<test::CountingNetwork>(3));
  try {
    Steps(plain_deck("local: {every: 4, node_every: 2, group: 2}", 7, 3), comm);
    ADD_FAILURE() << "a group of ranks of two nodes";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("rank 3 is on a different node from the rest of its group (2 ranks from rank 2 on)"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find(":1:"), std::string::npos) << message;
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
  }
}

}  // namespace
}  // namespace lockstep
