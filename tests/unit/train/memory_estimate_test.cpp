// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the memory that a step is planned to need.
#include "train/memory_estimate.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/parallel_memory.hpp"
#include "run/experiment/experiment.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t inputs = 600, classes = 7;

RunConfig planned_deck(const std::string& parallel) {
  return read_run_config(
      parse_deck("data: {synthetic: {kind: random, shape: [600], classes: 7, train: 512, validation: 0}}\n"
                 "model: {layers: [{linear: 600}, relu, {linear: 7}]}\n"
                 "run: {steps: 2}\nbatch: {global: 128}\noptimizer: {type: sgd, momentum: 0.9}\n"
                 "parallel: {" +
                     parallel + "}\n",
                 "deck.yaml"));
}

/// A deck and its planned network.
struct Planned {
  RunConfig config;
  Experiment experiment;

  explicit Planned(const std::string& parallel) : config(planned_deck(parallel)), experiment(open_experiment(config)) {}
  MemoryEstimate memory(RankCount ranks) {
    return memory_estimate(config, experiment.graph, *experiment.data.train, ranks);
  }
  std::int64_t trained() const { return ParameterLayout(experiment.graph.layer_specs(), DType::f32).trained_size(); }
};

/// Bytes that `compress` adds to a rank's memory, without its `copies` vectors of errors.
double compression_beside_errors(const std::string& compress, RankCount ranks, int copies) {
  Planned with("compress: {" + compress + "}"), without("");
  const MemoryEstimate all = with.memory(ranks), plain = without.memory(ranks);
  EXPECT_GE(all.checkpoint - plain.checkpoint, 4.0 * copies * static_cast<double>(with.trained()));
  return all.gradients - plain.gradients - 4.0 * copies * static_cast<double>(with.trained());
}

constexpr std::int64_t part_of(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

TEST(MemoryEstimate, NothingIsCompressedOnOneNode) {
  for (const char* method : {"int8", "topk", "powersgd"}) {
    const RankCount ranks{8, 1};
    const MemoryEstimate with = Planned(std::string("compress: {method: ") + method + "}").memory(ranks),
                         without = Planned("").memory(ranks);
    EXPECT_EQ(with.gradients, without.gradients) << method;
    EXPECT_EQ(with.checkpoint, without.checkpoint) << method;
  }
}

TEST(MemoryEstimate, MessagesOfCompressedSums) {
  for (const int nodes : {2, 4, 64}) {
    const RankCount ranks{2 * nodes, nodes};
    const std::int64_t count = Planned("").trained(), blocks = part_of(count, 256);
    const std::int64_t of_slice = part_of(blocks, nodes);
    EXPECT_EQ(compression_beside_errors("method: int8", ranks, 1),
              static_cast<double>(2 * nodes * of_slice * (256 + 4)));
    // The tensors are 600 × 600, 7 × 600, and two vectors.
    const std::int64_t kept = 3600 + 6 + 42 + 1, signs = 4 * 4 + 45000 + 75 + 525 + 1;
    EXPECT_EQ(compression_beside_errors("method: sign", ranks, 1), static_cast<double>(nodes * part_of(signs, 4) * 4));
    EXPECT_EQ(compression_beside_errors("method: sign, error_feedback: false", ranks, 0),
              static_cast<double>(nodes * part_of(signs, 4) * 4));
    EXPECT_EQ(compression_beside_errors("method: topk", ranks, 1),
              static_cast<double>(nodes * kept * 8 + 4 * inputs * inputs));
  }
}

TEST(MemoryEstimate, ThinMatricesOfCompressedSums) {
  const std::int64_t q = 2 * inputs + 2 * inputs, p = 2 * inputs + 2 * classes, rows = inputs + classes;
  for (const int nodes : {2, 64})
    EXPECT_EQ(compression_beside_errors("method: powersgd, rank: 2", {2 * nodes, nodes}, 1),
              static_cast<double>(4 * (q + p + rows + inputs)));
}

TEST(MemoryEstimate, GradientsThatTravelInSixteenBitsBetweenDevices) {
  const RankCount ranks{8, 4};
  const auto bytes = [&](const std::string& parallel, const DeviceFacts& devices) {
    const Planned planned(parallel);
    return wire_bytes(planned.config.parallel, ParameterLayout(planned.experiment.graph.layer_specs(), DType::f32),
                      ranks, devices);
  };
  const DeviceFacts hosts{.ranks = 8}, devices{.ranks = 8, .all_have_devices = true, .has_nccl = true};
  const double copy = 2.0 * static_cast<double>(Planned("").trained());
  EXPECT_EQ(bytes("wire: bf16", devices), copy);
  EXPECT_EQ(bytes("wire: bf16", hosts), 0);
  EXPECT_EQ(bytes("wire: bf16, all_reduce: ring", devices), 0) << "summed on hosts";
  EXPECT_EQ(bytes("", devices), 0);
  EXPECT_EQ(bytes("wire: bf16, local: {every: 4}", devices), copy);
  EXPECT_EQ(bytes("wire: bf16, local: {every: 4, group: 2}", devices), 2 * copy);
}

std::string parallel_choices(const std::string& parallel) {
  Planned planned(parallel);
  const RankCount ranks{8, 4};
  const std::string text = memory_by_shard(planned.config, planned.experiment.graph, planned.memory(ranks), ranks);
  std::string ways;  // the names of the ways, without their numbers
  for (const std::string_view name : shard_names)
    if (text.find(std::string(name) + " ") != std::string::npos) ways += std::string(name) + " ";
  return ways;
}

TEST(MemoryEstimate, NamesWaysThatTheDeckAllows) {
  EXPECT_EQ(parallel_choices(""), "none optimizer gradients parameters ");
  EXPECT_EQ(parallel_choices("overlap: thread"), "none optimizer ");
  EXPECT_EQ(parallel_choices("compress: {}"), "none ");
  if (!memory_is_separate) {  // devices do not read from files
    EXPECT_EQ(parallel_choices("shard: parameters, offload: {optimizer: /scratch, parameters: /scratch}"),
              "parameters ");
  }
}

TEST(MemoryEstimate, RefusalsRecommendWhatTheDeckAllows) {
  const RankCount ranks{8, 4};
  const double needed = Planned("").memory(ranks).total(), divided = Planned("shard: optimizer").memory(ranks).total();
  ASSERT_LT(divided, needed);
  const auto refusal = [&](const std::string& parallel) -> std::string {
    Planned planned(parallel + fmt::format(", memory_gb: {}", 0.5e-9 * (needed + divided)));
    try {
      check_memory(planned.config, planned.experiment.graph, planned.memory(ranks), ranks);
    } catch (const KeyError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("overlap: poll").find("; shard: optimizer needs "), std::string::npos) << refusal("overlap: poll");
  for (const char* whole : {"compress: {}", "local: {every: 2}"})
    EXPECT_NE(refusal(whole).find("; use more ranks"), std::string::npos) << refusal(whole);
}

/// Groups keep what all have in common, the differences from it, and the outer velocity, of what a rank owns.
TEST(PlannedGroups, AddWhatTheyExchangeToTheMemoryOfAGroup) {
  Planned groups("local: {every: 4, group: 2, outer: nesterov}, shard: optimizer"), one("shard: optimizer");
  const MemoryEstimate all = groups.memory({4, 1}), group = one.memory({2, 1});
  const ParallelConfig& parallel = one.config.parallel;
  const ParameterLayout layout(one.experiment.graph.layer_specs(), DType::f32);
  const double owned = 4.0 * static_cast<double>(largest_part(parallel, layout, {2, 1}, may_share_parameters(parallel)));
  EXPECT_NEAR(all.parameters - group.parameters, owned, 1e-6);
  EXPECT_NEAR(all.gradients - group.gradients, owned, 1e-6);
  EXPECT_NEAR(all.states - group.states, owned, 1e-6);
}

}  // namespace
}  // namespace lockstep
