// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Backup ranks: a step waits for all ranks but these.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>

#include "mpi/free_runs.hpp"

namespace lockstep::test {
namespace {

class Backup : public OnRanks {
 protected:
  /// The loss, the accuracy and the gradient's norm of each training row of the metrics; empty except on rank 0.
  std::vector<double> rows_of(const std::string& run) const {
    std::vector<double> numbers;
    if (!world_.is_root()) return numbers;
    std::ifstream file(folder_.path() / run / "metrics.csv");
    std::string line, cell;
    std::getline(file, line);
    std::vector<std::string> names;
    for (std::istringstream text(line); std::getline(text, cell, ',');) names.push_back(cell);
    while (std::getline(file, line)) {
      if (line.find(",train,") == std::string::npos) continue;
      std::istringstream text(line);
      for (const std::string& name : names) {
        std::getline(text, cell, ',');
        if (name == "loss" || name == "accuracy" || name == "grad_norm") numbers.push_back(std::stod(cell));
      }
    }
    return numbers;
  }
};

/// Whichever ranks come first, the sum is that of the parts of the batch in their order.
TEST_F(Backup, DuplicatesLeaveTheBitsOfTheRanksThatAreWaitedFor) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  for (int backups = 1; backups < world_.size(); ++backups)
    for (const auto& [optimizer, precision, log_every, servers] :
         {std::tuple(sgd, "fp32", 1, 0), {sgd, "fp64", 6, 1}, {"{type: adamw}", "bf16", 1, 0}}) {
      const int parts = world_.size() - servers - backups;
      if (parts < 1) continue;
      const std::string name = fmt::format("{}_{}", backups, precision),
                        backed = deck_with(fmt::format("servers: {}, backup: {}", servers, backups), optimizer,
                                           precision, log_every);
      const Arrays expected = train_deck(
          "alone_" + name, 1,
          deck_with(fmt::format("deterministic: {{shards: {}}}", parts), optimizer, precision, log_every));
      EXPECT_TRUE(train_deck("backed_" + name, world_.size(), backed) == expected)
          << backups << " of " << world_.size();
      if (world_.is_root()) {
        EXPECT_EQ(counts_.by_staleness, (std::vector<std::int64_t>{steps * parts}));
        const int twice = std::min(backups, parts);  // parts that are computed twice after each synchronization
        EXPECT_GE(counts_.discarded_examples, (log_every == 1 ? steps : 1) * twice * (12 / parts));
      }
      if (log_every == 1) {
        EXPECT_LE(largest_difference(rows_of("backed_" + name), rows_of("alone_" + name)), 1e-12)
            << "losses are those of what counts, each once";
      }
      EXPECT_TRUE(train_deck("again_" + name, world_.size(), backed, file("backed_" + name, 7)) == expected);
    }
}

/// A record says which parts have counted.
TEST_F(Backup, WhatIsDroppedIsReplayedBitForBit) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const int ranks = world_.size(), counted = ranks - 1;
  if (ranks == 1) GTEST_SKIP() << "of more ranks";
  for (const int log_every : {1, 6}) {
    const std::string record = folder_.path() / fmt::format("record_{}", log_every),
                      name = fmt::format("every_{}", log_every);
    const auto with = [&](const std::string& parallel) { return deck_with(parallel, sgd, "fp32", log_every); };
    const std::string drop = with(fmt::format("backup: {{ranks: 1, mode: drop, record: '{}'}}", record));
    const Arrays expected = train_deck("dropped_" + name, ranks, drop);
    if (world_.is_root()) {
      EXPECT_EQ(counts_.by_staleness, (std::vector<std::int64_t>{steps * counted}));
      // After each synchronization all ranks begin a part, and one part is discarded.
      if (log_every == 1) EXPECT_EQ(counts_.discarded_examples, steps * 12 / ranks);
      else EXPECT_GE(counts_.discarded_examples, 12 / ranks);
    }
    const std::string simulated = with(
        fmt::format("asynchronous: {{collect: {}, schedule: {{replay: '{}'}}}}", counted, record));
    EXPECT_TRUE(without_workers(train_deck("simulated_" + name, 1, simulated)) == expected);
    if (log_every == 1) {
      EXPECT_LE(largest_difference(rows_of("dropped_" + name), rows_of("simulated_" + name)), 1e-12)
          << "losses are those of what counts";
    }
    const Arrays gone_on = train_deck("again_" + name, ranks, drop, file("dropped_" + name, 14));
    EXPECT_TRUE(without_workers(train_deck("replayed_" + name, 1, simulated)) == gone_on)
        << "the record goes on with the run";
  }
}

TEST(BackupDecks, ThatItIsNotDefinedForAreRefused) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const int ranks = Communicator::world().size();
  const auto backed = [&](const std::string& also = "", const char* optimizer = sgd) {
    return deck_with("backup: {ranks: 1, mode: drop}" + also, optimizer);
  };
  const auto changed_backup = [&](const std::string& from, const std::string& to) {
    std::string text = backed();
    return text.replace(text.find(from), from.size(), to);
  };
  expect_refused(deck_with(fmt::format("backup: {}", ranks), sgd),
                 fmt::format("parallel.backup.ranks: {} of {} ranks that compute leave none for a step", ranks, ranks));
  expect_refused(deck_with(fmt::format("servers: {}, asynchronous: {{schedule: {{free: true}}}}", ranks), sgd),
                 fmt::format("parallel.servers: {} of {} ranks leave none to compute", ranks, ranks));
  expect_refused(deck_with("servers: 1, asynchronous: {groups: 1, schedule: {free: true}}", sgd),
                 "parallel.servers: needs workers of one rank");
  expect_refused(backed(", asynchronous: {schedule: {free: true}}"),
                 "parallel.backup: needs gradients by the newest parameters");
  expect_refused(backed(", shard: optimizer"), "parallel.backup: needs whole parameters");
  expect_refused(deck_with("backup: {ranks: 1, record: a}", sgd),
                 "parallel.backup.record: has no effect with mode: duplicate");
  expect_refused(backed(", local: 4"), "parallel.backup: needs the same parameters on all ranks");
  expect_refused(backed(", virtual_replicas: 2"), "parallel.virtual_replicas: needs one share of each batch");
  expect_refused(backed("", "{type: sgd, clip_norm: 1}"), "optimizer.clip_norm: needs the norm of the whole gradient");
  if (ranks == 1) return;
  expect_refused(changed_backup("relu", "batch_norm"), "parallel.backup: lets each rank read");
  expect_refused(
      changed_backup("global: 12", "global: 13"),
      fmt::format("batch.global: 13 examples cannot be divided into {} equal parts (parallel.backup)", ranks));
}

}  // namespace
}  // namespace lockstep::test
