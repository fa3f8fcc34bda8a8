// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups of ranks for which a short batch has no examples count their own steps: against plain loops in fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "local_steps.hpp"

namespace lockstep {
namespace {

using namespace test::local_steps;

constexpr double adam_rate = 0.03;

/// A replica whose Adam counts its own steps (Kingma & Ba 2015, algorithm 1); the learning rate is the run's.
struct AdamReplica : Replica {
  std::vector<double> second;
  std::int64_t steps = 0;

  void step_by_adam(const Dataset& data, const std::vector<std::int64_t>& batch, double learning_rate) {
    if (batch.empty()) return;
    const std::vector<double> gradient = gradient_of(data, batch, x);
    ++steps;
    for (std::size_t i = 0; i < x.size(); ++i) {
      v[i] = 0.9 * v[i] + 0.1 * gradient[i];
      second[i] = 0.999 * second[i] + 0.001 * gradient[i] * gradient[i];
      x[i] -= learning_rate * v[i] / (1 - std::pow(0.9, steps)) /
              (std::sqrt(second[i] / (1 - std::pow(0.999, steps))) + 1e-8);
    }
    examples += static_cast<double>(batch.size());
  }
};

struct OwnStepsCase {
  const char* name;
  const char* more;  ///< keys of parallel.local
  int every, batch, from_step = 0, group = 1;
};
void PrintTo(const OwnStepsCase& c, std::ostream* out) { *out << c.name; }

class OwnStepsOfAdam : public testing::TestWithParam<OwnStepsCase> {
 protected:
  const OwnStepsCase& c = GetParam();
  const Communicator comm = Communicator::world();
};

TEST_P(OwnStepsOfAdam, AreThoseOfPlainLoops) {
  if (comm.size() % c.group != 0) GTEST_SKIP() << "no groups of " << c.group;
  constexpr int steps = 23;
  Steps run(
      plain_deck(fmt::format("local: {{every: {}, from_step: {}, group: {}{}}}", c.every, c.from_step, c.group, c.more),
                 c.batch, steps,
                 fmt::format("{{type: adam, learning_rate: {}}}, schedule: {{warmup: 13 steps}}", adam_rate)),
      comm);
  const LearningRateSchedule schedule(run.config.schedule, run_length(run.config, data_size));
  std::vector<double> common = numbers_of(run.parameters()), velocity(common.size());
  std::vector<AdamReplica> replicas(static_cast<std::size_t>(comm.size() / c.group),
                                    {{common, std::vector<double>(common.size())}, std::vector<double>(common.size())});
  const auto own_group = static_cast<std::size_t>(comm.rank() / c.group);
  GroupBatches next_batches(comm, c.group, c.batch);
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(run.step().done());
    const auto batches = next_batches.next(step <= c.from_step);
    const int alone = step - c.from_step;
    for (std::size_t group = 0; group < replicas.size(); ++group)
      replicas[group].step_by_adam(run.data(), batches[group], adam_rate * schedule.factor(step - 1));
    if (alone > 0) EXPECT_EQ(run.trainer->step_metrics().gradient_norm == 0, batches[own_group].empty());
    const bool syncs = alone <= 0 || step == steps || alone % c.every == 0;
    EXPECT_EQ(run.run_trainer->has_common_parameters(), syncs);
    if (alone <= 0) common = replicas[0].x;
    if (alone > 0 && syncs) {
      double all = 0;
      for (const Replica& replica : replicas) all += replica.examples;
      for (std::size_t i = 0; i < common.size(); ++i) {
        double mean = 0;
        for (const Replica& replica : replicas) mean += replica.examples / all * replica.x[i];
        PlainOuter(run.config.parallel.local).step(common[i], velocity[i], common[i] - mean);
        for (Replica& replica : replicas) replica.x[i] = common[i];
      }
    }
    if (syncs)
      for (Replica& replica : replicas) replica.examples = 0;
    EXPECT_LT(test::largest_difference(numbers_of(run.parameters()), replicas[own_group].x), 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OwnStepsOfAdam,
                         testing::Values(OwnStepsCase{"all_have_examples", "", 5, 9},
                                         OwnStepsCase{"short_batches", "", 5, 4, 2},
                                         OwnStepsCase{"fewer_than_ranks", ", outer: nesterov", 4, 3, 2},
                                         OwnStepsCase{"pairs", ", outer: nesterov", 4, 7, 3, 2}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
