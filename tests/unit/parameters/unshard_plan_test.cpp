// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/unshard_plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/element_range.hpp"
#include "nn/model.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Network {
  const char* name;
  const char* layers;
  Shape input;
  std::int64_t batch = 8;
};
void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

constexpr const char* chain =
    "[{linear: {features: 512}}, tanh, {linear: {features: 520}}, relu, {linear: {features: 512}}, relu,"
    " {linear: {features: 40}}, {linear: {features: 600}}, {linear: {features: 512}}, {linear: {features: 3}}]";
constexpr const char* branches =
    "[{linear: {features: 512}, name: a}, {linear: {features: 512}, from: a, name: b}, {linear: {features: 512}, from: a, name: c},"
    " {linear: {features: 512}, from: b, name: d}, {add: {}, from: [c, d]}, {linear: {features: 512}}, {linear: {features: 3}}]";
constexpr const char* images =
    "[{conv2d: {filters: 256, kernel: 3, padding: same}}, {batch_norm: {}}, relu, {conv2d: {filters: 256, kernel: 3, padding: same}},"
    " {batch_norm: {}}, relu, {conv2d: {filters: 250, kernel: 3, padding: same}}, flatten, {linear: {features: 100}}]";

class Windows : public testing::TestWithParam<std::tuple<Network, double, int, Checkpointing>> {
 protected:
  void SetUp() override {
    const auto& [network, megabytes, prefetch, checkpointing] = GetParam();
    graph.emplace(test::parse_layers(network.layers), network.input);
    plan = plan_model(*graph,
                      {.max_batch = network.batch, .checkpointing = checkpointing, .windows = {}, .memory = {}});
    layout.emplace(graph->layer_specs(), DType::f32);
    windows = plan_windows(*graph, *layout, plan,
                           {.gradients = true, .values = true, .unit_mb = megabytes, .prefetch = prefetch});
  }

  /// The units that the layers of each time of the step use.
  /// `of_gradients`: units whose gradients they use, which recomputed layers do not.
  std::vector<std::set<std::size_t>> units_by_time(bool of_gradients) const {
    std::vector<std::set<std::size_t>> used;
    const auto add = [&](const std::vector<Segment>& segments) {
      for (const Segment& segment : segments) {
        std::set<std::size_t>& units = used.emplace_back();
        for (const Task& task : segment.tasks) {
          if (of_gradients && task.kind == Task::Kind::recompute) continue;
          for (const Parameter& parameter : layout->parameters())
            if (parameter.node == static_cast<std::size_t>(task.node) && parameter.kind == ParameterSpec::Kind::trained)
              units.insert(windows.unit_of(parameter.range.first));
        }
      }
    };
    add(plan.forward);
    used.emplace_back();
    add(plan.backward);
    return used;
  }

  std::optional<Graph> graph;
  ExecutionPlan plan;
  std::optional<ParameterLayout> layout;
  UnshardPlan windows;
};

TEST_P(Windows, UnitsAreWholeLayersThatBeginWithBlocks) {
  const double megabytes = std::get<1>(GetParam());
  std::int64_t end = 0;
  for (const ElementRange& unit : windows.units) {
    EXPECT_EQ(unit.first, end);
    EXPECT_EQ(unit.first % array_block, 0);
    std::set<std::size_t> large;  // layers of the unit that are large enough to begin one
    for (const Parameter& parameter : layout->parameters()) {
      EXPECT_TRUE(parameter.range.within(unit).count == 0 || parameter.range.within(unit) == parameter.range);
      if (parameter.range.within(unit).count >= 64 * array_block) large.insert(parameter.node);
    }
    if (large.size() > 1) EXPECT_LE(4e-6 * static_cast<double>(unit.count), megabytes);
    end = unit.end();
  }
  EXPECT_EQ(end, layout->trained_size());
}

/// Simulates a step: a unit that layers use is in its window, and no other unit overlaps it.
TEST_P(Windows, UnitsThatAreUsedTogetherHaveWindowsOfTheirOwn) {
  for (const auto& [places, of_gradients] :
       {std::pair(&windows.value_places, false), {&windows.gradient_places, true}}) {
    const std::vector<std::set<std::size_t>> used = units_by_time(of_gradients);
    const auto overlap = [&](std::size_t a, std::size_t b) {
      const std::int64_t first = places->of_units[a], second = places->of_units[b];
      return first < second + windows.units[b].count && second < first + windows.units[a].count;
    };
    // From its first use in a pass to its last one, a unit keeps its window.
    for (const bool backward : {false, true}) {
      if (of_gradients && !backward) continue;
      std::map<std::size_t, std::pair<int, int>> lives;
      for (int time = 0; time < static_cast<int>(used.size()); ++time) {
        if ((time > windows.loss_time) != backward) continue;
        for (const std::size_t unit : used[static_cast<std::size_t>(time)]) {
          const auto [life, is_new] = lives.try_emplace(unit, time, time);
          life->second.second = time;
        }
      }
      EXPECT_EQ(lives.size(), windows.units.size());
      for (const auto& [a, life_a] : lives)
        for (const auto& [b, life_b] : lives) {
          if (a != b && life_a.first <= life_b.second && life_b.first <= life_a.second) {
            EXPECT_FALSE(overlap(a, b)) << a << " and " << b << (of_gradients ? " (gradients)" : "");
          }
        }
    }
    for (std::size_t unit = 0; unit < windows.units.size(); ++unit)
      EXPECT_LE(places->of_units[unit] + windows.units[unit].count, places->count);
  }
}

TEST_P(Windows, AreAsFewAsTheyCanBe) {
  const auto& [network, megabytes, prefetch, checkpointing] = GetParam();
  std::int64_t largest = 0;
  for (const ElementRange& unit : windows.units) largest = std::max(largest, array_blocks(unit.count) * array_block);
  const auto units = std::ssize(windows.units);
  if (network.layers == chain && checkpointing == Checkpointing::none) {
    EXPECT_EQ(windows.value_places.count, std::min<std::int64_t>(units, prefetch + 1) * largest);
    EXPECT_EQ(windows.gradient_places.count, std::min<std::int64_t>(units, 2) * largest);
  }
  EXPECT_LE(windows.value_places.count, units * largest);
}

INSTANTIATE_TEST_SUITE_P(Networks, Windows,
                         testing::Combine(testing::Values(Network{"chain", chain, {512}},
                                                          Network{"branches", branches, {512}},
                                                          Network{"images", images, {6, 6, 128}}),
                                          testing::Values(0.5, 2.5, 1000.0), testing::Values(0, 1, 2),
                                          testing::Values(Checkpointing::none, Checkpointing::blocks)));

/// The unit of a weight that the first and the last layer share stays in its window.
TEST(TiedWindows, Stay) {
  Graph graph(
      test::parse_layers("[{embedding: {vocabulary: 600, features: 512}, name: words}, {linear: {features: 512}},"
                         " {linear: {features: 512}}, {linear: {features: 512}},"
                         " {linear: {features: 600, tied_to: words}}]"),
      {4});
  const ExecutionPlan plan = plan_model(graph, {.max_batch = 2, .windows = {}, .memory = {}});
  const ParameterLayout layout(graph.layer_specs(), DType::f32);
  const UnshardPlan windows = plan_windows(graph, layout, plan, {.gradients = true, .values = true, .unit_mb = 0.1});
  const std::size_t tied = windows.units.size() - 1;
  for (std::size_t unit = 0; unit <= tied; ++unit) EXPECT_EQ(windows.stays[unit], unit == tied);
  for (const UnshardPlan::Places* places : {&windows.value_places, &windows.gradient_places})
    for (std::size_t unit = 0; unit < tied; ++unit)
      EXPECT_LE(places->of_units[unit] + windows.units[unit].count, places->of_units[tied]);
}

TEST(WindowsOfWhatIsNotDivided, AreInTheirPlaces) {
  Graph graph(test::parse_layers(chain), {512});
  const ExecutionPlan plan = plan_model(graph, {.max_batch = 2, .windows = {}, .memory = {}});
  const ParameterLayout layout(graph.layer_specs(), DType::f32);
  const UnshardPlan windows = plan_windows(graph, layout, plan, {});
  for (const std::int64_t element : {std::int64_t{0}, std::int64_t{70000}, layout.size() - 1}) {
    EXPECT_EQ(windows.value_place(element), element);
    EXPECT_EQ(windows.gradient_place(element), element);
  }
  EXPECT_EQ(windows.value_count(layout), layout.size());
}

}  // namespace
}  // namespace lockstep
