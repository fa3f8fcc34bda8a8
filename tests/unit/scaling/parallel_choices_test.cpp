// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The choice between variants of a step.
#include "scaling/parallel_choices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/execution.hpp"
#include "parallel/parallel_memory.hpp"
#include "scaling/prediction.hpp"
#include "support/scratch.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {
namespace {

RunConfig large_layers(const std::string& parallel, const std::string& optimizer = "{type: adamw}",
                       const std::string& layer = "relu", int width = 600) {
  const std::string linear = "{linear: " + std::to_string(width) + "}";
  return read_run_config(
      parse_deck("data: {synthetic: {kind: random, shape: [600], classes: 7, train: 512, validation: 0}}\n"
                 "model: {layers: [" +
                     linear + ", " + layer + ", " + linear + ", relu, " + linear + ", relu, " + linear +
                     ", {linear: 7}]}\n" + "run: {steps: 2}\nbatch: {global: 128}\noptimizer: " + optimizer +
                     "\nparallel: {unit_mb: 1, " + parallel + "}\n",
                 "deck.yaml"));
}

/// An `offload` section that moves optimizer states elsewhere, in small blocks.
std::string offloads_to() {
  return std::string("offload: {optimizer: ") + (memory_is_separate ? "memory" : "/scratch") + ", block_mb: 0.1}";
}

Shard chosen(const std::string& parallel, RankCount ranks, const std::string& optimizer = "{type: adamw}") {
  Workload workload(large_layers("shard: auto, " + parallel, optimizer));
  EXPECT_NE(workload.choose_shard(ranks), "");
  return workload.config().parallel.sharding.shard;
}

double bytes_of(const std::string& shard, RankCount ranks) {
  return Workload(large_layers("shard: " + shard)).plan(ranks).total();
}

TEST(ChooseShard, TakesTheFirstThatFits) {
  if (memory_is_separate) GTEST_SKIP() << "devices may sum as a whole";
  const RankCount ranks{4, 4};
  const auto gigabytes = [](double bytes) { return "memory_gb: " + std::to_string(1e-9 * bytes); };
  const double optimizer = bytes_of("optimizer", ranks), gradients = bytes_of("gradients", ranks),
               parameters = bytes_of("parameters", ranks);
  ASSERT_GT(optimizer, 1.02 * gradients);
  ASSERT_GT(gradients, 1.02 * parameters);
  EXPECT_EQ(chosen("memory_gb: 0", ranks), Shard::optimizer);
  EXPECT_EQ(chosen(gigabytes(1.01 * bytes_of("none", ranks)), ranks), Shard::optimizer) << "never slower than none";
  EXPECT_EQ(chosen(gigabytes(1.01 * optimizer), ranks), Shard::optimizer);
  EXPECT_EQ(chosen(gigabytes(0.99 * optimizer), ranks), Shard::gradients);
  EXPECT_EQ(chosen(gigabytes(0.99 * gradients), ranks), Shard::parameters);
  EXPECT_EQ(chosen("memory_gb: 0.001", ranks), Shard::parameters) << "what needs least is refused";
  EXPECT_EQ(chosen("memory_gb: 0.001", {1, 1}), Shard::none);
}

TEST(ChooseShard, SaysWhy) {
  if (memory_is_separate) GTEST_SKIP() << "devices may sum as a whole";
  const RankCount ranks{4, 4};
  const auto why = [&](const std::string& memory) {
    return Workload(large_layers("shard: auto, memory_gb: " + memory)).choose_shard(ranks);
  };
  EXPECT_EQ(why("0"), "auto chooses optimizer: parallel.memory_gb sets no limit, and no other shard is faster");
  const double between = 0.5e-9 * (bytes_of("optimizer", ranks) + bytes_of("gradients", ranks));
  EXPECT_NE(why(std::to_string(between)).find("auto chooses gradients: a step needs"), std::string::npos);
  EXPECT_NE(why(std::to_string(between)).find("; optimizer would need"), std::string::npos);
  EXPECT_NE(why("0.001").find("no shard that auto can choose fits into 1.00 MB per rank; parameters needs the least"),
            std::string::npos);
  EXPECT_EQ(Workload(large_layers("shard: gradients")).choose_shard(ranks), "");
}

TEST(ChooseShard, TakesWhatTheDeckAllows) {
  const RankCount ranks{4, 4};
  EXPECT_EQ(chosen("memory_gb: 0.001, overlap: thread", ranks), Shard::optimizer);
  EXPECT_EQ(chosen("all_reduce: mpi", ranks), Shard::none);
  EXPECT_EQ(chosen("between_nodes: tree", ranks), Shard::none);
  EXPECT_EQ(shards_by_speed(large_layers("local: {every: 8, fragments: 2}, shard: auto"), 4, false),
            std::vector{Shard::none});
  EXPECT_EQ(shards_by_speed(large_layers("local: {every: 8}, shard: auto"), 4, false).front(), Shard::optimizer);
  EXPECT_EQ(chosen("memory_gb: 0", ranks, "{type: adafactor}"), Shard::none);
  const RunConfig fixed = large_layers("deterministic: {shards: 4}, shard: auto");
  EXPECT_TRUE(has_whole_sums(fixed.parallel, {.ranks = 4}));
  EXPECT_EQ(shards_by_speed(fixed, 4, true).front(), Shard::none) << "trees add up whole gradients";
}

Machine nodes_of_four(double gbps) {
  Machine machine;
  machine.ranks_per_node = 4;
  machine.products = {{Precision::fp32, 1, 50}};
  machine.memory_gbps = 8;
  machine.node = {.latency_us = 1, .bandwidth_gbps = 6};
  machine.sum = {.latency_us = 3, .bandwidth_gbps = 4};
  machine.network = {.latency_us = 5, .bandwidth_gbps = gbps};
  machine.reduce_gbps = 5;
  return machine;
}

// With a machine, the choice follows predicted times.
TEST(ChooseShard, TakesTheFastestOfThoseThatFit) {
  const RankCount ranks{4, 4};
  const auto choice = [&](const std::vector<TrainingConfig::ShardTime>& times, double bytes) {
    Workload workload(large_layers("shard: auto, machine: some.yaml, memory_gb: " + std::to_string(1e-9 * bytes)));
    workload.change([&](TrainingConfig& config) { config.shard_times = times; });
    return workload.choose_shard(ranks);
  };
  const std::vector<TrainingConfig::ShardTime> times{
      {Shard::none, 0.012}, {Shard::optimizer, 0.011}, {Shard::gradients, 0.013}, {Shard::parameters, 0.0105}};
  EXPECT_EQ(choice(times, 0),
            "auto chooses parameters: predicted 10.5 ms per step (optimizer 11, none 12, gradients 13)");
  const std::vector<TrainingConfig::ShardTime> whole{{Shard::none, 0.01}, {Shard::optimizer, 0.02}};
  const double between = 0.5 * (bytes_of("none", ranks) + bytes_of("optimizer", ranks));
  EXPECT_EQ(choice(whole, between).find("auto chooses optimizer: predicted 20 ms per step (none 10, "), 0u);
  EXPECT_NE(choice(whole, between).find("; none would need "), std::string::npos);
  EXPECT_NE(choice({}, 0).find("(the time of such steps cannot be predicted)"), std::string::npos);
}

// The time of each way is that of a deck that names it.
TEST(ShardTimes, AreThoseOfDecksThatNameThem) {
  const RankCount ranks{8, 2};
  const Machine machine = nodes_of_four(1);
  Workload workload(large_layers("shard: auto"));
  const std::vector<TrainingConfig::ShardTime> times = shard_times(machine, workload, ranks);
  EXPECT_TRUE(workload.config().parallel.sharding.chooses_shard) << "it is as it was";
  EXPECT_EQ(times.size(), 4u);
  for (const TrainingConfig::ShardTime& time : times) {
    Workload same(large_layers("shard: " + std::string(shard_names[static_cast<std::size_t>(time.shard)])));
    EXPECT_DOUBLE_EQ(time.seconds, Predictor(machine, same).predict(ranks.all).step());
  }
}

TEST(Ways, HaveTheMemoryAndTheTimeOfTheirDecks) {
  const RankCount ranks{8, 2};
  Machine machine = nodes_of_four(1);
  (memory_is_separate ? machine.host_copy_gbps : machine.disk_gbps) = 0.5;
  // Layers so large that offloaded parameters save more memory than the buffers that they are fetched through need.
  const auto deck = [] { return large_layers("shard: none, " + offloads_to(), "{type: adamw}", "relu", 1600); };
  Workload workload(deck());
  const std::vector<ParallelChoice> variants = parallel_choices(workload, machine, ranks, 0);
  EXPECT_EQ(workload.config().parallel.sharding.shard, Shard::none);
  EXPECT_FALSE(workload.config().batch.micro) << "it is as it was";
  std::set<std::tuple<Shard, std::size_t, bool, Checkpointing, std::int64_t, bool, bool>> different;
  for (const ParallelChoice& variant : variants) {
    EXPECT_TRUE(different
                    .insert({variant.shard, variant.group.word, variant.shares, variant.checkpointing, variant.micro,
                             variant.offloads, variant.offloads_parameters})
                    .second);
    Workload same(deck());
    same.change([&](TrainingConfig& config) {
      config.parallel.sharding.shard = variant.shard;
      config.parallel.sharding.shard_group = variant.group;
      config.parallel.sharding.share_parameters = variant.shares;
      config.model.checkpointing = variant.checkpointing;
      config.batch.micro = variant.micro;
      config.parallel.offload.present = variant.offloads;
      if (variant.offloads_parameters) config.parallel.offload.parameters = config.parallel.offload.optimizer;
    });
    const Prediction prediction = Predictor(machine, same).predict(ranks.all);
    EXPECT_DOUBLE_EQ(variant.memory, same.plan(ranks).total());
    EXPECT_DOUBLE_EQ(*variant.seconds, prediction.step());
    EXPECT_DOUBLE_EQ(variant.sent, prediction.sent);
  }
  EXPECT_TRUE(std::ranges::is_sorted(variants, {}, [](const ParallelChoice& variant) { return *variant.seconds; }));
  for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters})
    EXPECT_GT(std::ranges::count(variants, shard, &ParallelChoice::shard), 0);
  for (const std::int64_t micro : {16, 8, 4, 2})
    EXPECT_GT(std::ranges::count(variants, micro, &ParallelChoice::micro), 0);
  const auto elsewhere = std::ranges::count(variants, true, &ParallelChoice::offloads_parameters);
  EXPECT_EQ(2 * std::ranges::count(variants, true, &ParallelChoice::offloads), std::ssize(variants) + elsewhere);
  EXPECT_GT(elsewhere, 0);
}

double bytes_of_blocks(const Workload& workload, std::int64_t count) {
  return static_cast<double>(
      OffloadedStates::divide(0.1, DType::f32, static_cast<std::size_t>(workload.states()), count).bytes_in_memory());
}

// The passes of the network hide a part of the transfer of states; on hosts and without a gradient norm, the last
// backward pass does so, too.
TEST(Ways, StatesTakeTheTimeThatNothingHides) {
  const RankCount ranks{8, 2};
  Machine machine = nodes_of_four(1);
  machine.measured.clear();
  for (const bool clips : {false, true}) {
    Workload workload(
        large_layers("shard: optimizer, " + offloads_to(), clips ? "{type: lamb, clip_norm: 1}" : "{type: adamw}"));
    const MemoryEstimate memory = workload.plan(ranks);
    const double state = memory.offloaded, parameters = static_cast<double>(workload.parameters());
    const ParameterLayout& layout = workload.layout();
    EXPECT_NEAR(state,
                8 * parameters *
                    static_cast<double>(largest_part(workload.config().parallel, layout, ranks,
                                                     may_share_parameters(workload.config().parallel))) /
                    static_cast<double>(layout.trained_size()),
                1);
    EXPECT_EQ(memory.states, bytes_of_blocks(workload, std::llround(state / 8)));
    machine.disk_gbps = machine.host_copy_gbps = std::nullopt;
    EXPECT_FALSE(Predictor(machine, workload).states_seconds(ranks.all, memory)) << "at no known rate";
    const PhaseSeconds pass = ComputeTimes(machine, workload).of(16);
    const double hidden = pass.forward + (clips || memory_is_separate ? 0 : pass.backward);
    machine.disk_gbps = 0.04;  // of four ranks
    EXPECT_NEAR(*Predictor(machine, workload).states_seconds(ranks.all, memory), (clips ? 3 : 2) * state / 1e7 - hidden,
                1e-9);
    machine.host_copy_gbps = 0.01;  // for each rank, in both directions at once
    EXPECT_NEAR(*Predictor(machine, workload).states_seconds(ranks.all, memory), (clips ? 2 : 1) * state / 1e7 - hidden,
                1e-9);
    machine.host_copy_gbps = 1000;
    EXPECT_EQ(Predictor(machine, workload).states_seconds(ranks.all, memory), 0);
  }
}

// On so slow a disk a step is its traffic alone. A single rank has all states, and a node's disk to itself.
TEST(Ways, EfficienciesCompareTheTrafficOfStates) {
  Machine machine = nodes_of_four(1);
  machine.host_copy_gbps = std::nullopt;
  machine.disk_gbps = 1e-5;
  for (const auto& [shard, efficiency] : {std::pair("none", 1. / 4), {"optimizer", 8. / 4}}) {
    Workload workload(large_layers("shard: " + std::string(shard) + ", " + offloads_to()));
    const bool divides = workload.config().parallel.sharding.divides();
    const double largest = divides
                               ? static_cast<double>(largest_part(workload.config().parallel, workload.layout(), {8, 2},
                                                                  may_share_parameters(workload.config().parallel)))
                               : 1;
    const double unevenness = divides ? 8 * largest / static_cast<double>(workload.layout().trained_size()) : 1;
    const Prediction on_eight = Predictor(machine, workload).predict(8);
    EXPECT_NEAR(on_eight.weak, efficiency / unevenness, 0.01) << shard;
    EXPECT_NEAR(on_eight.strong, efficiency / 8 / unevenness, 0.01) << shard;
  }
}

// The parameters that a rank owns leave its memory. Each pass of the network reads them, and hides a part of that.
TEST(Ways, ParametersElsewhereAreNotInMemory) {
  const RankCount ranks{8, 2};
  const std::string shard = "shard: parameters, share_parameters: false, ";
  Workload here(large_layers(shard + offloads_to())), there(large_layers(shard + offloads_to()));
  there.change([](TrainingConfig& config) { config.parallel.offload.parameters = config.parallel.offload.optimizer; });
  const MemoryEstimate memory = there.plan(ranks), states_alone = here.plan(ranks);
  const double owned = memory.elsewhere, states = states_alone.offloaded;
  EXPECT_NEAR(owned, states / 2, 0.02 * owned) << "with gaps between parameters";
  EXPECT_EQ(memory.offloaded, states + owned);
  EXPECT_NEAR(states_alone.parameters - memory.parameters, owned, 1);
  EXPECT_EQ(states_alone.gradients, memory.gradients);
  Machine machine = nodes_of_four(1);
  machine.measured.clear();
  const PhaseSeconds pass = ComputeTimes(machine, there).of(16);
  machine.disk_gbps = 0.04;  // of four ranks
  machine.host_copy_gbps = std::nullopt;
  const double moved = 2 * (states + owned) / 1e7;
  const double hidden = pass.forward + (memory_is_separate ? 0 : pass.backward);
  EXPECT_NEAR(*Predictor(machine, there).states_seconds(ranks.all, memory),
              std::max(moved - hidden, moved + 2 * owned / 1e7 - pass.forward - pass.backward), 1e-9);
}

TEST(Ways, AreTakenLastWhereTimesAreNotKnown) {
  Workload workload(large_layers("shard: none, " + offloads_to()));
  const std::vector<ParallelChoice> variants = parallel_choices(workload, nodes_of_four(1), {8, 2}, 0);
  EXPECT_TRUE(
      std::ranges::is_partitioned(variants, [](const ParallelChoice& variant) { return variant.seconds.has_value(); }));
  for (const ParallelChoice& variant : variants) EXPECT_EQ(variant.seconds.has_value(), !variant.offloads);
}

TEST(Ways, ThatFitComeFirst) {
  const RankCount ranks{8, 2};
  for (const bool with_machine : {true, false}) {
    Workload workload(large_layers("shard: none"));
    const double limit = bytes_of("gradients", ranks);
    const auto machine = with_machine ? std::optional(nodes_of_four(1)) : std::nullopt;
    const std::vector<ParallelChoice> variants = parallel_choices(workload, machine, ranks, limit);
    EXPECT_TRUE(std::ranges::is_partitioned(variants, &ParallelChoice::fits));
    for (const ParallelChoice& variant : variants) {
      EXPECT_EQ(variant.fits, variant.memory <= limit);
      EXPECT_EQ(variant.seconds.has_value(), with_machine && !variant.offloads);
    }
    EXPECT_TRUE(variants.front().fits);
    EXPECT_FALSE(variants.back().fits);
  }
}

// The way that auto takes without a machine is nearly as fast as the fastest way predicted with one.
TEST(Ways, AutoTakesTheFastestOrNearlySo) {
  for (const double gbps : {0.1, 1.0, 10.0})
    for (const RankCount ranks : {RankCount{4, 1}, RankCount{16, 4}}) {
      Workload workload(large_layers("shard: none"));
      double fastest = 1e9, taken = 0;
      for (const ParallelChoice& variant : parallel_choices(workload, nodes_of_four(gbps), ranks, 0)) {
        if (variant.offloads || variant.micro != 128 / ranks.all || variant.checkpointing != Checkpointing::none ||
            variant.group.word != ShardConfig::all || variant.shares != (variant.shard != Shard::none))
          continue;
        fastest = std::min(fastest, *variant.seconds);
        if (variant.shard == Shard::optimizer) taken = *variant.seconds;
      }
      EXPECT_LE(taken, 1.05 * fastest) << gbps << " GB/s, " << ranks.all << " ranks";
    }
}

TEST(Ways, LeaveMicroBatchesThatLayersLookAt) {
  Workload workload(large_layers("shard: none", "{type: adamw}", "{batch_norm: {}}"));
  for (const ParallelChoice& variant : parallel_choices(workload, std::nullopt, {4, 1}, 0))
    EXPECT_EQ(variant.micro, 32);
}

}  // namespace
}  // namespace lockstep
