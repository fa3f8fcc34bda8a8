// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sharded gradients and parameters train to the same bits as whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "comm/emulated_network.hpp"
#include "counting_network.hpp"
#include "deck_trainer.hpp"
#include "parallel/parallel_memory.hpp"
#include "serial_training.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

/// A network of about five units, the first of which has several small layers.
constexpr const char* images =
    "data: {synthetic: {kind: random, shape: [8, 8, 3], classes: 7, train: 61}},"
    " model: {layers: [{conv2d: {filters: 8, kernel: 3, padding: same}}, {batch_norm: {}}, relu, flatten,"
    " {linear: {features: 512}}, tanh, {linear: {features: 513}}, relu,"
    " {linear: {features: 512}}, tanh, {linear: {features: 520}}, relu, {linear: {features: 7}}]}";
constexpr const char* in_blocks =
    "data: {synthetic: {kind: random, shape: [512], classes: 7, train: 61}},"
    " model: {activation_checkpointing: blocks, layers: [{linear: {features: 512}}, tanh, {linear: {features: 520}}, relu,"
    " {linear: {features: 512}}, tanh, {linear: {features: 520}}, relu, {linear: {features: 512}}, relu,"
    " {linear: {features: 7}}]}";
/// The first and the last layer share a weight, and two layers run side by side.
constexpr const char* words =
    "data: {synthetic: {kind: random, vocabulary: 520, sequence_length: 6, train: 61}},"
    " model: {layers: [{embedding: {vocabulary: 520, features: 512}, name: words},"
    " {linear: {features: 512}, name: a}, {linear: {features: 512}, from: words, name: b}, {add: {}, from: [a, b]},"
    " {linear: {features: 512}}, {dropout: {rate: 0.1}}, {linear: {features: 520, tied_to: words}}]}";

struct DividedCase {
  const char* name;
  const char* precision;
  const char* optimizer;
  const char* parallel = "";
  int ranks_per_node = 0;  ///< of the emulated network; 0: no network is emulated
  int micro = 16;          ///< largest number of examples of a micro-batch
  double tolerance = 0;    ///< relative to the largest value
  const char* network = images;
  int steps = 6;
  int examples = 61;  ///< in the training set
};
void PrintTo(const DividedCase& c, std::ostream* out) { *out << c.name; }

class DividedRuns : public testing::TestWithParam<std::tuple<DividedCase, const char*>> {
 protected:
  const DividedCase& c = std::get<0>(GetParam());
  const Communicator comm = c.ranks_per_node > 0 ? emulate_network(Communicator::world(), {1, 0, c.ranks_per_node})
                                                 : Communicator::world();

  std::string deck(const char* shard) const {
    std::string network(c.network);
    network.replace(network.find("train: 61"), 9, fmt::format("train: {}", c.examples));
    const std::string_view given = c.parallel;
    const bool names_one = given.find("all_reduce") != given.npos || given.find("deterministic") != given.npos;
    const char* const by_messages = memory_is_separate && !names_one ? ", all_reduce: halving_doubling" : "";
    return fmt::format(
        "{{run: {{steps: {}}}, batch: {{global: 14, micro: {}}}, {},"
        " parallel: {{shard: {}, bucket_mb: 0.5, unit_mb: 1.2{}{}}}, precision: {{compute: {}}}, optimizer: {}}}",
        c.steps, c.micro, network, shard, c.parallel, by_messages, c.precision, c.optimizer);
  }
};

/// The results of a run.
struct Outcome {
  std::vector<std::vector<std::byte>> arrays;  ///< the arrays of a checkpoint, on rank 0
  double loss = 0, gradient_norm = 0;
  std::int64_t skipped = 0;
};

/// The largest difference between two sets of f64 arrays, relative to the largest number of each array, but at least to
/// 1e-4: the gradient of a bias in front of a batch norm, for example, is rounding error alone.
double largest_difference(const std::vector<std::vector<std::byte>>& some,
                          const std::vector<std::vector<std::byte>>& others) {
  double most = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    double size = 1e-4, difference = 0;
    for (std::size_t at = 0; at < some[i].size(); at += sizeof(double)) {
      double a, b;
      std::memcpy(&a, some[i].data() + at, sizeof(a));
      std::memcpy(&b, others[i].data() + at, sizeof(b));
      size = std::max(size, std::abs(a));
      difference = std::max(difference, std::abs(a - b));
    }
    most = std::max(most, difference / size);
  }
  return most;
}

TEST_P(DividedRuns, HaveTheBitsOfWholeOnes) {
  const char* const shard = std::get<1>(GetParam());
  static constexpr std::string_view on_any_number_of_ranks[] = {
      "adamw",    "lamb_alone",   "ring",           "nodes_of_three", "pieces",
      "one_left", "fifty_by_sgd", "fifty_by_adamw", "fifty_by_lamb",  "fifty_in_pieces"};
  if (test::are_for_hosts_alone(c.parallel)) GTEST_SKIP() << "for sums in hosts' shared memory";
  if (std::string_view(c.name) == "groups_of_two_nodes") {
    if (comm.size() % 4 != 0) GTEST_SKIP() << "for groups of 4 ranks";
  } else if (comm.size() != 2 && comm.size() != 4 && std::ranges::count(on_any_number_of_ranks, c.name) == 0) {
    GTEST_SKIP() << "for 2 and 4 ranks";
  }
  if (c.steps > 6 && comm.size() > 4 && ExecSpace().concurrency() > 1)
    GTEST_SKIP() << "it takes minutes where so many ranks have several threads";
  if (std::string_view(c.name) == "trees" && 8 % comm.size() != 0) GTEST_SKIP() << "8 shards are for 2, 4 or 8 ranks";
  Outcome outcomes[2];
  for (const bool divided : {false, true}) {
    test::DeckTrainer run(deck(divided ? shard : "none"), comm);
    run.initialize(comm);
    Trainer& trainer = *run.trainer;
    const ParameterBuffer& parameters = run.parameters();
    for (int step = 0; step < c.steps; ++step) {
      ASSERT_TRUE(run.step().done());
      if (step == 3) trainer.evaluate(run.data());
    }
    trainer.settle();
    Outcome& outcome = outcomes[divided];
    outcome.gradient_norm = trainer.step_metrics().gradient_norm;
    outcome.loss = trainer.evaluate(run.data())->loss;
    outcome.arrays = test::arrays_of(comm, trainer.strategy().sharded_states());
    outcome.skipped = trainer.steps() - trainer.update().count().applied();
    if (!divided || comm.size() == 1) continue;
    const ParameterLayout& layout = parameters.layout();
    const UnshardPlan& windows = parameters.windows();
    ASSERT_GE(windows.units.size(), 4u);
    const ParallelConfig& parallel = run.config.parallel;
    const ShardGroups groups(parallel, Topology(comm));
    const bool shares = parallel.sharding.share_parameters && !parallel.sums.all_reduce && groups.group.one_node() &&
                        !memory_is_separate && !parallel.deterministic.present;
    EXPECT_EQ(windows.division.values, std::string_view(shard) == "parameters" && !shares);
    EXPECT_LT(layout.owned_count(), layout.trained_size());
    const bool is_deterministic = parallel.deterministic.present;
    if (!is_deterministic) {
      EXPECT_LT(parameters.gradients().count(), 0.9 * static_cast<double>(layout.trained_size()));
    }
    const bool is_whole = !windows.division.values || parallel.sharding.prefetch > 1;
    if (std::string_view(shard) == "parameters" && !is_whole) {
      EXPECT_LT(parameters.values().count(), 0.9 * static_cast<double>(layout.trained_size()));
    }
  }
  const auto& [whole, divided] = outcomes;
  if (c.tolerance > 0) {
    ASSERT_EQ(whole.arrays.size(), divided.arrays.size());
    EXPECT_LT(largest_difference(whole.arrays, divided.arrays), c.tolerance);
    EXPECT_NEAR(whole.loss, divided.loss, c.tolerance * whole.loss);
    EXPECT_NEAR(whole.gradient_norm, divided.gradient_norm, 10 * c.tolerance * whole.gradient_norm);
    return;
  }
  EXPECT_EQ(whole.arrays, divided.arrays);
  EXPECT_EQ(whole.loss, divided.loss);
  EXPECT_EQ(whole.gradient_norm, divided.gradient_norm);
  EXPECT_EQ(whole.skipped, divided.skipped);
  EXPECT_EQ(whole.skipped > 0, std::string_view(c.name) == "fp16_overflows");
}

constexpr const char* momentum = "{type: sgd, momentum: 0.9}";
constexpr const char* clipped = "{type: sgd, momentum: 0.9, clip_norm: 0.5}";
constexpr const char* adamw = "{type: adamw, learning_rate: 0.01, clip_norm: 0.5}";
constexpr const char* lamb = "{type: lamb, learning_rate: 0.01}";
constexpr const char* alone = ", share_parameters: false, all_reduce: halving_doubling";
constexpr const char* in_groups_of_two = ", shard_group: 2, share_parameters: false, all_reduce: halving_doubling";
constexpr const char* trees_in_groups = ", shard_group: 2, sync_batch_norm: false, deterministic: {shards: 8}";
constexpr const char* trees = ", sync_batch_norm: false, deterministic: {shards: 8}";

INSTANTIATE_TEST_SUITE_P(
    Cases, DividedRuns,
    testing::Combine(
        testing::Values(
            DividedCase{"adamw", "fp32", adamw}, DividedCase{"adamw_alone", "fp32", adamw, alone},
            DividedCase{"lamb_alone", "fp64", lamb, alone}, DividedCase{"sgd_bf16", "bf16", momentum, alone},
            DividedCase{"ring", "fp32", momentum, ", share_parameters: false, all_reduce: ring"},
            DividedCase{"no_prefetch", "fp32", adamw, ", prefetch: 0, share_parameters: false, all_reduce: ring"},
            DividedCase{"all_prefetched", "fp32", adamw, ", prefetch: 9, share_parameters: false, all_reduce: ring"},
            // The fifth step has a single example, so that all ranks but one have none.
            DividedCase{"one_left", "fp32", adamw, alone, 0, 16, 0, images, 6, 57},
            DividedCase{"poll", "fp32", adamw, ", all_reduce: ring, overlap: poll"},
            DividedCase{"average", "bf16", "{type: adamw, learning_rate: 0.01, ema_decay: 0.9}", alone},
            DividedCase{"fp16_overflows", "fp16, loss_scale: {initial: 1.0e+7}", momentum, alone},
            DividedCase{"nodes_of_two", "fp32", adamw, "", 2},
            DividedCase{"rounded_on_nodes_of_two", "bf16", adamw, "", 2},
            DividedCase{"nodes_of_three", "fp64", momentum, ", between_nodes: ring, leaders: 1", 3},
            DividedCase{"groups_are_nodes", "fp32", adamw, ", shard_group: node", 2},
            DividedCase{"rounded_groups", "bf16", momentum, ", shard_group: node", 2},
            DividedCase{"groups_of_two", "fp64", clipped, in_groups_of_two, 0, 16, 1e-12},
            DividedCase{"pieces_in_groups", "fp64", clipped, in_groups_of_two, 0, 3, 1e-12},
            DividedCase{"groups_of_two_nodes", "fp64", clipped, ", shard_group: 4", 2, 16, 1e-12},
            DividedCase{"trees_in_groups", "fp32", adamw, trees_in_groups},
            DividedCase{"tied", "fp32", adamw, alone, 0, 16, 0, words},
            DividedCase{"in_blocks", "fp32", adamw, alone, 0, 16, 0, in_blocks},
            DividedCase{"tied_in_a_node", "bf16", momentum, "", 0, 16, 0, words},
            DividedCase{"trees", "fp32", adamw, trees}, DividedCase{"pieces", "fp64", clipped, alone, 0, 3, 1e-12},
            DividedCase{"pieces_in_a_node", "fp64", clipped, "", 0, 3, 1e-12},
            // With a smaller epsilon, gradients near 0 would give steps of either sign.
            DividedCase{"pieces_by_adamw", "fp64",
                        "{type: adamw, learning_rate: 0.01, clip_norm: 0.5, epsilon: 1.0e-3}", alone, 0, 3, 1e-12},
            DividedCase{"fifty_by_sgd", "fp32", clipped, alone, 0, 16, 0, images, 50},
            DividedCase{"fifty_by_adamw", "bf16", adamw, alone, 0, 16, 0, images, 50},
            DividedCase{"fifty_by_lamb", "fp64", "{type: lamb, learning_rate: 0.01, clip_norm: 0.5}", alone, 0, 16, 0,
                        images, 50},
            // Each step multiplies the rounding error of the one before: 1.3e-12 was seen with two threads and AVX-512.
            DividedCase{"fifty_in_pieces", "fp64", "{type: sgd, learning_rate: 0.03, momentum: 0.9, clip_norm: 0.5}",
                        alone, 0, 3, 1e-11, images, 50}),
        testing::Values("gradients", "parameters")),
    [](const auto& info) { return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param); });

/// Expects all ranks of a deck's run to send `expected` bytes in each of three steps.
void expect_traffic(const std::string& deck, int ranks_per_node, const std::function<double(Trainer&)>& expected) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(ranks_per_node);
  const Communicator comm = world.over(network);
  test::DeckTrainer run(deck, comm);
  for (int step = 0; step < 3; ++step) {
    network->take_bytes(world);
    ASSERT_TRUE(run.step().done());
    run.trainer->settle();
    EXPECT_EQ(network->take_bytes(world), expected(*run.trainer));
  }
}

/// N ranks that share no memory send in a step of A micro-batches, with Ψ parameters, 4 (N − 1) bytes times:
/// gradients: A Ψ for sums and Ψ for new parameters; parameters: A Ψ for sums and Ψ for each forward and backward pass,
/// less what the windows still hold of the pass before.
TEST(DividedTraffic, IsWhatTheFormulaeSay) {
  const int ranks = Communicator::world().size();
  for (const char* shard : {"gradients", "parameters"})
    for (const int pieces : {1, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} micro-batches", shard, pieces));
      expect_traffic(
          fmt::format(
              "{{run: {{steps: 9}}, batch: {{global: {}, micro: {}}},"
              " data: {{synthetic: {{kind: random, shape: [512], classes: 7, train: 640}}}},"
              " model: {{layers: [{{linear: {{features: 512}}}}, relu, {{linear: {{features: 520}}}}, relu,"
              " {{linear: {{features: 512}}}}, relu, {{linear: {{features: 520}}}}, relu, {{linear: {{features: 7}}}}]}},"
              " parallel: {{shard: {}, bucket_mb: 0.5, unit_mb: 1.2, share_parameters: false, all_reduce: ring,"
              " overlap: none}}, optimizer: {{type: adamw}}}}",
              6 * ranks, 6 / pieces, shard),
          1, [&](Trainer& trainer) {
            const UnshardPlan& windows = trainer.model().parameters().windows();
            const auto parameters = static_cast<double>(trainer.model().parameters().trained_size());
            // There are two windows: at the end of a pass, they hold its last two units.
            const auto count = [&](std::size_t unit) { return static_cast<double>(windows.units[unit].count); };
            const std::size_t last = windows.units.size() - 1;
            const double behind_forward = count(0) + count(1), behind_backward = count(last) + count(last - 1);
            double sent = pieces * parameters;
            if (std::string_view(shard) == "gradients") sent += parameters;
            else
              sent += parameters + pieces * (parameters - behind_forward) +
                      (pieces - 1) * (parameters - behind_backward);
            return 4 * sent * (ranks - 1);
          });
    }
}

/// If groups are N nodes, whose ranks share memory, a step sends 8 (N − 1) Ψ bytes for the sum of gradients between
/// nodes, once for all its three micro-batches, and nothing else.
TEST(GroupTraffic, IsSumsAlone) {
  const int ranks = Communicator::world().size();
  if (ranks % 2 != 0 || memory_is_separate) GTEST_SKIP() << "for hosts, on nodes of two ranks";
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    SCOPED_TRACE(shard);
    expect_traffic(fmt::format("{{run: {{steps: 9}}, batch: {{global: {}, micro: 2}},"
                               " data: {{synthetic: {{kind: random, shape: [512], classes: 7, train: 640}}}},"
                               " model: {{layers: [{{linear: {{features: 512}}}}, relu, {{linear: {{features: 7}}}}]}},"
                               " parallel: {{shard: {}, shard_group: node, bucket_mb: 0.5, between_nodes: ring, "
                               "overlap: none}}, optimizer: {{type: adamw}}}}",
                               6 * ranks, shard),
                   2, [&](Trainer& trainer) {
                     return 8 * static_cast<double>(trainer.model().parameters().trained_size()) * (ranks / 2 - 1);
                   });
  }
}

}  // namespace
}  // namespace lockstep
