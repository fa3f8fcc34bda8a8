// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/ledger.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch.hpp"

namespace lockstep {
namespace {

TrialRecord record_of(std::int64_t index) {
  return {.id = {1, index},
          .settings = {{"optimizer.learning_rate", "0.1"}},
          .seed = 3,
          .outcome = TrialOutcome::reached,
          .curve = {.reports = {{10, 0.5}, {20, 0.90625}}, .goal_step = 20, .complete = true, .rungs = {0.5}},
          .steps_run = 22,
          .seconds = 1.5,
          .slot = 1};
}

std::filesystem::path trials_of(const test::ScratchFolder& folder) { return folder.path() / "trials"; }

TEST(Ledger, HasWhatWasAppended) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "ledger.jsonl";
  {
    Ledger ledger(file, trials_of(folder), "a: 1\n");
    for (std::int64_t i = 0; i < 3; ++i) ledger.append(record_of(i));
  }
  const std::vector<TrialRecord> records = Ledger(file, trials_of(folder), "a: 1\n").records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].id, (TrialId{1, 2}));
  EXPECT_EQ(records[2].settings, record_of(2).settings);
  EXPECT_EQ(records[2].outcome, TrialOutcome::reached);
  EXPECT_EQ(records[2].curve.goal_step, 20);
  EXPECT_EQ(records[2].curve.reports[1].value, 0.90625);
  EXPECT_EQ(records[2].curve.rungs, std::vector<double>{0.5});
  EXPECT_EQ(records[2].steps_run, 22);
}

TEST(TrialRecord, CountsTheStepsUpToItsEnd) {
  TrialRecord record = record_of(0);
  EXPECT_EQ(record.steps(), 20);  // what was done after that evaluation does not count
  for (const TrialOutcome bad : {TrialOutcome::diverged, TrialOutcome::failed}) {
    record.outcome = bad;
    EXPECT_EQ(record.steps(), 22);
  }
  record.steps_run = 0;  // it failed when it was begun again
  EXPECT_EQ(record.steps(), 20);
  record.curve.reports.clear();
  EXPECT_EQ(record.steps(), 0);
  record = record_of(0);
  record.outcome = TrialOutcome::diverged;
  record.curve.reports.back().value.reset();
  EXPECT_EQ(record.steps(), 20);  // an evaluation has shown it
}

TEST(Ledger, ALineThatWasCutOffIsForgotten) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "ledger.jsonl";
  {
    Ledger(file, trials_of(folder), "a: 1\n").append(record_of(0));
  }
  const auto whole = std::filesystem::file_size(file);
  {
    Ledger(file, trials_of(folder), "a: 1\n").append(record_of(1));
  }
  const auto both = std::filesystem::file_size(file);
  for (const auto bytes : {both - 1, whole + 1, whole + 20}) {
    std::filesystem::resize_file(file, bytes);
    Ledger ledger(file, trials_of(folder), "a: 1\n");
    EXPECT_EQ(ledger.records().size(), 1u) << bytes;
    EXPECT_EQ(std::filesystem::file_size(file), whole);
    ledger.append(record_of(1));
    EXPECT_EQ(std::filesystem::file_size(file), both);
  }
}

TEST(Ledger, ATrialThatIsThereTwiceIsRefused) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "ledger.jsonl";
  {
    Ledger ledger(file, trials_of(folder), "a: 1\n");
    for (const int trial : {0, 1, 0}) ledger.append(record_of(trial));
  }
  test::expect_error(ExitStatus::bad_data, "line 4 is not a line of a study's ledger (its trial has a line before it)",
                     [&] { Ledger(file, trials_of(folder), "a: 1\n"); });
}

TEST(Ledger, OfAnotherStudyIsRefused) {
  const test::ScratchFolder folder;
  const auto file = folder.path() / "ledger.jsonl";
  {
    Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 2\n");
  }
  {
    const Ledger ledger(file, trials_of(folder), "a: 1\nb:\n  c: 3\n");
  }  // no trial has begun yet, so that the study may still change
  std::filesystem::create_directories(trials_of(folder) / "00-0000");
  test::expect_error(ExitStatus::bad_deck, "'c: 3' where this one has 'c: 4'",
                     [&] { Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 4\n"); });
  {
    Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 3\n").append(record_of(0));
  }
  test::expect_error(ExitStatus::bad_deck, "'c: 3' where this one has 'c: 4'",
                     [&] { Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 4\n"); });
  std::filesystem::rename(file, folder.path() / "away");
  test::expect_error(ExitStatus::bad_deck, "trials: has trials, but",
                     [&] { Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 3\n"); });
  std::filesystem::rename(folder.path() / "away", file);
  std::ofstream(file, std::ios::app) << "{\"group\": 0}\n";
  test::expect_error(ExitStatus::bad_data, "line 3", [&] { Ledger(file, trials_of(folder), "a: 1\nb:\n  c: 3\n"); });
}

}  // namespace
}  // namespace lockstep
