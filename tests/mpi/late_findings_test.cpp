// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// On devices the host hears a step later what has become of a step, unless something behind it wants to know. What a
// run leaves must not depend on how often that is. (On hosts there is nothing to find here.)
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

struct Left {
  std::map<std::string, std::string> rows;  ///< by step and split; without what is measured in seconds
  std::string failure;
  std::int64_t steps, applied;
  std::vector<std::uint8_t> parameters, states;
};

Left left_by(const std::string& deck, int log_every) {
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  enable_log(false);
  const std::string output = (folder.path() / "run").string();
  TrainingRun run(test::read_run_config(fmt::format(fmt::runtime(deck), log_every), output), comm);
  Left left;
  try {
    run.run();
  } catch (const DivergedError& error) {
    left.failure = error.what();
  }
  enable_log(true);
  Trainer& trainer = run.trainer();
  left.steps = trainer.steps();
  left.applied = trainer.applied_steps();
  left.parameters = test::bytes_of(trainer.model().parameters().values());
  for (const auto& state : trainer.optimizer().states()) {
    const std::vector<std::uint8_t> bytes = test::bytes_of(state.values);
    left.states.insert(left.states.end(), bytes.begin(), bytes.end());
  }
  if (!comm.is_root()) return left;
  std::ifstream file(std::filesystem::path(output) / "metrics.csv");
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    std::string row;
    for (std::size_t i = 1; i < std::min<std::size_t>(cells.size(), 8); ++i) row += cells[i] + ",";
    left.rows[cells[0] + cells[2]] = row;
  }
  return left;
}

void expect_the_same(const Left& rarely, const Left& often) {
  EXPECT_EQ(rarely.failure, often.failure);
  EXPECT_EQ(rarely.steps, often.steps);
  EXPECT_EQ(rarely.applied, often.applied);
  EXPECT_EQ(rarely.parameters, often.parameters);
  EXPECT_EQ(rarely.states, often.states);
  for (const auto& [step, row] : rarely.rows) {
    ASSERT_TRUE(often.rows.contains(step)) << step;
    EXPECT_EQ(row, often.rows.at(step)) << step;
  }
}

constexpr const char* overflowing =
    "{{data: {{synthetic: {{kind: random, shape: [6, 6, 3], classes: 5, train: 96, validation: 20}}}},"
    " model: {{layers: [{{conv2d: {{filters: 4, kernel: 3}}}}, batch_norm, relu, flatten, {{linear: {{features: 5}}}}]}},"
    " optimizer: {{type: adamw, learning_rate: 0.01, clip_norm: 1, ema_decay: 0.9}},"
    " schedule: {{type: cosine, warmup: 5 steps}}, batch: {{global: 12, micro: 5}},"
    " precision: {{compute: fp16, loss_scale: {{initial: 1.0e+8, interval: 4}}}},"
    " run: {{steps: 40, log_every: {}, evaluate_every: 2}}}}";

TEST(LateFindings, OverflowsAreLeftOutAllTheSame) {
  const Left often = left_by(overflowing, 1), rarely = left_by(overflowing, 7);
  EXPECT_LT(often.applied, often.steps - 3) << "none overflows";
  EXPECT_EQ(often.steps, 40);
  expect_the_same(rarely, often);
}

constexpr const char* diverging =
    "{{data: {{synthetic: {{kind: linear, features: 5, train: 60, validation: 10}}}},"
    " model: {{layers: [{{linear: {{features: 3}}}}, {{linear: {{features: 1}}}}]}}, loss: {{type: mse}},"
    " optimizer: {{type: sgd, learning_rate: 30.0, momentum: 0.5}}, batch: {{global: 10}},"
    " run: {{steps: 200, log_every: {}, evaluate_every: 0}}}}";

TEST(LateFindings, ARunThatCannotGoOnEndsInTheSameState) {
  const Left often = left_by(diverging, 1), rarely = left_by(diverging, 1000);
  EXPECT_NE(often.failure.find("not finite"), std::string::npos) << often.failure;
  expect_the_same(rarely, often);
}

}  // namespace
}  // namespace lockstep
