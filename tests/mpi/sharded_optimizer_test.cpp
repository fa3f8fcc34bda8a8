// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimizers with sharded states train to the same bits as whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/emulated_network.hpp"
#include "counting_network.hpp"
#include "deck_trainer.hpp"
#include "parallel/parallel_memory.hpp"
#include "serial_training.hpp"
#include "support/scratch.hpp"
#include "train/memory_estimate.hpp"

namespace lockstep {
namespace {

struct ShardedCase {
  const char* name;
  const char* precision;
  const char* optimizer;
  const char* parallel = "";
  int ranks_per_node = 0;  ///< of the emulated network; 0: no network is emulated
};
void PrintTo(const ShardedCase& c, std::ostream* out) { *out << c.name; }

class ShardedRuns : public testing::TestWithParam<ShardedCase> {
 protected:
  const Communicator comm = GetParam().ranks_per_node > 0
                                ? emulate_network(Communicator::world(), {1, 0, GetParam().ranks_per_node})
                                : Communicator::world();

  std::string deck(const char* shard) const {
    // Ranks of devices shard sums by messages only, while whole sums may be made in memory that their hosts share.
    const bool names_one = std::string_view(GetParam().parallel).find("all_reduce") != std::string_view::npos;
    const char* const by_messages = memory_is_separate && !names_one ? ", all_reduce: halving_doubling" : "";
    return fmt::format(
        "{{run: {{steps: 12}}, batch: {{global: 14, micro: 3}},"
        " data: {{synthetic: {{kind: random, shape: [9, 8, 3], classes: 7, train: 64}}}},"
        " model: {{layers: [{{conv2d: {{filters: 8, kernel: 3, padding: same}}}}, {{batch_norm: {{}}}}, relu, flatten,"
        " {{linear: {{features: 150}}}}, tanh, {{linear: {{features: 7}}}}]}},"
        " parallel: {{shard: {}, bucket_mb: 0.1{}{}}}, precision: {{compute: {}}}, optimizer: {}}}",
        shard, GetParam().parallel, by_messages, GetParam().precision, GetParam().optimizer);
  }
};

/// The results of a run.
struct Outcome {
  std::vector<std::uint8_t> parameters;
  std::vector<std::vector<std::byte>> states;  ///< the arrays of a checkpoint, on rank 0
  double loss = 0, gradient_norm = 0;
  std::int64_t skipped = 0;
};

TEST_P(ShardedRuns, HaveTheBitsOfWholeOnes) {
  if (test::are_for_hosts_alone(GetParam().parallel)) GTEST_SKIP() << "for sums in hosts' shared memory";
  Outcome outcomes[2];
  for (const bool sharded : {false, true}) {
    test::DeckTrainer run(deck(sharded ? "optimizer" : "none"), comm);
    Trainer& trainer = *run.trainer;
    comm.run_collectively([&] {
      if (comm.is_root()) run.parameters().initialize(ExecSpace(), 5);
    });
    trainer.share_parameters();
    for (int step = 0; step < 12; ++step) ASSERT_TRUE(run.step().done());
    trainer.settle();
    Outcome& outcome = outcomes[sharded];
    outcome.gradient_norm = trainer.step_metrics().gradient_norm;
    outcome.loss = trainer.evaluate(run.data())->loss;
    outcome.parameters = test::bytes_of(run.parameters().values());
    outcome.skipped = trainer.steps() - trainer.update().count().applied();
    outcome.states = test::arrays_of(comm, trainer.strategy().sharded_states());
    const ParameterLayout& layout = run.parameters().layout();
    EXPECT_EQ(trainer.optimizer().states()[0].values.count(), layout.owned_count());
    if (!sharded || comm.size() == 1) continue;
    EXPECT_LT(layout.owned_count(), layout.trained_size()) << "it divides nothing";
    std::vector<double> owned{static_cast<double>(layout.owned_count())};
    comm.all_reduce_sum(owned);
    EXPECT_EQ(owned[0], static_cast<double>(layout.trained_size()));
    const ParallelConfig& parallel = run.config.parallel;
    const Topology topology(comm);
    if (topology.smallest * topology.nodes == comm.size())  // as plans assume
      EXPECT_EQ(comm.all_reduce_max(layout.owned_count()),
                largest_part(parallel, layout, {comm.size(), topology.nodes}, may_share_parameters(parallel)));
  }
  EXPECT_EQ(outcomes[0].parameters, outcomes[1].parameters);
  if (comm.is_root()) {
    EXPECT_EQ(outcomes[0].states, outcomes[1].states);
  }
  EXPECT_EQ(outcomes[0].loss, outcomes[1].loss);
  EXPECT_EQ(outcomes[0].gradient_norm, outcomes[1].gradient_norm);
  EXPECT_EQ(outcomes[0].skipped, outcomes[1].skipped);
  EXPECT_EQ(outcomes[0].skipped > 0, std::string_view(GetParam().name) == "fp16_overflows");
}

constexpr const char* momentum = "{type: sgd, momentum: 0.9}";
constexpr const char* adamw = "{type: adamw, learning_rate: 0.01, clip_norm: 0.5}";
constexpr const char* by_messages = ", share_parameters: false, all_reduce: halving_doubling";
constexpr const char* lamb = "{type: lamb, learning_rate: 0.01}";

INSTANTIATE_TEST_SUITE_P(
    Cases, ShardedRuns,
    testing::Values(ShardedCase{"sgd", "fp32", momentum}, ShardedCase{"adamw", "fp32", adamw},
                    ShardedCase{"fp64", "fp64", adamw}, ShardedCase{"bf16", "bf16", momentum},
                    ShardedCase{"lamb", "fp32", lamb}, ShardedCase{"lars", "fp32", "{type: lars, clip_norm: 1}"},
                    ShardedCase{"average", "bf16", "{type: adamw, learning_rate: 0.01, ema_decay: 0.9}"},
                    ShardedCase{"fp16_overflows", "fp16, loss_scale: {initial: 1.0e+7}", momentum},
                    ShardedCase{"by_messages", "fp32", lamb, by_messages},
                    ShardedCase{"average_by_messages", "bf16", "{type: sgd, ema_decay: 0.9}", by_messages},
                    ShardedCase{"ring", "fp32", adamw, ", all_reduce: ring"},
                    ShardedCase{"halving", "fp32", momentum, ", all_reduce: halving_doubling"},
                    ShardedCase{"thread", "fp32", momentum, ", all_reduce: ring, overlap: thread"},
                    ShardedCase{"nodes_of_two", "fp32", adamw, "", 2},
                    ShardedCase{"rounded_on_nodes_of_two", "bf16", adamw, "", 2},
                    ShardedCase{"ring_between_nodes", "fp64", lamb, ", between_nodes: ring", 2},
                    ShardedCase{"one_leader", "fp32", momentum, ", leaders: 1", 2},
                    ShardedCase{"nodes_of_three", "fp32", adamw, "", 3}),
    [](const auto& info) { return info.param.name; });

/// N nodes (or ranks that share no memory) send 4Ψ (N − 1) bytes of gradients, and as many of parameters.
TEST(ShardedTraffic, IsWhatTheFormulaeSay) {
  const Communicator world = Communicator::world();
  for (const auto& [ranks_per_node, parallel] :
       {std::pair(1, ", all_reduce: ring"), {1, ""}, {2, ""}, {world.size(), ""}}) {
    if (world.size() % ranks_per_node != 0 || world.size() / ranks_per_node > 4) continue;
    const int nodes = world.size() / ranks_per_node;
    if (nodes == 3 && parallel[0] == 0) continue;  // recursive halving on three nodes sends some numbers twice
    for (const char* shard : {"none", "optimizer"}) {
      // Ranks of devices have parameters of their own, whatever memory their hosts share.
      if (memory_is_separate && ranks_per_node > 1 && std::string_view(shard) == "optimizer") continue;
      SCOPED_TRACE(fmt::format("{} ranks a node, {}, {}", ranks_per_node, parallel, shard));
      const auto network = std::make_shared<test::CountingNetwork>(ranks_per_node);
      const Communicator comm = world.over(network);
      test::DeckTrainer run(
          fmt::format("{{run: {{steps: 9}}, batch: {{global: 8}},"
                      " data: {{synthetic: {{kind: random, shape: [640], classes: 7, train: 64}}}},"
                      " model: {{layers: [{{linear: {{features: 160}}}}, relu, {{linear: {{features: 7}}}}]}},"
                      " parallel: {{shard: {}, bucket_mb: 0.1, overlap: none{}}}, optimizer: {{type: adamw}}}}",
                      shard, parallel),
          comm);
      for (int step = 0; step < 3; ++step) {
        network->take_bytes(world);
        ASSERT_TRUE(run.step().done());
        run.trainer->settle();
        const double parameters = static_cast<double>(run.parameters().trained_size());
        EXPECT_EQ(network->take_bytes(world), 8 * parameters * (nodes - 1));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
