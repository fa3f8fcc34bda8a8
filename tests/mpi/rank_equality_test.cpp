// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <cmath>

#include "comm/collective/algorithm.hpp"
#include "comm/emulated_network.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Case {
  std::string name;
  std::int64_t batch, examples, micro;
  std::string extra;
  std::int64_t ranks_per_node = 0;  ///< of the emulated network; 0: no network is emulated

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

const std::string norms =
    "\nmodel={layers: [{conv2d: {filters: 6, kernel: 3, padding: same}}, {batch_norm: {}}, {relu: {}, name: trunk},"
    " {conv2d: {filters: 6, kernel: 3, padding: same, bias: false}}, {batch_norm: {}, name: branch},"
    " {conv2d: {filters: 6, kernel: 1, bias: false}, from: trunk}, {batch_norm: {}, name: shortcut},"
    " {add: {}, from: [branch, shortcut]}, relu, {max_pool: {kernel: 2}}, flatten, {linear: {features: 7}}]}\noptimizer.learning_rate=0.005";

// Cases with ragged last batches, shares of unequal size, ranks without any example, and micro-batches.
const Case cases[] = {
    {"96", 96, 500, 1000, ""},
    {"97", 97, 500, 1000, ""},
    {"97_in_pieces", 97, 500, 7, ""},
    {"fewer_than_ranks", 3, 11, 1000, ""},
    {"one_example", 1, 5, 1000, ""},
    {"more_than_the_data", 700, 500, 64, "\noptimizer.learning_rate=0.02"},
    {"drop_last", 96, 500, 1000, "\ndata.drop_last=true"},
    {"file_order_and_warm_up", 97, 500, 20, "\ndata.shuffle=false\nschedule.warmup=10 steps"},
    {"adamw", 97, 500, 20,
     "\noptimizer={type: adamw, learning_rate: 0.0005, epsilon: 0.001, clip_norm: 0.5}\nschedule={type: cosine, warmup: 5 steps}"},
    {"lamb", 97, 500, 20,
     "\noptimizer={type: lamb, learning_rate: 0.0005, epsilon: 0.001, groups: [{match: '*/bias', learning_rate_scale: 2}]}"},
    {"batches_that_grow", 97, 500, 20,
     "\nbatch.ramp=[[300 examples, 130], [1 epoch, 201]]\nschedule={scale_rule: linear, reference_batch: 97}"},
    // Two norms that exchange statistics at the same time, one of which is fused with an addition.
    {"batch_norms", 97, 500, 1000, norms},
    {"batch_norms_in_pieces_of_blocks", 97, 500, 1000, norms + "\nmodel.activation_checkpointing=blocks"},
    {"batch_norms_by_messages_beside_a_thread", 97, 500, 1000, norms + "\nparallel={overlap: thread, bucket_mb: 0.001}",
     1},
    {"batch_norms_fewer_than_ranks", 3, 11, 1000, norms},
    {"batch_norm_of_vectors", 97, 500, 1000,
     "\nmodel={layers: [flatten, {linear: {features: 33}}, batch_norm, relu, {linear: {features: 7}}]}"},
};

/// Cases for every algorithm with every overlap, in many buckets, and on several nodes.
std::vector<Case> ways_to_sum() {
  std::vector<Case> ways;
  const auto add = [&](const std::string& name, const std::string& parallel, std::int64_t ranks_per_node = 0) {
    ways.push_back({name, 97, 500, 1000, "\nparallel={bucket_mb: 0.001, " + parallel + "}", ranks_per_node});
  };
  for (const std::string overlap : {"none", "poll", "thread"}) {
    std::vector<std::string_view> names = algorithm_names([](const Algorithm& a) { return !a.in_device_memory; });
    names.push_back("auto");
    for (const std::string_view algorithm : names)
      add(fmt::format("{}_{}", algorithm, overlap), fmt::format("all_reduce: {}, overlap: {}", algorithm, overlap));
    for (const std::string_view between : algorithm_names([](const Algorithm& a) { return a.all_reduce != nullptr; }))
      add(fmt::format("nodes_of_two_{}_{}", between, overlap),
          fmt::format("between_nodes: {}, overlap: {}", between, overlap), 2);
  }
  return ways;
}

constexpr const char* deck = R"(
run: {steps: 1000, seed: 3}
data: {synthetic: {kind: random, shape: [6, 5, 2], classes: 7, train: 500, validation: 20}}
model:
  layers:
    - {conv2d: {filters: 6, kernel: 3, padding: same}}
    - {relu: {}, name: trunk}
    - {conv2d: {filters: 6, kernel: 3, padding: same}, name: branch}
    - {add: {}, from: [branch, trunk]}
    - relu
    - {max_pool: {kernel: 2}}
    - flatten
    - {dropout: {rate: 0.3}}
    - {linear: {features: 33}}
    - relu
    - {linear: {features: 7}}
optimizer: {type: sgd, learning_rate: 0.05, momentum: 0.9, weight_decay: 0.001}
)";

RunConfig config_of(const Case& c, const std::string& precision, const std::string& folder) {
  DeckNode node = parse_deck(deck, "test");
  apply_override(node, fmt::format("batch={{global: {}, micro: {}}}", c.batch, c.micro));
  apply_override(node, fmt::format("data.synthetic.train={}", c.examples));
  apply_override(node, "precision.compute=" + precision);
  apply_override(node, "run={steps: 1000, seed: 3, resume: never, overwrite: true, output_dir: '" + folder + "'}");
  std::istringstream extra(c.extra);
  for (std::string line; std::getline(extra, line);)
    if (!line.empty()) apply_override(node, line);
  return read_run_config(std::move(node));
}

/// A hash of 62 bits of the tensor's bytes.
std::int64_t fingerprint(const Tensor& tensor) {
  std::uint64_t hash = 14695981039346656037u;
  for (const auto byte : test::bytes_of(tensor)) hash = (hash ^ byte) * 1099511628211u;
  return static_cast<std::int64_t>(hash >> 2);
}

bool same_on_all_ranks(const Communicator& comm, std::int64_t value) {
  return comm.all_reduce_max(value) == comm.all_reduce_min(value);
}

class RankCurves : public testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(RankCurves, SameCurveAsWithoutRanks) {
  const auto& [c, precision] = GetParam();
  const Communicator world = Communicator::world();
  const Communicator comm = c.ranks_per_node > 0 ? emulate_network(world, {.ranks_per_node = c.ranks_per_node}) : world;
  const test::TemporaryFolder folder;
  const RunConfig config = config_of(c, precision, (folder.path() / "run").string());
  constexpr int steps = 50;
  const double tolerance = precision == "fp64" ? 1e-12 : 1e-5;
  const test::Curve expected = test::train_serially(config, steps);

  TrainingRun run(config, comm);
  for (int step = 0; step < steps; ++step) {
    run.step();
    EXPECT_TRUE(same_on_all_ranks(comm, fingerprint(run.trainer().model().parameters().values()))) << "step " << step;
    const double loss = run.trainer().step_metrics().metrics.loss;
    EXPECT_NEAR(loss / expected.losses[static_cast<std::size_t>(step)], 1.0, tolerance) << "step " << step;
  }
  EXPECT_LT(test::largest_difference(test::values_of(run.trainer().model().parameters().values()), expected.parameters),
            10 * tolerance);
  EXPECT_LT(expected.losses.back(), 3.0) << "the plain loop itself has diverged";
}

/// With sync_batch_norm: false, batch norm sees the examples of its rank alone, but running values are those of all.
TEST(RankEquality, RunningStatisticsAreEqualWithoutSyncBatchNorm) {
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  const Case c{
      "batch_norm", 97, 500, 20,
      "\nmodel={layers: [{conv2d: {filters: 4, kernel: 3}}, {batch_norm: {}, name: norm}, relu, flatten, {linear: {features: 7}}]}"
      "\nparallel.sync_batch_norm=false"};
  TrainingRun run(config_of(c, "fp32", (folder.path() / "run").string()), comm);
  for (int step = 0; step < 5; ++step) run.step();
  const ParameterBuffer& parameters = run.trainer().model().parameters();
  EXPECT_TRUE(same_on_all_ranks(comm, fingerprint(parameters.values())));
  for (const auto& parameter : parameters.parameters()) {
    if (parameter.name != "norm/running_mean") continue;
    for (const double mean : test::values_of(parameters.values(parameter))) EXPECT_NE(mean, 0.0) << "they move";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RankCurves, testing::Combine(testing::ValuesIn(cases), testing::Values("fp32", "fp64")),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name, std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(WaysToSum, RankCurves,
                         testing::Combine(testing::ValuesIn(ways_to_sum()), testing::Values("fp64")),
                         [](const auto& info) { return std::get<0>(info.param).name; });

TEST(RankEquality, TheSameTwiceIsTheSameBits) {
  const Communicator comm = Communicator::world();
  std::int64_t prints[2];
  for (auto& print : prints) {
    const test::TemporaryFolder folder;
    const RunConfig config = config_of(cases[2], "fp32", (folder.path() / "run").string());
    TrainingRun run(config, comm);
    for (int step = 0; step < 20; ++step) run.step();
    print = fingerprint(run.trainer().model().parameters().values());
  }
  EXPECT_EQ(prints[0], prints[1]);
}

TEST(RankEquality, DropoutIsDrawnAnewEachStep) {
  // With a learning rate of 0, only the mask can change the loss of the single batch.
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  Case c = cases[0];
  c.examples = 96;
  c.extra = "optimizer.learning_rate=0\ndata.shuffle=false";
  const RunConfig config = config_of(c, "fp64", (folder.path() / "run").string());
  TrainingRun run(config, comm);
  run.step();
  const double first = run.trainer().step_metrics().metrics.loss;
  run.step();
  EXPECT_NE(run.trainer().step_metrics().metrics.loss, first);
}

}  // namespace
}  // namespace lockstep
