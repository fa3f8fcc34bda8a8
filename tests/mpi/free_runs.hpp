// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

// Shared by tests of runs whose ranks do not wait for each other.
namespace lockstep::test {

inline constexpr int steps = 18;

/// A deck with dropout, whose number of parameters is no multiple of the ranks.
inline std::string deck_with(const std::string& parallel, const std::string& optimizer, const char* precision = "fp32",
                             int log_every = 6) {
  return fmt::format(
      "{{precision: {{compute: {}}}, run: {{steps: {}, seed: 3, log_every: {}, evaluate_every: 9 steps}}, batch: {{global: 12, micro: 2}},"
      " data: {{drop_last: true, synthetic: {{kind: random, shape: [40], classes: 7, train: 70, validation: 9}}}},"
      " model: {{layers: [{{linear: {{features: 61}}, name: first}}, relu, {{dropout: {{rate: 0.2}}}},"
      " {{linear: {{features: 7}}}}]}},"
      " checkpoint: {{every_steps: 7, keep: 0}}, optimizer: {}, parallel: {{{}}}}}",
      precision, steps, log_every, optimizer, parallel);
}

inline constexpr const char* sgd = "{type: sgd, learning_rate: 0.05, momentum: 0.9}";

using Arrays = std::map<std::string, std::vector<std::byte>>;

/// Runs on some of the ranks, and their results.
class OnRanks : public testing::Test {
 protected:
  OnRanks() { enable_log(false); }
  ~OnRanks() override { enable_log(true); }

  /// Trains on the first `ranks` ranks, from the checkpoint `from` if given; returns the arrays of the last checkpoint
  /// on rank 0, none elsewhere. Collective.
  Arrays train_deck(const std::string& name, int ranks, const std::string& deck, const std::string& from = "") {
    const bool takes_part = world_.rank() < ranks;
    const Communicator group = world_.split(takes_part ? 0 : 1);
    if (takes_part) {
      RunConfig config = read_run_config(deck, (folder_.path() / name).string());
      if (!from.empty()) config.run.resume = from;
      TrainingRun run(config, group);
      EXPECT_EQ(run.run(), ExitStatus::done);
      counts_ = run.run_trainer().gradient_counts();
    }
    world_.barrier();
    Arrays arrays;
    if (!world_.is_root()) return arrays;
    for (const NamedArray& array : read_checkpoint(file(name, steps)).arrays)
      arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
    return arrays;
  }
  std::string file(const std::string& run, int step) const {
    return folder_.path() / run / "checkpoints" / checkpoint_name(step);
  }

  const Communicator world_ = Communicator::world();
  const TemporaryFolder folder_;
  GradientCounts counts_;
};

/// `arrays` without those of simulated workers, which free-running ranks do not have.
inline Arrays without_workers(Arrays arrays) {
  std::erase_if(arrays, [](const auto& array) { return array.first.starts_with("/workers"); });
  return arrays;
}

/// Expects the deck to be refused with its place and the reason `why`. Collective.
inline void expect_refused(const std::string& deck, const std::string& why) {
  enable_log(false);
  try {
    const TemporaryFolder folder;
    TrainingRun(read_run_config(deck, (folder.path() / "run").string()), Communicator::world());
    ADD_FAILURE() << "not refused: " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("test:1"), std::string::npos) << error.what();
  }
  enable_log(true);
}

}  // namespace lockstep::test
