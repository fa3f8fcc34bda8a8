// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/prediction.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/reducers/gradient_reducer.hpp"
#include "scaling/machine.hpp"
#include "step_simulation.hpp"

namespace lockstep {
namespace {

using Overlap = GradientSumConfig::Overlap;

constexpr const char* deck = R"(
run: {epochs: 2}
data: {synthetic: {kind: random, shape: [700], classes: 11, train: 131072, validation: 20}}
model: {layers: [{linear: 1600}, relu, {linear: 1600}, relu, {linear: 1600}, relu, {linear: 1600}, relu, {linear: 11}]}
optimizer: {type: sgd, learning_rate: 0.1}
batch: {global: 65536}
parallel: {bucket_mb: 12)";

RunConfig config_of(const std::string& parallel = "") {
  return read_run_config(parse_deck(deck + parallel + "}\n", "deck.yaml"));
}

Machine machine(std::string name, std::int64_t ranks_per_node) {
  Machine made;
  made.name = std::move(name);
  made.ranks_per_node = ranks_per_node;
  made.products = {{Precision::fp32, 1, 30}, {Precision::fp32, 1000, 90}};
  made.memory_gbps = 8;
  made.step_us = 50;
  made.noise = {{0, 0.97}, {0.5, 1}, {0.9, 1.02}, {0.99, 1.05}, {1, 1.15}};
  made.node = {.latency_us = 0.6, .bandwidth_gbps = 6};
  made.sum = {.latency_us = 3, .bandwidth_gbps = 4};
  made.reduce_gbps = 5;
  return made;
}

struct Network {
  const char* name;
  LinkSpeed link;
  double node_gbps;
};
constexpr Network networks[] = {{"ethernet", {25, 1.2}, 1.2}, {"infiniband", {1.3, 12}, 25}, {"fast", {1, 20}, 100}};

std::vector<Machine> machines() {
  Machine thin = machine("thin", 8), fat = machine("fat", 32), devices = machine("devices", 4);
  devices.products = {{Precision::fp32, 1, 300}, {Precision::fp32, 1000, 9000}};
  devices.memory_gbps = 900;
  devices.host_copy_gbps = 20;
  devices.noise = {{0, 0.99}, {0.5, 1}, {0.99, 1.01}, {1, 1.06}};
  return {thin, fat, devices};
}

TEST(Workload, TheGradientsOfALastLayerInTilesAreFinalFirst) {
  Workload workload(read_run_config(parse_deck(R"(
run: {epochs: 2}
data: {synthetic: {kind: random, vocabulary: 3000, sequence_length: 1024, train: 256, validation: 0}}
model: {layers: [{embedding: {vocabulary: 3000, features: 16}}, {layer_norm: {}}, {linear: 3000}]}
optimizer: {type: sgd, learning_rate: 0.1}
batch: {global: 256}
)",
                                               "deck.yaml")));
  const MemoryEstimate memory = workload.plan({2, 2});
  ASSERT_GT(memory.plan.tile_rows, 0);
  const std::vector<ReadyPoint> points = workload.ready_points(memory.plan);
  EXPECT_EQ(points.front().layers, std::vector{2});
  EXPECT_GE(points.front().elements, 3000 * 17);
  EXPECT_LT(points.front().elements, points.back().elements);
}

MeasuredStep measured_step(const Workload& workload, std::int64_t examples, double passes_ms) {
  return {.parameters = workload.parameters(),
          .mflop_per_example = 1e-6 * workload.flops_per_example(),
          .precision = Precision::fp32,
          .optimizer = "sgd",
          .examples = examples,
          .forward_ms = passes_ms,
          .backward_ms = 2 * passes_ms,
          .optimizer_ms = 6,
          .other_ms = 3};
}

TEST(ComputeTimes, OfOneMeasuredBatchThePassesAloneGrow) {
  const Workload workload(config_of());
  Machine described = machine("one", 8);
  described.measured = {measured_step(workload, 64, 8)};
  const ComputeTimes times(described, workload);
  EXPECT_EQ(times.only_batch(), 64);
  for (const std::int64_t examples : {1, 64, 1000}) {
    const PhaseSeconds step = times.of(examples);
    const double share = static_cast<double>(examples) / 64;
    EXPECT_NEAR(step.forward, 8e-3 * share, 1e-12);
    EXPECT_NEAR(step.backward, 16e-3 * share, 1e-12);
    EXPECT_NEAR(step.optimizer, 6e-3, 1e-12);
    EXPECT_NEAR(step.other, 3e-3, 1e-12);
  }
  EXPECT_EQ(times.of(0).total(), 0);
  // With two measured batches, times are on a line through both.
  described.measured.push_back(measured_step(workload, 128, 12));
  const ComputeTimes two(described, workload);
  EXPECT_FALSE(two.only_batch());
  EXPECT_NEAR(two.of(96).forward, 10e-3, 1e-12);
  EXPECT_NEAR(two.of(256).forward, 20e-3, 1e-12);
  EXPECT_NEAR(two.of(256).optimizer, 6e-3, 1e-12);
}

TEST(ComputeTimes, GradientsOfLaterMicroBatchesAreReadAndWrittenOnceMore) {
  const Workload workload(config_of());
  Machine described = machine("one", 8);
  described.measured = {measured_step(workload, 64, 8)};
  const ComputeTimes times(described, workload);
  const double added = 2 * 4e-9 * static_cast<double>(workload.parameters()) / described.memory_gbps;
  EXPECT_NEAR(times.of_share(64, 64).backward, 16e-3, 1e-12);
  EXPECT_NEAR(times.of_share(256, 64).backward, 4 * 16e-3 + 3 * added, 1e-12);
  EXPECT_NEAR(times.of_share(65, 32).backward, 65 * 0.25e-3 + 2 * added, 1e-12);
  EXPECT_NEAR(times.of_share(256, 64).forward, 4 * 8e-3, 1e-12);
}

TEST(Prediction, StatisticsTravelInTheGroupsThatShareThem) {
  Machine nodes = machine("nodes", 4);
  nodes.network = networks[0].link;
  const auto seconds = [&](const std::string& parallel, int ranks) {
    Workload workload(read_run_config(parse_deck(R"(
run: {epochs: 2}
data: {synthetic: {kind: random, shape: [70], classes: 11, train: 4096, validation: 0}}
model: {layers: [{linear: 160}, {batch_norm: {}}, relu, {linear: 11}]}
optimizer: {type: sgd, learning_rate: 0.1}
batch: {global: 1024}
parallel: {)" + parallel + "}\n",
                                                 "deck.yaml")));
    return Predictor(nodes, workload).predict(ranks).statistics;
  };
  EXPECT_GT(seconds("", 16), 0);
  EXPECT_EQ(seconds("sync_batch_norm: false", 16), 0);
  EXPECT_EQ(seconds("group_size: 1", 16), 0);
  EXPECT_EQ(seconds("group_size: 4", 16), seconds("", 4));
  EXPECT_EQ(seconds("group_size: 8", 16), seconds("", 8));
  EXPECT_LT(seconds("group_size: 4", 16), seconds("", 16));
  EXPECT_EQ(seconds("group_size: 64", 16), seconds("", 16));
}

/// The work of a step as the simulation takes it.
test::SimulatedWork work_of(Workload& workload, const Predictor& predictor, int ranks) {
  const std::int64_t share = workload.partition(ranks).largest_share(workload.batch());
  const PhaseSeconds phases = predictor.times().of(share);
  test::SimulatedWork work{.forward = phases.total() - phases.backward};
  const std::vector<ElementRange> buckets = GradientBuckets(workload.layout(), workload.config().parallel).trained;
  for (const ElementRange& bucket : buckets) work.counts.push_back(bucket.count);
  double all = 0;
  for (const ReadyPoint& point : workload.ready_points(workload.plan({ranks, ranks}).plan)) {
    double weight = 0;
    for (const int layer : point.layers) weight += predictor.times().backward_weight(layer, share);
    all += work.layers.emplace_back(weight);
    work.bucket.push_back(static_cast<std::size_t>(
        std::ranges::count_if(buckets, [&](const ElementRange& bucket) { return bucket.end() <= point.elements; })));
  }
  for (double& layer : work.layers) layer *= phases.backward / all;
  return work;
}

void expect_near_simulation(const Machine& machine, int ranks, const std::string& all_reduce, Overlap overlap,
                            double tolerance = 0.1) {
  static constexpr const char* names[] = {"auto", "none", "poll", "thread"};
  Workload workload(config_of(", all_reduce: " + all_reduce + ", overlap: " + names[static_cast<int>(overlap)]));
  Predictor predictor(machine, workload);
  const Prediction prediction = predictor.predict(ranks);
  const double simulated = test::simulated_step(
      work_of(workload, predictor, ranks),
      {.machine = machine, .ranks = ranks, .algorithm = workload.config().parallel.sums.all_reduce, .overlap = overlap},
      std::clamp(512 / ranks, 1, 8));
  EXPECT_NEAR(prediction.step() / simulated, 1, tolerance)
      << machine.name << ", " << ranks << " ranks, " << all_reduce << ", " << names[static_cast<int>(overlap)] << ": "
      << 1e3 * prediction.step() << " ms predicted, " << 1e3 * simulated << " simulated";
}

struct Case {
  int machine, network, ranks;
};

Machine described(const Case& c) {
  Machine machine = machines()[static_cast<std::size_t>(c.machine)];
  const Network& network = networks[c.network];
  machine.name += std::string(" with ") + network.name;
  machine.network = network.link;
  machine.node_gbps = network.node_gbps;
  return machine;
}

class Simulated : public testing::TestWithParam<Case> {};

TEST_P(Simulated, StepIsPredictedWithinATenth) {
  const int ranks = GetParam().ranks;
  expect_near_simulation(described(GetParam()), ranks, "auto", Overlap::thread);
  if (ranks <= 256) expect_near_simulation(described(GetParam()), ranks, "auto", Overlap::none);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int machine = 0; machine < 3; ++machine)
    for (int network = 0; network < 3; ++network)
      for (const int ranks : {64, 256, 1024, 4096}) all.push_back({machine, network, ranks});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Machines, Simulated, testing::ValuesIn(cases()), [](const auto& test) {
  const Case& c = test.param;
  return machines()[static_cast<std::size_t>(c.machine)].name + "_" + networks[c.network].name + "_" +
         std::to_string(c.ranks);
});

// A late rank finds the messages of the others already there, and does not wait for them: between many ranks with long
// messages, sums end sooner than predicted (perf/results/predict-scaling.md).
TEST(Simulation, OtherAllReducesArePredictedToo) {
  const Machine fast = described({0, 1}), slow = described({0, 0});
  // Some numbers of ranks leave a node partly filled, or are no power of two.
  for (const auto& [all_reduce, ranks] :
       {std::pair("ring", 60), {"halving_doubling", 256}, {"halving_doubling", 200}, {"tree", 100}, {"auto", 100}})
    for (const Overlap overlap : {Overlap::none, Overlap::thread, Overlap::poll}) {
      expect_near_simulation(fast, ranks, all_reduce, overlap);
      expect_near_simulation(slow, ranks, all_reduce, overlap, 0.15);
    }
}

}  // namespace
}  // namespace lockstep
