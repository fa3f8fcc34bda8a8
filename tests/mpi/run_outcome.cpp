// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mpi/run_outcome.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep::test {

RunOutcome train_to_the_end(const std::string& deck) {
  const Communicator comm = Communicator::world();
  const TemporaryFolder folder;
  enable_log(false);
  const std::string output = (folder.path() / "run").string();
  TrainingRun run(read_run_config(deck, output), comm);
  RunOutcome left;
  try {
    run.run();
  } catch (const DivergedError& error) {
    left.failure = error.what();
  }
  enable_log(true);
  Trainer& trainer = run.trainer();
  left.steps = trainer.steps();
  left.applied = trainer.update().count().applied();
  left.parameters = bytes_of(trainer.model().parameters().values());
  for (const auto& state : trainer.optimizer().states()) {
    const std::vector<std::uint8_t> bytes = bytes_of(state.values);
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

void expect_the_same(const RunOutcome& some, const RunOutcome& all) {
  EXPECT_EQ(some.failure, all.failure);
  EXPECT_EQ(some.steps, all.steps);
  EXPECT_EQ(some.applied, all.applied);
  EXPECT_EQ(some.parameters, all.parameters);
  EXPECT_EQ(some.states, all.states);
  for (const auto& [step, row] : some.rows) {
    ASSERT_TRUE(all.rows.contains(step)) << step;
    EXPECT_EQ(row, all.rows.at(step)) << step;
  }
}

}  // namespace lockstep::test
