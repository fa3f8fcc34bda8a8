// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Case {
  const char* name;
  std::int64_t shards;
  std::vector<int> ranks;
  const char* precision;
  const char* batch;

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

const Case cases[] = {
    {"eight", 8, {1, 2, 4, 8}, "fp32", "{global: 96}"},
    {"eight_uneven_in_pieces", 8, {1, 2, 4, 8}, "fp32", "{global: 83, micro: 4}"},
    {"eight_bf16", 8, {1, 2, 4, 8}, "bf16", "{global: 83}"},
    // On 2 and 3 ranks, runs of three and of two shards share no inner node of the tree but the root.
    {"six", 6, {1, 2, 3, 6}, "fp64", "{global: 50}"},
    {"fewer_examples_than_shards", 8, {1, 2, 4, 8}, "fp32", "{global: 5}"},
};

constexpr const char* deck = R"(
run: {steps: 1000, seed: 3}
data: {synthetic: {kind: random, shape: [6, 5, 2], classes: 7, train: 251, validation: 20}}
model:
  layers:
    - {conv2d: {filters: 6, kernel: 3, padding: same}}
    - batch_norm
    - {relu: {}, name: trunk}
    - {conv2d: {filters: 6, kernel: 3, padding: same}, name: branch}
    - {add: {}, from: [branch, trunk]}
    - relu
    - {max_pool: {kernel: 2}}
    - flatten
    - {dropout: {rate: 0.3}}
    - {linear: {features: 33}}
    - gelu
    - {linear: {features: 7}}
optimizer: {type: sgd, learning_rate: 0.05, momentum: 0.9, weight_decay: 0.001, clip_norm: 2}
)";

RunConfig config_of(const Case& c, const std::string& folder) {
  DeckNode node = parse_deck(deck, "test");
  for (const std::string& change :
       {fmt::format("batch={}", c.batch), fmt::format("precision.compute={}", c.precision),
        fmt::format("parallel={{deterministic: {{shards: {}}}, sync_batch_norm: false}}", c.shards),
        "run={steps: 1000, seed: 3, resume: never, overwrite: true, output_dir: '" + folder + "'}"})
    apply_override(node, change);
  return read_run_config(std::move(node));
}

class Deterministic : public testing::TestWithParam<Case> {};

TEST_P(Deterministic, SameBitsOnAnyNumberOfRanks) {
  const Case& c = GetParam();
  const Communicator world = Communicator::world();
  const test::TemporaryFolder folder;
  std::string expected;
  for (const int ranks : c.ranks) {
    ASSERT_LE(ranks, world.size());
    const bool takes_part = world.rank() < ranks;
    const Communicator group = world.split(takes_part ? 0 : 1);
    if (takes_part) {
      TrainingRun run(config_of(c, (folder.path() / std::to_string(ranks)).string()), group);
      for (int step = 0; step < 15; ++step) run.step();
      const auto bytes = test::bytes_of(run.trainer().model().parameters().values());
      const std::string found(bytes.begin(), bytes.end());
      if (expected.empty()) expected = found;
      EXPECT_TRUE(found == expected) << "on " << ranks << " ranks";
    }
    // Ranks that join with the next number of ranks need the expected bits, too.
    world.broadcast(expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Deterministic, testing::ValuesIn(cases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
