// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with unequal shares of a batch train as ranks with equal shares do.
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/batch_feed.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

constexpr const char* layers =
    "[{conv2d: {filters: 4, kernel: 3, padding: same}}, batch_norm, relu, flatten, {dropout: {rate: 0.3}}, "
    "{linear: {features: 19}}, relu, {linear: {features: 7}}]";

class UnequalShares : public testing::Test {
 protected:
  UnequalShares() { enable_log(false); }
  ~UnequalShares() override { enable_log(true); }

  std::string deck(const std::string& parallel, const std::string& more, int steps) const {
    return fmt::format(
        "{{run: {{steps: {}, seed: 3}}, data: {{synthetic: {{kind: random, shape: [6, 5, 2], classes: 7, train: 251,"
        " validation: 20}}}}, model: {{layers: {}}}, optimizer: {{type: sgd, learning_rate: 0.02, momentum: 0.9,"
        " clip_norm: 2}}, parallel: {{{}}}, {}}}",
        steps, layers, parallel, more);
  }

  /// Calls `work` with a communicator of the first `ranks` ranks, on these. Collective over the world.
  template <class Work>
  void on_ranks(int ranks, const Work& work) {
    const bool takes_part = world_.rank() < ranks;
    const Communicator group = world_.split(takes_part ? 0 : 1);
    if (takes_part) work(group);
    world_.barrier();
  }

  static std::string bits_of(TrainingRun& run) {
    const auto bytes = test::bytes_of(run.trainer().model().parameters().values());
    return {bytes.begin(), bytes.end()};
  }

  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
};

TEST_F(UnequalShares, FollowTheCurveOfAPlainLoop) {
  constexpr int ranks = 4, steps = 24;
  const std::string more = "batch: {global: 97}, precision: {compute: fp64}";
  const test::Curve expected = test::train_serially(
      test::read_run_config(deck("shares: equal", more, 1000), (folder_.path() / "plain").string()), steps);
  on_ranks(ranks, [&](const Communicator& comm) {
    TrainingRun run(test::read_run_config(deck("shares: measured", more, 1000), (folder_.path() / "run").string()),
                    comm);
    for (int step = 0; step < steps; ++step) {
      if (step == 1) run.batches().set_shares({50, 1, 30, 16});
      if (step == 8) run.batches().set_shares({3, 44, 0, 50});
      if (step == 14) run.batches().set_shares({24, 24, 25, 24});
      run.step();
      EXPECT_NEAR(run.trainer().step_metrics().metrics.loss / expected.losses[static_cast<std::size_t>(step)], 1, 1e-12)
          << "step " << step;
    }
    EXPECT_LT(
        test::largest_difference(test::values_of(run.trainer().model().parameters().values()), expected.parameters),
        1e-11);
  });
}

struct NewShares {
  int ranks, step;
  std::vector<std::int64_t> shares;
};

TEST_F(UnequalShares, LeaveADeterministicRunItsBits) {
  constexpr int steps = 16;
  for (const char* more : {"batch: {global: 83, micro: 4}, precision: {compute: bf16}", "batch: {global: 50}",
                           "batch: {global: 9}, precision: {compute: fp16}"}) {
    std::string expected;
    for (const auto& changes :
         std::vector<std::vector<NewShares>>{{{1, steps, {}}},
                                             {{2, 1, {1, 11}}, {2, 7, {7, 5}}},
                                             {{3, 1, {1, 8, 3}}, {3, 2, {5, 1, 6}}, {3, 9, {4, 4, 4}}},
                                             {{6, 1, {1, 2, 4, 1, 3, 1}}, {6, 8, {3, 1, 1, 1, 2, 4}}}}) {
      on_ranks(changes[0].ranks, [&](const Communicator& comm) {
        const std::string parallel = "shares: measured, deterministic: {shards: 12}, sync_batch_norm: false";
        TrainingRun run(test::read_run_config(deck(parallel, more, 1000), (folder_.path() / "run").string()), comm);
        for (int step = 0; step < steps; ++step) {
          for (const NewShares& change : changes)
            if (change.step == step) run.batches().set_shares(change.shares);
          run.step();
        }
        const std::string found = bits_of(run);
        if (expected.empty()) expected = found;
        EXPECT_TRUE(found == expected) << more << ", on " << comm.size() << " ranks";
      });
      world_.broadcast(expected);
    }
  }
}

/// Shares do not change the examples of a batch, so that a checkpoint need not record them.
TEST_F(UnequalShares, GoOnFromACheckpointOnAnyRanks) {
  const auto config = [&](const std::string& name, int steps) {
    RunConfig read = test::read_run_config(
        deck("shares: measured, deterministic: {shards: 12}, sync_batch_norm: false, audit_every: 5",
             "batch: {global: 50}", steps),
        (folder_.path() / name).string());
    read.run.resume = "auto";
    read.run.overwrite = false;
    return read;
  };
  std::string name = folder_.path().string();  // rank 0's folder, for all ranks
  world_.broadcast(name);
  std::string expected;
  on_ranks(1, [&](const Communicator& comm) {
    TrainingRun run(config(name + "/whole", 40), comm);
    EXPECT_EQ(run.run(), ExitStatus::done);
    expected = bits_of(run);
  });
  world_.broadcast(expected);
  int done = 0;
  for (const NewShares& part :
       {NewShares{4, 13, {1, 6, 3, 2}}, NewShares{4, 22, {}}, NewShares{3, 31, {8, 1, 3}}, NewShares{2, 40, {2, 10}}}) {
    on_ranks(part.ranks, [&](const Communicator& comm) {
      TrainingRun run(config(name + "/parts", part.step), comm);
      EXPECT_EQ(run.trainer().steps(), done);
      if (!part.shares.empty()) run.batches().set_shares(part.shares);
      EXPECT_EQ(run.run(), ExitStatus::done);
      EXPECT_EQ(bits_of(run) == expected, part.step == 40);
    });
    done = part.step;
  }
}

TEST(PassTimes, AreMediansOfTheNewestSteps) {
  const Communicator comm = Communicator::world();
  PassTimes times;
  EXPECT_TRUE(times.medians(comm).empty());
  const double own = 1 + comm.rank();
  for (int step = 0; step < 9; ++step) times.add(1e-3);
  for (const double seconds : {0.5, 9.0, 1.0, 0.5, 9.0, 1.0, 0.5, 9.0, 1.0, 0.5, 9.0, 1.0, 0.5, 9.0, 1.0, 1.0})
    times.add(own * seconds);
  const std::vector<double> medians = times.medians(comm);
  ASSERT_EQ(std::ssize(medians), comm.size());
  for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(medians[static_cast<std::size_t>(rank)], 1e12 * (1 + rank));
  if (comm.rank() == comm.size() - 1) times = {};
  EXPECT_TRUE(times.medians(comm).empty()) << "a rank has none";
}

}  // namespace
}  // namespace lockstep
