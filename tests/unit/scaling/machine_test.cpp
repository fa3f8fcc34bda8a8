// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/machine.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "scaling/exchange_cost.hpp"
#include "scaling/timeline.hpp"
#include "step_simulation.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

using test::expect_error;

const std::string sound = R"(name: two nodes
ranks_per_node: 2
compute:
  products: [{mflop: 1, gflops: 20}, {mflop: 1000, gflops: 100}]
  memory_gbps: 10
  noise: [{share: 0.5, factor: 1}, {share: 1, factor: 1.5}]
node: {latency_us: 0.5, bandwidth_gbps: 8}
sum: {latency_us: 3, bandwidth_gbps: 6}
network: {latency_us: 2, bandwidth_gbps: 10}
reduce_gbps: 5
)";

std::string with(const std::string& what, const std::string& by) {
  std::string text = sound;
  return text.replace(text.find(what), what.size(), by);
}

Machine read(const std::string& text) {
  const test::ScratchFolder folder;
  test::write_file(folder / "machine.yaml", text);
  return read_machine(folder / "machine.yaml");
}

TEST(Machine, SaysWhatItsFileSays) {
  const Machine machine = read(sound);
  EXPECT_EQ(machine.name, "two nodes");
  EXPECT_EQ(machine.products.size(), 2u);
  EXPECT_EQ(machine.network.latency_us, 2);
  EXPECT_FALSE(machine.node_gbps || machine.disk_gbps || machine.has_devices());
  EXPECT_EQ(machine.nodes_of(3), 2);
  Machine again = machine;
  EXPECT_EQ(write_config(again), [&] {
    Machine reread = read(write_config(again));
    return write_config(reread);
  }());
}

TEST(Machine, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& what, const std::string& by, const std::string& message) {
    expect_error(ExitStatus::bad_deck, message, [&] { read(with(what, by)); });
  };
  refused("network: {latency_us: 2", "network: {latency_us: -2", "network.latency_us");
  refused("latency_us: 2, bandwidth_gbps: 10", "latency_us: 2, bandwidth_gbps: 0", "network.bandwidth_gbps");
  refused("reduce_gbps: 5\n", "", "reduce_gbps");
  refused("sum: {latency_us: 3, bandwidth_gbps: 6}\n", "", "sum");
  refused("ranks_per_node: 2", "ranks_per_node: 0", "ranks_per_node");
  refused("reduce_gbps: 5", "reduce_gbps: 5\nlatency: 3", "latency");
  refused("[{mflop: 1, gflops: 20}, {mflop: 1000, gflops: 100}]", "[{mflop: 9, gflops: 20}, {mflop: 1, gflops: 10}]",
          "compute.products");
  refused("share: 1, factor: 1.5", "share: 0.1, factor: 1.5", "compute.noise");
  expect_error(ExitStatus::missing_file, "nowhere.yaml", [] { read_machine("nowhere.yaml"); });
}

TEST(Noise, SlowestOfManyIsTheMeanMaximum) {
  const std::vector<NoisePoint> uniform{{0, 1}, {1, 2}};  // mean maximum of P ranks: 1 + P / (P + 1)
  for (const int ranks : {1, 2, 10, 4096}) EXPECT_NEAR(slowest_of(uniform, ranks), 1 + ranks / (ranks + 1.0), 1e-12);
  EXPECT_EQ(slowest_of({}, 100), 1);
  const std::vector<NoisePoint> steps{{0.25, 1}, {0.25, 2}, {0.75, 2}, {1, 3}};
  for (const int ranks : {1, 7}) {
    double mean = 0;  // by the midpoint rule
    constexpr int parts = 200'000;
    for (int i = 0; i < parts; ++i)
      mean += test::noise_quantile(steps, std::pow((i + 0.5) / parts, 1.0 / ranks)) / parts;
    EXPECT_NEAR(slowest_of(steps, ranks), mean, 1e-4);
  }
}

TEST(Noise, IsFoundAgainInTimes) {
  std::vector<double> times;
  for (int i = 0; i <= 1000; ++i) times.push_back(2 + 0.001 * i);  // uniform between 2 and 3
  const std::vector<NoisePoint> noise = noise_of(times);
  EXPECT_NEAR(test::noise_quantile(noise, 0.5), 1, 1e-9);
  EXPECT_NEAR(test::noise_quantile(noise, 0.995), 2.995 / 2.5, 1e-3);
  EXPECT_NEAR(slowest_of(noise, 9), 2.9 / 2.5, 1e-3);
}

// Times of a ring, 2 (P − 1) (α + n β / P), and of halving and doubling, 2 log₂ P α + 2 (P − 1) / P n β, both plus the
// additions: Thakur et al. 2005.
TEST(Replay, TakesWhatTheFormulaeSay) {
  Machine machine = read(sound);
  machine.ranks_per_node = 1;
  constexpr std::int64_t count = 1 << 20;
  const double alpha = 2e-6, bytes = 4.0 * count, beta = 1e-10, gamma = 2e-10;
  for (const int ranks : {2, 8, 64}) {
    const double part = (ranks - 1.0) / ranks;
    const Fabric fabric{machine, ranks, 1};
    const ExchangeCost ring = replay(ring_all_reduce, fabric, count, 4, 4);
    EXPECT_NEAR(ring.seconds, 2 * (ranks - 1) * alpha + 2 * part * bytes * beta + part * bytes * gamma, 1e-9);
    EXPECT_EQ(ring.rounds, 2 * (ranks - 1));
    const ExchangeCost halves = replay(halving_doubling_all_reduce, fabric, count, 4, 2);
    EXPECT_NEAR(halves.seconds, 2 * std::log2(ranks) * alpha + part * bytes * beta + part * bytes * gamma, 1e-9);
  }
}

TEST(Timeline, HidesWhatItCan) {
  const std::vector<ComputedPart> backward{{1, 0}, {1, 1}, {1, 2}};
  const std::vector<ExchangeCost> sums{{0.5, 0.1, 1}, {0.4, 0.1, 1}};
  const auto end = [&](GradientSumConfig::Overlap overlap, bool has_device) {
    return sums_end(backward, sums, {.overlap = overlap, .has_device = has_device});
  };
  EXPECT_NEAR(end(GradientSumConfig::Overlap::none, false), 3.9, 1e-12);
  EXPECT_NEAR(end(GradientSumConfig::Overlap::thread, true), 3.4, 1e-12);   // the first sum is hidden
  EXPECT_NEAR(end(GradientSumConfig::Overlap::thread, false), 3.5, 1e-12);  // its additions take the core's time
  EXPECT_NEAR(end(GradientSumConfig::Overlap::poll, false), 3.5, 1e-12);
  EXPECT_NEAR(sums_end(backward, sums, {.overlap = GradientSumConfig::Overlap::thread, .vote_seconds = 2}), 5, 1e-12);
}

}  // namespace
}  // namespace lockstep
