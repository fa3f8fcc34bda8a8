// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs in which slow groups of ranks leave out the last steps before a synchronization, against plain loops in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "local_steps.hpp"
#include "run_outcome.hpp"
#include "train/balance/pass_times.hpp"

namespace lockstep {
namespace {

using namespace test::local_steps;

struct PacedCase {
  const char* name;
  const char* more;  ///< keys of parallel.local
  int every;
  int batch = 7, from_step = 0, group = 1;
  bool adam = false;
  bool by_speed = true;  ///< true if slow groups leave out steps, besides steps for which a short batch has no examples
};
void PrintTo(const PacedCase& c, std::ostream* out) { *out << c.name; }

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

/// Averages or resets the optimizers' states, as `keys` say, when groups synchronize.
void sync_states(std::string_view keys, std::vector<AdamReplica>& replicas) {
  const bool averages = keys.find("state: average") != keys.npos;
  if (!averages && keys.find("state: reset") == keys.npos) return;
  AdamReplica mean;
  double all = 0, next = 0;
  for (const AdamReplica& replica : replicas) all += replica.examples;
  mean.v.resize(replicas[0].v.size());
  mean.second = mean.v;
  for (const AdamReplica& replica : replicas) {
    const double weight = averages ? replica.examples / all : 0;
    next += weight * static_cast<double>(replica.steps + 1);
    for (std::size_t i = 0; i < mean.v.size(); ++i) {
      mean.v[i] += weight * replica.v[i];
      mean.second[i] += weight * replica.second[i];
    }
  }
  for (AdamReplica& replica : replicas) {
    replica.v = mean.v;
    replica.second = mean.second;
    replica.steps = averages ? static_cast<std::int64_t>(std::round(next)) - 1 : 0;
  }
}

double loss_of(const Dataset& data, const std::vector<std::int64_t>& batch, const std::vector<double>& x) {
  double loss = 0;
  for (const std::int64_t example : batch) {
    std::vector<float> input(inputs);
    std::int32_t target = 0;
    data.read({&example, 1}, input.data(), &target);
    double sum = 0, of_target = 0;
    for (int k = 0; k < classes; ++k) {
      double output = x[static_cast<std::size_t>(classes * inputs + k)];
      for (int i = 0; i < inputs; ++i)
        output += x[static_cast<std::size_t>(k * inputs + i)] * static_cast<double>(input[static_cast<std::size_t>(i)]);
      sum += std::exp(output);
      if (k == target) of_target = output;
    }
    loss += std::log(sum) - of_target;
  }
  return loss;
}

class PacedSteps : public testing::TestWithParam<PacedCase> {
 protected:
  const PacedCase& c = GetParam();
  const Communicator comm = Communicator::world();

  /// The time of each rank before synchronization `sync`; which ranks are slow changes from one to the next.
  std::vector<double> times(int sync) const {
    std::vector<double> all;
    for (int rank = 0; rank < comm.size(); ++rank) all.push_back(1000.0 * (1 + (rank * rank + sync) % 3));
    if (sync % 2 == 0) all[0] = 1e9;  // even so slow a rank does one step
    return all;
  }
  /// Number of steps that each group does.
  std::vector<int> steps_by(const std::vector<double>& times) const {
    std::vector<double> of_groups;
    for (std::size_t rank = 0; rank < times.size(); rank += static_cast<std::size_t>(c.group))
      of_groups.push_back(*std::max_element(times.begin() + static_cast<std::ptrdiff_t>(rank),
                                            times.begin() + static_cast<std::ptrdiff_t>(rank) + c.group));
    std::vector<int> steps;
    for (const double time : of_groups)
      steps.push_back(std::max(1, static_cast<int>(std::floor(c.every * std::ranges::min(of_groups) / time))));
    return steps;
  }
};

TEST_P(PacedSteps, AreThoseOfPlainLoops) {
  if (comm.size() % c.group != 0) GTEST_SKIP() << "no groups of " << c.group;
  constexpr int steps = 23;
  Steps run(
      plain_deck(
          fmt::format("local: {{every: {}, from_step: {}, group: {}, steps_by_speed: {}{}}}", c.every, c.from_step,
                      c.group, c.by_speed, c.more),
          c.batch, steps,
          c.adam ? fmt::format("{{type: adam, learning_rate: {}}}, schedule: {{warmup: 13 steps}}", adam_rate) : ""),
      comm);
  const LearningRateSchedule schedule(run.config.schedule, run_length(run.config, data_size));
  const Dataset& data = run.data();
  std::vector<double> common = numbers_of(run.parameters()), velocity(common.size());
  std::vector<AdamReplica> replicas(static_cast<std::size_t>(comm.size() / c.group),
                                    {{common, std::vector<double>(common.size())}, std::vector<double>(common.size())});
  std::vector<int> of_groups(replicas.size(), c.every);
  GroupBatches next_batches(comm, c.group, c.batch, run.trainer->partition());
  int syncs = 0;
  for (int step = 1; step <= steps; ++step) {
    const StepResult result = run.step();
    ASSERT_TRUE(result.done());
    auto batches = next_batches.next(step <= c.from_step);
    const int alone = step - c.from_step;
    const auto leaves_out = [&](std::size_t group) { return alone > 0 && (alone - 1) % c.every >= of_groups[group]; };
    std::size_t computed = 0;
    for (std::size_t group = 0; group < replicas.size(); ++group)
      computed += leaves_out(group) ? 0 : batches[group].size();
    double examples = 0, loss = 0;
    std::size_t own_examples = 0;
    for (std::size_t group = 0; group < replicas.size(); ++group) {
      if (computed > 0 && leaves_out(group)) batches[group].clear();
      if (alone > 0 || group == 0) {
        examples += static_cast<double>(batches[group].size());
        loss += loss_of(data, batches[group], replicas[group].x);
      }
      if (group == static_cast<std::size_t>(comm.rank() / c.group)) own_examples = batches[group].size();
      if (c.adam) replicas[group].step_by_adam(data, batches[group], adam_rate * schedule.factor(step - 1));
      else replicas[group].step(data, batches[group]);
    }
    EXPECT_EQ(static_cast<double>(result.examples), examples) << "step " << step;
    static_cast<void>(run.trainer->update().take_last());  // as a run does before it writes a row
    const StepMetrics of_step = run.trainer->step_metrics();
    EXPECT_NEAR(of_step.metrics.loss, loss / examples, 1e-12) << "step " << step;
    if (alone > 0) {
      EXPECT_EQ(run.trainer->own_examples() == 0, own_examples == 0);
      EXPECT_EQ(of_step.gradient_norm == 0, own_examples == 0) << of_step.gradient_norm;
    }
    const bool all_sync = alone <= 0 || step == steps || alone % c.every == 0;
    EXPECT_EQ(run.trainer->has_common_parameters(), all_sync);
    if (alone > 0 && all_sync) {
      double all = 0;
      for (const Replica& replica : replicas) all += replica.examples;
      for (std::size_t i = 0; i < common.size(); ++i) {
        double mean = 0;
        for (const Replica& replica : replicas) mean += replica.examples / all * replica.x[i];
        PlainOuter(run.config.parallel.local).step(common[i], velocity[i], common[i] - mean);
        for (Replica& replica : replicas) replica.x[i] = common[i];
      }
      if (c.adam) sync_states(c.more, replicas);
      const std::vector<double> measured = times(++syncs);
      if (replicas.size() > 1 && c.by_speed) of_groups = steps_by(measured);
      EXPECT_EQ(run.trainer->strategy().follow_times(measured), std::ranges::min(of_groups));
    } else if (alone <= 0) {
      common = replicas[0].x;
    }
    if (all_sync)
      for (Replica& replica : replicas) replica.examples = 0;
    const auto& expected = replicas[static_cast<std::size_t>(comm.rank() / c.group)].x;
    EXPECT_LT(test::largest_difference(numbers_of(run.parameters()), expected), 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PacedSteps,
                         testing::Values(PacedCase{"average", "", 4}, PacedCase{"nesterov", ", outer: nesterov", 5, 9},
                                         PacedCase{"later", "", 6, 7, 4}, PacedCase{"fewer_than_ranks", "", 4, 3, 2},
                                         PacedCase{"pairs", ", outer: nesterov", 4, 7, 3, 2},
                                         PacedCase{"adam", ", outer: nesterov", 5, 9, 0, 1, true},
                                         PacedCase{"adam_fewer_than_ranks", "", 4, 3, 2, 1, true},
                                         PacedCase{"adam_averaged", ", state: average", 4, 7, 3, 2, true},
                                         PacedCase{"adam_anew", ", state: reset", 5, 7, 2, 1, true},
                                         PacedCase{"adam_of_short_batches", "", 5, 4, 2, 1, true, false}),
                         [](const auto& info) { return info.param.name; });

TEST(PacedRun, LeavesTheSameBitsWhenSynchronized) {
  const std::pair<const char*, const char*> runs[] = {
      {"{every: 5, steps_by_speed: true, outer: nesterov}", "rmsprop"},
      {"{every: 4, steps_by_speed: true, group: node, state: average, from_step: 2}", "lamb"},
      {"{every: 4, steps_by_speed: true, outer: elastic}", "adafactor"}};
  for (const auto& [local, optimizer] : runs) {
    const test::RunOutcome left = test::train_to_the_end(fmt::format(
        "{{run: {{steps: 13, log_every: 5, evaluate_every: 5 steps}}, batch: {{global: 13, micro: 2}}, parallel: {{audit_every: 1, local: {}}},"
        " data: {{synthetic: {{kind: random, shape: [6, 5, 2], classes: 7, train: 61, validation: 11}}}}, optimizer: {{type: {}}},"
        " model: {{layers: [{{conv2d: {{filters: 4, kernel: 3}}}}, batch_norm, relu, flatten, {{linear: {{features: 7}}}}]}}}}",
        local, optimizer));
    EXPECT_EQ(left.failure, "");
    EXPECT_EQ(left.steps, 13);
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
  if (comm.rank() == comm.size() - 1) times.forget();
  EXPECT_TRUE(times.medians(comm).empty()) << "a rank has none";
}

}  // namespace
}  // namespace lockstep
