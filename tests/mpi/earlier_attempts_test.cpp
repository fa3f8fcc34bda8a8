// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run that is begun again in the same processes goes on from the checkpoint of the attempt before, whatever
// run.resume says, even if rank 0 was lost. Here no rank is lost, but rank 0 forgets the attempt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/surviving_run.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

/// Ends an attempt at the evaluation after step 4, as a lost rank would.
class RankIsLost final : public RunOwner {
 public:
  std::string stop_reason() override { return ""; }
  bool ends_after(std::int64_t, const Metrics&) override { throw SharedError(ExitStatus::rank_lost, "lost"); }
};

class EarlierAttemptsTest : public testing::Test {
 protected:
  EarlierAttemptsTest() { enable_log(false); }
  ~EarlierAttemptsTest() override { enable_log(true); }

  RunConfig config(const std::string& name, int steps, const std::string& checkpoint) const {
    return test::read_run_config(
        fmt::format("{{run: {{steps: {}, evaluate_every: 4 steps}}, batch: {{global: 12}},"
                    " data: {{synthetic: {{kind: random, shape: [6], classes: 3, train: 36, validation: 7}}}},"
                    " model: {{layers: [{{linear: {{features: 3}}}}]}}, checkpoint: {{{}}}}}",
                    steps, checkpoint),
        (folder_.path() / name).string());
  }

  /// Loses an attempt; returns the step from which another one goes on.
  std::int64_t after_a_lost_attempt(const RunConfig& config) const {
    EarlierAttempts earlier;
    {
      RankIsLost owner;
      TrainingRun run(config, comm_, &owner, &earlier);
      EXPECT_THROW(run.run(), SharedError);
    }
    if (comm_.size() > 1) {
      if (comm_.is_root()) earlier.has_begun = false;
      earlier.has_begun = comm_.any_rank(earlier.has_begun);
    }
    TrainingRun again(config, comm_, nullptr, &earlier);
    const std::int64_t step = again.trainer().steps();
    again.run();
    return step;
  }

  const Communicator comm_ = Communicator::world();
  const test::TemporaryFolder folder_;
};

TEST_F(EarlierAttemptsTest, TheNextOneGoesOnDespiteOverwrite) {
  RunConfig deck = config("run", 6, "every_steps: 2");
  deck.run.resume = "never";
  EXPECT_EQ(after_a_lost_attempt(deck), 2);
  deck.run.overwrite = true;
  EXPECT_EQ(after_a_lost_attempt(deck), 2);
}

}  // namespace
}  // namespace lockstep
