// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that divide the model in groups of any size, one rank included, train as ranks that divide nothing: with one or
// several micro-batches, and with or without offloading.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "comm/emulated_network.hpp"
#include "deck_trainer.hpp"
#include "parameters/block_file.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

struct Outcome {
  std::vector<double> gradient_norms;          ///< of each step
  std::vector<std::vector<std::byte>> arrays;  ///< of a checkpoint, in fp64, on rank 0
  bool operator==(const Outcome&) const = default;
};

double largest_difference(const Outcome& some, const Outcome& others) {
  double most = 0;
  for (std::size_t step = 0; step < some.gradient_norms.size(); ++step)
    most = std::max(most, std::abs(some.gradient_norms[step] / others.gradient_norms[step] - 1));
  for (std::size_t i = 0; i < some.arrays.size(); ++i)
    for (std::size_t at = 0; at < some.arrays[i].size(); at += sizeof(double)) {
      double a, b;
      std::memcpy(&a, some.arrays[i].data() + at, sizeof(a));
      std::memcpy(&b, others.arrays[i].data() + at, sizeof(b));
      most = std::max(most, std::abs(a - b));
    }
  return most;
}

/// Parameters: ranks of an emulated node (0: all ranks are on one), and the largest micro-batch.
class ShardGroupsOfAnySize : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  Outcome train(const std::string& parallel) const {
    constexpr int steps = 3;
    test::DeckTrainer run(
        fmt::format("{{run: {{steps: {}}}, batch: {{global: 14, micro: {}}}, precision: {{compute: fp64}},"
                    " data: {{synthetic: {{kind: linear, features: 70, train: 29}}}}, loss: {{type: mse}},"
                    " model: {{layers: [{{linear: 80}}, tanh, {{linear: 80}}, tanh, {{linear: 1}}]}},"
                    " optimizer: {{type: sgd, learning_rate: 0.01, momentum: 0.9}}, parallel: {{{}}}}}",
                    steps, std::get<1>(GetParam()), parallel),
        comm_);
    run.initialize(comm_);
    Outcome outcome;
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(run.step().done());
      run.trainer->settle();
      outcome.gradient_norms.push_back(run.trainer->step_metrics().gradient_norm);
    }
    outcome.arrays = test::arrays_of(comm_, run.run_trainer->sharded_states());
    return outcome;
  }

  /// Whether the folder of this test can take offloaded states.
  bool can_offload() const {
    if (memory_is_separate) return true;
    try {
      ScratchFile tried(folder_.path());
      return true;
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) return false;
      throw;
    }
  }

  const int ranks_per_node_ = std::get<0>(GetParam());
  const Communicator comm_ = ranks_per_node_ > 0 ? emulate_network(Communicator::world(), {1, 0, ranks_per_node_})
                                                 : Communicator::world();
  const test::TemporaryFolder folder_;
};

TEST_P(ShardGroupsOfAnySize, TrainAsWholeReplicas) {
  const int ranks = comm_.size();
  if (ranks_per_node_ > 0 && ranks % ranks_per_node_ != 0) GTEST_SKIP() << "nodes have equally many ranks";
  const std::string place = memory_is_separate ? "memory" : folder_.path().string(),
                    states = fmt::format(", offload: {{optimizer: '{0}', block_mb: 0.05}}", place),
                    parameters = fmt::format(", offload: {{optimizer: '{0}', parameters: '{0}', block_mb: 0.05}}",
                                             place);
  const bool offloads = comm_.every_rank(can_offload());
  const Outcome whole = train("shard: none");
  const bool has_one_micro_batch = (14 + ranks - 1) / ranks <= std::get<1>(GetParam());
  for (const char* shard : {"optimizer", "gradients", "parameters"})
    for (const char* group : {"1", "2", "node", "all"}) {
      if (std::string_view(group) == "2" && (ranks % 2 != 0 || ranks_per_node_ == 1)) continue;
      SCOPED_TRACE(fmt::format("shard: {}, shard_group: {}", shard, group));
      const std::string division = fmt::format("shard: {}, shard_group: {}", shard, group);
      const Outcome divided = train(division);
      EXPECT_LT(largest_difference(divided, whole), 1e-13);
      const bool of_all = std::string_view(group) == "all" ||
                          (std::string_view(group) == "node" && ranks_per_node_ == 0);
      if (of_all && has_one_micro_batch && !memory_is_separate) {
        EXPECT_EQ(divided, whole) << "the same bits";
      }
      if (!offloads) continue;
      EXPECT_EQ(train(division + states), divided) << "with the optimizer's state elsewhere";
      if (std::string_view(shard) != "parameters") continue;
      const Outcome elsewhere = train(division + parameters);
      EXPECT_LT(largest_difference(elsewhere, whole), 1e-13) << "with the parameters elsewhere";
    }
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  const auto& [ranks_per_node, micro] = info.param;
  const std::string nodes = ranks_per_node > 0 ? fmt::format("nodes_of_{}", ranks_per_node) : "one_node";
  return fmt::format("{}_micro_{}", nodes, micro);
}

INSTANTIATE_TEST_SUITE_P(Cases, ShardGroupsOfAnySize,
                         testing::Combine(testing::Values(0, 1, 2), testing::Values(1, 3, 7)), name_of);

}  // namespace
}  // namespace lockstep
