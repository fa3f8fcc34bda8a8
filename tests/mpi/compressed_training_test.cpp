// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs with parallel.compress have the same bits on all ranks, with any overlap, and from checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/log.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "comm/emulated_network.hpp"
#include "run/experiment/experiment.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/training_run.hpp"
#include "serial_training.hpp"
#include "support/fixtures.hpp"
#include "support/scratch.hpp"
#include "support/whole_checkpoint.hpp"
#include "train/trainer.hpp"

namespace lockstep {
namespace {

using Arrays = std::map<std::string, std::vector<double>>;

class CompressedRuns : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  CompressedRuns() { enable_log(false); }
  ~CompressedRuns() override { enable_log(true); }
  void SetUp() override {
    if (memory_is_separate) GTEST_SKIP() << "gradients are compressed on hosts";
  }

  const Communicator world = Communicator::world();
  const test::TemporaryFolder folder;

  RunConfig config(const std::string& name, const std::string& parallel, int steps) const {
    return test::read_run_config(
        fmt::format(
            "{{run: {{steps: {}, seed: 3}}, batch: {{global: 24, ramp: [[4 steps, 36]]}},"
            " data: {{synthetic: {{kind: random, shape: [64], classes: 7, train: 72}}}},"
            " model: {{layers: [{{linear: {{features: 40}}}}, {{batch_norm: {{}}}}, relu, {{linear: {{features: 40}}}},"
            " tanh, {{linear: {{features: 7}}}}]}}, checkpoint: {{every_steps: 3, keep: 0}},"
            " optimizer: {{type: sgd, momentum: 0.9, learning_rate: 0.05}},"
            " parallel: {{bucket_mb: 0.01, audit_every: 1{}}}}}",
            steps, parallel),
        (folder.path() / name).string());
  }
  std::string file(const std::string& name, int step) const {
    return folder.path() / name / "checkpoints" / checkpoint_name(step);
  }
  /// Trains; returns the arrays of the checkpoint after the last step, on all ranks. Collective.
  Arrays train(const std::string& name, const Communicator& ranks, const std::string& parallel, int steps,
               const std::string& from = "") const {
    RunConfig run_config = config(name, parallel, steps);
    if (!from.empty()) run_config.run.resume = from;
    TrainingRun run(run_config, ranks);
    EXPECT_EQ(run.run(), ExitStatus::done);
    ranks.barrier();
    return arrays_in(file(name, steps));
  }
  static Arrays arrays_in(const std::string& path) {
    Arrays arrays;
    for (const NamedArray& array : test::read_checkpoint(path).arrays) {
      const float* values = reinterpret_cast<const float*>(array.data.get());
      arrays[array.name].assign(values, values + array.shape.count());
    }
    return arrays;
  }
  /// For each parameter, the sum of the errors of all ranks.
  static Arrays errors_in(const Arrays& arrays) {
    const std::string prefix = "/compression/error/";
    Arrays sums;
    for (const auto& [name, values] : arrays) {
      if (!name.starts_with(prefix)) continue;
      std::vector<double>& sum = sums[name.substr(name.find('/', prefix.size()))];
      sum.resize(values.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    return sums;
  }
};

TEST_P(CompressedRuns, GoOnFromCheckpointsAsIfNothingHadHappened) {
  const auto& [method, ranks_per_node] = GetParam();
  if (ranks_per_node >= world.size()) GTEST_SKIP() << "nothing travels in a single node";
  const Communicator ranks = emulate_network(world, {1, 0, ranks_per_node});
  const std::string compress = fmt::format(", compress: {{method: {}}}", method);
  const Arrays whole = train("whole", ranks, compress, 8);
  EXPECT_FALSE(errors_in(whole).empty());
  EXPECT_EQ(train("polling", ranks, compress + ", overlap: poll", 8), whole);
  EXPECT_EQ(train("resumed", ranks, compress, 8, file("whole", 3)), whole);
}

INSTANTIATE_TEST_SUITE_P(Methods, CompressedRuns,
                         testing::Combine(testing::Values("int8", "sign", "topk, keep: 0.05, ramp_steps: 1",
                                                          "powersgd"),
                                          testing::Values(1, 2)),
                         [](const auto& info) {
                           const std::string_view method = std::get<0>(info.param);
                           return fmt::format("{}_{}_a_node", method.substr(0, method.find(',')),
                                              std::get<1>(info.param));
                         });

using CompressedRun = CompressedRuns;

/// Another number of ranks shares the remaining errors equally.
TEST_F(CompressedRun, KeepsTheSumOfErrorsOnOtherNumbersOfRanks) {
  const std::string compress = ", compress: {method: topk, keep: 0.05}";
  const Arrays all = train("all", emulate_network(world, {1, 0, 1}), compress, 6);
  const Arrays left = errors_in(all);
  for (int size = 2; size <= world.size(); ++size) {
    const bool takes_part = world.rank() < size;
    const Communicator some = emulate_network(world, {1, 0, 1}).split(takes_part ? 0 : 1);
    if (!takes_part) continue;
    const RunConfig run = config("some", compress, 8);
    Experiment experiment = open_experiment(run);
    const auto trainer = make_trainer(run, std::move(experiment.graph), std::move(experiment.loss),
                                      *experiment.data.train, some);
    CheckpointTransfer stream(some, trainer->strategy().sharded_states());
    if (some.is_root()) {
      const CheckpointTransfer::Turn turn(stream);
      CheckpointReader numbers(file("all", 6));
      restore_numbers(stream, numbers);
    } else {
      stream.serve();
    }
    Arrays sums;
    for (const ShardedState& numbers : trainer->strategy().sharded_states()) {
      if (!numbers.part) continue;
      const bool is_own = numbers.part->number == some.rank();
      EXPECT_EQ(numbers.part->of, some.size());
      for (const Parameter& parameter : numbers.layout) {
        std::vector<double>& sum = sums["/" + parameter.name];
        sum.resize(static_cast<std::size_t>(parameter.range.count));
        for (std::size_t i = 0; is_own && i < sum.size(); ++i)
          sum[i] = numbers.values.as<const float>()[parameter.range.first + static_cast<std::int64_t>(i)];
      }
    }
    ASSERT_EQ(sums.size(), left.size());
    for (auto& [name, sum] : sums) {
      some.all_reduce_sum(sum);
      EXPECT_LT(test::largest_difference(sum, left.at(name)), 1e-7) << name << " on " << size << " ranks";
    }
  }
}

TEST_F(CompressedRun, IsExactBeforeItsFirstStep) {
  const Communicator ranks = emulate_network(world, {1, 0, 1});
  const Arrays exact = train("exact", ranks, "", 6);
  Arrays begun = train("begun", ranks, ", compress: {method: sign, from_step: 6}", 6);
  for (const auto& [name, values] : exact) EXPECT_LT(test::largest_difference(begun.at(name), values), 1e-5) << name;
  for (const auto& [name, sum] : errors_in(begun)) EXPECT_EQ(std::ranges::count(sum, 0.0), std::ssize(sum)) << name;
  const Arrays later = train("later", ranks, ", compress: {method: sign, from_step: 5}", 6);
  for (const auto& [name, sum] : errors_in(later)) EXPECT_LT(std::ranges::count(sum, 0.0), std::ssize(sum)) << name;
}

/// The errors of such a step are not finite, and must not reach the checkpoint, from which a run would go on with them.
TEST_F(CompressedRun, LeavesNothingOfAStepThatCannotBeDone) {
  const Communicator ranks = emulate_network(world, {1, 0, 1});
  for (const std::string method : {"int8", "sign", "topk"}) {
    const std::string deck = fmt::format(
        "{{data: {{synthetic: {{kind: linear, features: 5, train: 60}}}}, loss: {{type: mse}}, batch: {{global: 12}},"
        " model: {{layers: [{{linear: {{features: 3}}}}, {{linear: {{features: 1}}}}]}}, run: {{steps: 5}},"
        " optimizer: {{type: sgd, learning_rate: 1.0e+30}}, parallel: {{compress: {{method: {}}}}}}}",
        method);
    TrainingRun run(test::read_run_config(deck, (folder.path() / method).string()), ranks);
    EXPECT_THROW(run.run(), DivergedError);
    ranks.barrier();
    const Arrays left = arrays_in(file(method, static_cast<int>(run.trainer().steps())));
    EXPECT_FALSE(errors_in(left).empty());
    for (const auto& [name, values] : left)
      EXPECT_TRUE(std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) << name;
  }
}

/// Ranks that share memory send nothing, hence compress nothing.
TEST_F(CompressedRun, IsExactInANode) {
  const Arrays exact = train("exact", world, "", 6);
  const Arrays compressed = train("compressed", world, ", compress: {method: sign}", 6);
  if (world.on_this_node().size() < world.size()) GTEST_SKIP() << "several nodes";
  ASSERT_EQ(exact.size(), compressed.size());
  for (const auto& [name, values] : exact)
    EXPECT_LT(test::largest_difference(compressed.at(name), values), 1e-6) << name;
}

}  // namespace
}  // namespace lockstep
