// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares predicted steps of ranks that shard their model with closed formulas.
#include "scaling/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/execution.hpp"
#include "parallel/parallel_memory.hpp"
#include "scaling/prediction.hpp"

namespace lockstep {
namespace {

/// A deck with six layers of one size, each a unit.
RunConfig equal_units(const std::string& parallel, const std::string& batch = "{global: 64}") {
  return read_run_config(parse_deck(R"(
run: {steps: 2}
data: {synthetic: {kind: random, shape: [512], classes: 512, train: 4096, validation: 0}}
model: {layers: [{linear: 512}, relu, {linear: 512}, relu, {linear: 512}, relu, {linear: 512}, relu, {linear: 512}, relu, {linear: 512}]}
optimizer: {type: adamw}
batch: )" + batch + "\nparallel: {unit_mb: 1.2, bucket_mb: 0.7, " +
                                        parallel + "}\n",
                                    "deck.yaml"));
}

Machine cluster(std::int64_t ranks_per_node) {
  Machine machine;
  machine.name = "cluster";
  machine.ranks_per_node = ranks_per_node;
  machine.products = {{Precision::fp32, 1, 50}};
  machine.memory_gbps = 8;
  machine.node = {.latency_us = 1, .bandwidth_gbps = 6};
  machine.sum = {.latency_us = 3, .bandwidth_gbps = 4};
  machine.network = {.latency_us = 5, .bandwidth_gbps = 1};
  machine.reduce_gbps = 5;
  return machine;
}

/// The exchange of a step of equal_units(parallel) on `ranks` ranks.
struct Exchanged {
  Exchanged(const std::string& parallel, const Machine& machine, int ranks)
      : workload(equal_units(parallel)),
        plan(workload.plan({ranks, static_cast<int>(machine.nodes_of(ranks))}).plan),
        sums(machine, workload.config().parallel),
        exchange(step_traffic(workload, workload.config().parallel, machine, ranks, plan, sums)) {}

  double trained() const { return static_cast<double>(workload.layout().trained_size()); }

  Workload workload;
  ExecutionPlan plan;
  SumsOfRanks sums;
  StepTraffic exchange;
};

void expect_bytes(double sent, double expected, const std::string& what) {
  EXPECT_NEAR(sent / expected, 1, 1e-12) << what << ": " << sent << " and not " << expected;
}

// Formulas of docs/user/parallel.md: Ψ parameters on P ranks that share no memory, A micro-batches, f = (P − 1) / P.
TEST(DividedBytes, AreThoseOfTheFormulae) {
  for (const std::string all_reduce : {"auto", "ring", "halving_doubling"})
    for (const int ranks : {2, 4, 16})
      for (const int micro_batches : {1, 3}) {
        const double f = (ranks - 1.0) / ranks, a = micro_batches;
        const auto sent = [&](const std::string& shard) {
          const Exchanged made("share_parameters: false, all_reduce: " + all_reduce + ", shard: " + shard, cluster(1),
                               ranks);
          return made.exchange.sent(micro_batches).bytes / made.trained();
        };
        const std::string what = all_reduce + " on " + std::to_string(ranks);
        expect_bytes(sent("optimizer"), 8 * f, what);
        expect_bytes(sent("gradients"), 4 * f * (a + 1), what);
        if (all_reduce != "auto") expect_bytes(sent("none"), 8 * f, what);
      }
}

// Each micro-batch gathers every unit for each of its passes, except units that are still in the windows: those of the
// last layers when the backward pass begins, and those of the first layers when the next forward pass begins.
TEST(DividedBytes, OfParametersAreLessWhatWindowsHold) {
  for (const int prefetch : {0, 1, 2})
    for (const int micro_batches : {1, 4}) {
      const int ranks = 4;
      const Exchanged made("share_parameters: false, shard: parameters, prefetch: " + std::to_string(prefetch),
                           cluster(1), ranks);
      const UnshardPlan& windows = made.exchange.windows;
      ASSERT_EQ(windows.units.size(), 6u);
      std::int64_t largest = 0;
      for (const ElementRange& unit : windows.units)
        largest = std::max(largest, array_blocks(unit.count) * array_block);
      const std::int64_t held = windows.value_places.count / largest;
      double first = 0, last = 0;
      for (std::int64_t i = 0; i < held; ++i) {
        last += static_cast<double>(windows.units[static_cast<std::size_t>(i)].count);
        first += static_cast<double>(windows.units[5 - static_cast<std::size_t>(i)].count);
      }
      const double a = micro_batches;
      const double elements = 3 * a * made.trained() - a * last - (a - 1) * first;
      expect_bytes(made.exchange.sent(micro_batches).bytes, 4 * elements * (ranks - 1) / ranks,
                   "prefetch " + std::to_string(prefetch));
    }
}

// Each of N nodes, whose ranks share memory, sends 4Ψ (N − 1) / N bytes for a gather or a scatter; one node sends none.
TEST(DividedBytes, OfNodesThatShareMemory) {
  if (memory_is_separate) GTEST_SKIP() << "ranks of devices have no memory in common";
  for (const std::string shard : {"optimizer", "gradients"}) {
    const Exchanged nodes("shard: " + shard, cluster(4), 32);
    expect_bytes(4 * nodes.exchange.sent(1).bytes, 8 * nodes.trained() * 7 / 8, shard);
    const Exchanged node("shard: " + shard, cluster(4), 4);
    EXPECT_EQ(node.exchange.sent(5).bytes, 0) << shard;
  }
  EXPECT_FALSE(Exchanged("shard: parameters", cluster(4), 4).exchange.divides_values()) << "one node has one copy";
  EXPECT_TRUE(Exchanged("shard: parameters", cluster(4), 8).exchange.divides_values());
}

// Between G groups of P ranks, a rank sends 8Ψ (G − 1) / (P G) bytes a step. In groups that are nodes it sends no more.
TEST(DividedBytes, BetweenGroups) {
  if (memory_is_separate) GTEST_SKIP() << "ranks of devices have no memory in common";
  for (const int micro_batches : {1, 2}) {
    const Exchanged nodes("shard: gradients, shard_group: node", cluster(4), 16);
    EXPECT_NEAR(nodes.exchange.sent(micro_batches).bytes / (8 * nodes.trained() * 3 / 16), 1, 1e-3);
    const Exchanged fours("shard: gradients, shard_group: 4, share_parameters: false", cluster(1), 16);
    EXPECT_NEAR(fours.exchange.sent(micro_batches).bytes /
                    (fours.trained() * (4.0 * (micro_batches + 1) * 3 / 4 + 8.0 * 3 / 16)),
                1, 1e-3);
  }
}

TEST(Lanes, HideWhatIsLookedAt) {
  const ExchangeCost cost{.seconds = 3, .adding = 1, .rounds = 2};
  Lanes host(false);
  host.begin(Lanes::sums, cost);
  host.look(Lanes::sums);
  host.compute(5);  // the first round has ended, but a host notices it only when it looks
  host.wait_for(Lanes::sums, 1);
  EXPECT_NEAR(host.now(), 5 + 0.5 + 1 + 0.5, 1e-12);
  Lanes device(true);
  device.begin(Lanes::sums, cost);
  device.compute(5);
  device.wait_for(Lanes::sums, 1);
  EXPECT_NEAR(device.now(), 5, 1e-12);
}

double seconds_of(std::span<const ExchangeCost> costs) {
  return std::accumulate(costs.begin(), costs.end(), 0.0,
                         [](double sum, const ExchangeCost& cost) { return sum + cost.seconds; });
}

TEST(DividedStep, OwnersTakeTheirPartOfASum) {
  const Machine machine = cluster(1);
  const Exchanged gradients("shard: gradients", machine, 4), optimizer("shard: optimizer", machine, 4);
  ASSERT_EQ(gradients.exchange.buckets.size(), optimizer.exchange.buckets.size());
  for (std::size_t i = 0; i < gradients.exchange.buckets.size(); ++i) {
    const double owned = static_cast<double>(gradients.exchange.buckets[i].count) / 4;
    EXPECT_NEAR(gradients.exchange.sums[i].seconds - optimizer.exchange.sums[i].seconds,
                2 * 4e-9 * owned / machine.memory_gbps, 1e-12);
  }
}

/// Exposed seconds of a step in which each time of the plan takes `each` seconds.
double exposed(const StepTraffic& exchange, double each, std::size_t micro_batches) {
  const auto times = static_cast<std::size_t>(exchange.windows.times);
  DividedStep step{.exchange = exchange, .micro_batches = {}, .has_device = true};
  step.micro_batches.assign(micro_batches, std::vector<double>(times, each));
  return step.exposed();
}

// Beside long computations, only what nothing can hide is exposed: the first gather, and the sums that become final
// last.
TEST(DividedStep, HidesAllButTheFirstGatherAndTheLastSum) {
  Machine machine = cluster(1);
  machine.host_copy_gbps = 1e9;
  const Exchanged made("shard: parameters", machine, 4);
  const StepTraffic& exchange = made.exchange;
  double first = 0, last = 0;
  for (std::size_t unit = 0; unit < exchange.units.size(); ++unit)
    if (exchange.windows.forward.uses[unit].first == 0) first += exchange.units[unit].seconds;
  const std::int64_t before = exchange.points[exchange.points.size() - 2].elements;
  for (std::size_t i = 0; i < exchange.buckets.size(); ++i)
    if (exchange.buckets[i].end() > before) last += exchange.sums[i].seconds;
  EXPECT_NEAR(exposed(exchange, 1, 1), first + last, 1e-9);
}

// Without computations every exchange is exposed, one after the other; also those of micro-batches whose waits repeat,
// which the prediction does not simulate one by one.
TEST(DividedStep, HidesNothingBehindNothing) {
  Machine machine = cluster(1);
  machine.host_copy_gbps = 1e9;
  const Exchanged gradients("shard: gradients", machine, 4), optimizer("shard: optimizer", machine, 4),
      parameters("shard: parameters", machine, 4);
  for (const std::size_t micro_batches : {std::size_t{1}, std::size_t{3}, std::size_t{9}}) {
    const auto many = static_cast<double>(micro_batches);
    EXPECT_NEAR(exposed(optimizer.exchange, 0, micro_batches), seconds_of(optimizer.exchange.gathers), 1e-9);
    EXPECT_NEAR(exposed(gradients.exchange, 0, micro_batches),
                seconds_of(gradients.exchange.gathers) + many * seconds_of(gradients.exchange.sums), 1e-9);
    const double all = parameters.exchange.sent(static_cast<std::int64_t>(micro_batches)).seconds;
    EXPECT_NEAR(exposed(parameters.exchange, 0, micro_batches), all, 1e-6 * all);
  }
}

Prediction predicted(const std::string& parallel, const Machine& machine, int ranks,
                     const std::string& batch = "{global: 64}") {
  Workload workload(equal_units(parallel, batch));
  return Predictor(machine, workload).predict(ranks);
}

TEST(DividedStep, UpdatesAPartOfTheParameters) {
  const Machine machine = cluster(1);
  const auto computing = [&](const std::string& shard) { return predicted("shard: " + shard, machine, 8).computing; };
  Workload workload(equal_units("shard: none"));
  const double update = ComputeTimes(machine, workload).of(8).optimizer;
  ASSERT_GT(update, 0);
  // The share of the parameters of the rank that owns most of them, which is the last one to end its update.
  const auto owned = [&](const std::string& shard) {
    const Workload divided(equal_units("shard: " + shard));
    const std::int64_t largest = largest_part(divided.config().parallel, divided.layout(),
                                              {8, static_cast<int>(machine.nodes_of(8))},
                                              may_share_parameters(divided.config().parallel));
    return static_cast<double>(largest) / static_cast<double>(divided.layout().trained_size());
  };
  EXPECT_NEAR(owned("optimizer"), 1.0 / 8, 0.02);
  EXPECT_NEAR(computing("none") - computing("optimizer"), update * (1 - owned("optimizer")), 1e-9);
  EXPECT_NEAR(computing("parameters"), computing("optimizer"), 1e-9);
  EXPECT_NEAR(computing("parameters, shard_group: 2") - computing("optimizer"),
              update * (owned("parameters, shard_group: 2") - owned("optimizer")), 1e-9);
}

TEST(DividedStep, TakesGathersAlsoIfOneRankOwnsAll) {
  const Machine machine = cluster(1);
  Workload workload(equal_units("shard: optimizer"));
  workload.change([](TrainingConfig& config) { config.parallel.sums.bucket_mb = 0.0164; });  // one block each
  const ExecutionPlan plan = workload.plan({8, 8}).plan;
  SumsOfRanks sums(machine, workload.config().parallel);
  const StepTraffic exchange = step_traffic(workload, workload.config().parallel, machine, 8, plan, sums);
  EXPECT_EQ(exchange.updated, 1);
  const double gathers = seconds_of(exchange.gathers);
  EXPECT_GT(gathers, 0);
  EXPECT_GT(Predictor(machine, workload).predict(8).exposed, gathers / 2);
}

TEST(DividedStep, ComputesBlocksAgain) {
  Workload workload(equal_units("shard: optimizer"));
  const Machine machine = cluster(1);
  const ComputeTimes times(machine, workload);
  EXPECT_EQ(times.part_computed_again(workload.plan({4, 4}).plan, 16), 0);
  workload.change([](TrainingConfig& config) { config.model.checkpointing = Checkpointing::blocks; });
  const double again = times.part_computed_again(workload.plan({4, 4}).plan, 16);
  EXPECT_GT(again, 0.3);
  EXPECT_LE(again, 1);
  EXPECT_NEAR(times.of(16, again).backward, times.of(16).backward + again * times.of(16).forward, 1e-12);
}

}  // namespace
}  // namespace lockstep
