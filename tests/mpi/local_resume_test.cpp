// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs with parallel.local go on from their checkpoints: on as many ranks to the same bits, on another number of ranks
// from averages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/serial_training.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

using Arrays = std::map<std::string, std::vector<double>>;

class LocalResume : public testing::TestWithParam<const char*> {
 protected:
  LocalResume() { enable_log(false); }
  ~LocalResume() override { enable_log(true); }

  std::string file(const std::string& run, int step) const {
    return folder_.path() / run / "checkpoints" / checkpoint_name(step);
  }

  /// Trains on the first `ranks` ranks, from the checkpoint `from` if given. If `short_batches`, the last rank of the
  /// world has no examples. Collective over the world.
  void train(const std::string& name, int ranks, const std::string& parallel, int steps, const std::string& from,
             bool short_batches = false) {
    const bool takes_part = world_.rank() < ranks;
    const Communicator group = world_.split(takes_part ? 0 : 1);
    if (takes_part) {
      RunConfig config = test::read_run_config(
          fmt::format(
              "{{run: {{steps: {}, seed: 3}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
              " data: {{synthetic: {{kind: random, shape: [40], classes: 7, train: 72}}}},"
              " model: {{layers: [{{linear: {{features: 60}}, name: first}}, {}relu, {{linear: {{features: 7}}}}]}},"
              " checkpoint: {{every_steps: 7, keep: 0}}, optimizer: {{type: adamw, learning_rate: 0.01}},"
              " parallel: {{audit_every: 3, sync_batch_norm: false{}}}}}",
              steps, short_batches ? std::max(1, world_.size() - 1) : 13, short_batches ? "" : "batch_norm, ",
              parallel),
          (folder_.path() / name).string());
      if (!from.empty()) config.run.resume = from;
      TrainingRun run(config, group);
      EXPECT_EQ(run.run(), ExitStatus::done);
    }
    world_.barrier();
  }

  Arrays arrays_in(const std::string& file) const {
    Arrays arrays;
    if (!world_.is_root()) return arrays;
    for (const NamedArray& array : test::read_checkpoint(file).arrays) {
      std::vector<double>& values = arrays[array.name];
      values.resize(static_cast<std::size_t>(array.shape.count()));
      std::memcpy(values.data(), array.data.get(), array.bytes());
    }
    return arrays;
  }

  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
};

TEST_P(LocalResume, OnAsManyRanksIsToTheSameBits) {
  const std::string local = fmt::format(", local: {{every: 4, {}}}", GetParam());
  train("whole", world_.size(), local, 18, "");
  // Checkpoints are due after 7 and 14 steps, and written at the synchronizations after 8 and 16.
  const Arrays in_the_middle = arrays_in(file("whole", 8)), at_the_end = arrays_in(file("whole", 18));
  train("second", world_.size(), local, 18, file("whole", 8));
  if (!world_.is_root()) return;
  EXPECT_EQ(arrays_in(file("second", 18)), at_the_end);
  EXPECT_NE(in_the_middle, at_the_end);
  const bool has_replicas = world_.size() > 1;
  EXPECT_EQ(at_the_end.contains("/replicas/0/exp_avg/first/weight"), has_replicas);
  EXPECT_EQ(at_the_end.contains("/optimizer/exp_avg/first/weight"), !has_replicas);
}

INSTANTIATE_TEST_SUITE_P(Ways, LocalResume,
                         testing::Values("outer: average", "outer: nesterov", "outer: adasum",
                                         "outer: nesterov, node_every: 2", "outer: nesterov, fragments: 2, delay: 1"),
                         [](const auto& info) { return fmt::format("way_{}", info.index); });

using DividedResume = LocalResume;
/// Runs of groups whose ranks divide the parameters; a run of whole ones goes on from their checkpoints, too.
TEST_P(DividedResume, IsToTheSameBits) {
  if (world_.size() % 2 != 0) GTEST_SKIP() << "no pairs of ranks";
  const std::string pairs = ", local: {every: 4, group: 2, outer: nesterov}";
  train("whole", world_.size(), pairs + ", shard: parameters", 18, "");
  train("second", world_.size(), pairs + ", shard: parameters", 18, file("whole", 8));
  train("undivided", world_.size(), pairs, 18, file("whole", 8));
  if (!world_.is_root()) return;
  EXPECT_EQ(arrays_in(file("second", 18)), arrays_in(file("whole", 18)));
  if (world_.size() <= 4) EXPECT_EQ(arrays_in(file("undivided", 18)), arrays_in(file("whole", 18)));
}
INSTANTIATE_TEST_SUITE_P(Once, DividedResume, testing::Values(""));

using LocalResharding = LocalResume;
TEST_P(LocalResharding, GoesOnFromAverages) {
  if (world_.size() < 2) GTEST_SKIP() << "one rank";
  const std::string local = ", local: {every: 4}";
  train("all", world_.size(), local, 8, "");
  train("all_as_one", 1, "", 8, file("all", 8));
  train("all_as_two", 2, local, 8, file("all", 8));
  train("one_as_all", world_.size(), local, 8, file("all_as_one", 8));
  if (!world_.is_root()) return;
  const Arrays all = arrays_in(file("all", 8)), one = arrays_in(file("all_as_one", 8)),
               two = arrays_in(file("all_as_two", 8)), again = arrays_in(file("one_as_all", 8));
  for (const auto& [name, values] : one) {
    if (name.starts_with("/model/")) {
      for (const Arrays* others : {&all, &two, &again}) EXPECT_EQ(others->at(name), values) << name;
      continue;
    }
    const std::string rest = name.substr(std::string("/optimizer/").size());
    std::vector<double> mean(values.size());
    for (int replica = 0; replica < world_.size(); ++replica) {
      const std::vector<double>& own = all.at(fmt::format("/replicas/{}/{}", replica, rest));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / world_.size();
      EXPECT_EQ(again.at(fmt::format("/replicas/{}/{}", replica, rest)), values);
    }
    EXPECT_LT(test::largest_difference(values, mean), 1e-15) << name;
    if (world_.size() != 2) EXPECT_EQ(two.at("/replicas/1/" + rest), values);
  }
  EXPECT_EQ(one.size(), 8u + 2 * 6u) << "parameters and statistics, and two states of what is trained";
}
/// The last layer is in the first fragment, which has been synchronized two steps before the others.
TEST_P(LocalResharding, OfStreamedParametersGoesOnFromTheirAverage) {
  if (world_.size() < 2) GTEST_SKIP() << "one rank";
  const std::string local = ", local: {every: 4, fragments: 2, delay: 1}";
  train("all", world_.size(), local, 12, "");
  train("all_as_one", 1, local, 8, file("all", 8));
  if (!world_.is_root()) return;
  const Arrays all = arrays_in(file("all", 8)), one = arrays_in(file("all_as_one", 8));
  const std::vector<double>& common = all.at("/model/linear_2/weight");
  EXPECT_EQ(one.at("/model/linear_2/weight"), common);
  std::vector<double> mean(common.size());
  for (int replica = 0; replica < world_.size(); ++replica) {
    const std::vector<double>& own = all.at(fmt::format("/replicas/{}/parameters/linear_2/weight", replica));
    EXPECT_GT(test::largest_difference(own, common), 1e-6);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / world_.size();
  }
  EXPECT_LT(test::largest_difference(one.at("/replicas/0/parameters/linear_2/weight"), mean), 1e-15);
}
TEST_P(LocalResharding, ReplicasAreThereBeforeGroupsPart) {
  const std::string sooner = ", local: {every: 2, fragments: 2}",
                    later = ", local: {every: 2, fragments: 2, from_step: 9}";
  train("later", world_.size(), later, 7, "");
  train("sooner", world_.size(), sooner, 7, file("later", 7));
  if (!world_.is_root()) return;
  const Arrays at_first = arrays_in(file("later", 7)), at_last = arrays_in(file("sooner", 7));
  for (int replica = 0; replica < world_.size(); ++replica)
    for (const char* name : {"first/weight", "batch_norm_1/running_mean"})
      for (const Arrays* arrays : {&at_first, &at_last})
        EXPECT_EQ(arrays->at(fmt::format("/replicas/{}/parameters/{}", replica, name)),
                  at_first.at(fmt::format("/model/{}", name)));
}
/// If the audit (audit_every) found replicas that differ, the run would end in an error, without its checkpoint.
TEST_P(LocalResharding, StepsTogetherKeepParametersCommon) {
  train("alone", world_.size(), ", local: {every: 4}", 8, "");
  train("together", world_.size(), ", local: {every: 4, from_step: 20}", 12, file("alone", 8));
  if (world_.is_root()) EXPECT_TRUE(std::filesystem::exists(file("together", 12)));
}
INSTANTIATE_TEST_SUITE_P(Once, LocalResharding, testing::Values(""));

using OwnStepsOfGroups = LocalResume;
TEST_P(OwnStepsOfGroups, GoOnToTheSameBits) {
  train("whole", world_.size(), GetParam(), 18, "", true);
  const Arrays at_the_end = arrays_in(file("whole", 18));
  train("second", world_.size(), GetParam(), 18, file("whole", 8), true);
  if (!world_.is_root()) return;
  EXPECT_EQ(arrays_in(file("second", 18)), at_the_end);
  if (world_.size() < 2) return;
  const auto next = [&](int group) { return at_the_end.at(fmt::format("/replicas/{}/next_step/number", group))[0]; };
  EXPECT_EQ(next(0), 19);
  EXPECT_EQ(next(world_.size() - 1), 1) << "none";
}
TEST_P(OwnStepsOfGroups, GoOnWithOtherGroupsFromTheirMean) {
  train("all", world_.size(), GetParam(), 8, "", true);
  train("one", 1, GetParam(), 8, file("all", 8), true);
  train("again", world_.size(), GetParam(), 8, file("one", 8), true);
  if (!world_.is_root()) return;
  double mean = 0, count = 0;
  for (const auto& [name, values] : arrays_in(file("all", 8)))
    if (name.ends_with("/next_step/number")) {
      mean += values[0];
      ++count;
    }
  mean = std::round(mean / count);
  EXPECT_EQ(count, world_.size());
  EXPECT_EQ(arrays_in(file("one", 8)).at("/optimizer/next_step/number")[0], mean);
  const bool has_replicas = world_.size() > 1;
  EXPECT_EQ(
      arrays_in(file("again", 8)).at(has_replicas ? "/replicas/0/next_step/number" : "/optimizer/next_step/number")[0],
      mean);
}
TEST_P(OwnStepsOfGroups, AreNothingThatRanksTogetherCanGoOnWith) {
  train("own", world_.size(), GetParam(), 8, "", true);
  bool are_the_runs = true;  // true for one rank, which has all examples
  for (const auto& [name, values] : arrays_in(file("own", 8)))
    if (name.ends_with("/next_step/number")) are_the_runs &= values[0] == 8 + 1;
  are_the_runs = world_.every_rank(are_the_runs);
  for (const char* other : {"", ", local: {every: 4, from_step: 9}"}) {
    try {
      train("other", world_.size(), other, 12, file("own", 8), true);
      EXPECT_TRUE(are_the_runs) << "not refused";
    } catch (const Error& error) {
      EXPECT_FALSE(are_the_runs);
      EXPECT_EQ(error.status(), ExitStatus::bad_deck);
      EXPECT_NE(std::string(error.what()).find("groups of ranks counted their own steps"), std::string::npos)
          << error.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Once, OwnStepsOfGroups, testing::Values(", local: {every: 4}"));

}  // namespace
}  // namespace lockstep
