// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs with parallel.local, whose groups of ranks step by themselves, against plain loops in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "counting_network.hpp"
#include "local_steps.hpp"
#include "run_outcome.hpp"

namespace lockstep {
namespace {

using namespace test::local_steps;

struct LocalCase {
  const char* name;
  const char* local;
  int batch = 7;
  int group = 1;
  int every = 3, from_step = 0;
};
void PrintTo(const LocalCase& c, std::ostream* out) { *out << c.name; }

class LocalSteps : public testing::TestWithParam<LocalCase> {
 protected:
  const LocalCase& c = GetParam();
  const Communicator comm = Communicator::world();

  /// Adasum of the replicas' changes from `common`, separately for weights and biases, in a tree that begins with pairs
  /// of neighbours.
  static std::vector<double> adasum_of(const std::vector<Replica>& replicas, const std::vector<double>& common) {
    std::vector<std::vector<double>> ways;
    for (const Replica& replica : replicas) {
      ways.push_back(common);
      for (std::size_t i = 0; i < common.size(); ++i) ways.back()[i] -= replica.x[i];
    }
    while (ways.size() > 1) {
      std::vector<std::vector<double>> sums;
      for (std::size_t i = 0; i < ways.size(); i += 2) {
        sums.push_back(ways[i]);
        if (i + 1 == ways.size()) continue;
        add_by_adasum(sums.back(), ways[i + 1], 0, classes * inputs);
        add_by_adasum(sums.back(), ways[i + 1], classes * inputs, common.size());
      }
      ways = sums;
    }
    return ways[0];
  }

  /// Synchronizes the replicas by the rule of `local`. `common`: the parameters after the last synchronization;
  /// `velocity`: of the outer step.
  void sync(std::vector<Replica>& replicas, std::vector<double>& common, std::vector<double>& velocity,
            const LocalConfig& local) const {
    const bool by_adasum = local.outer == LocalConfig::Outer::adasum;
    const PlainOuter outer(local);
    double all = 0;
    for (const Replica& replica : replicas) all += replica.examples;
    const std::vector<double> sum = by_adasum ? adasum_of(replicas, common) : std::vector<double>();
    for (std::size_t i = 0; i < common.size(); ++i) {
      double mean = 0;
      for (const Replica& replica : replicas) mean += replica.examples / all * replica.x[i];
      if (by_adasum) common[i] -= local.learning_rate.value_or(1) * sum[i];
      else outer.step(common[i], velocity[i], common[i] - mean);
      for (Replica& replica : replicas) replica.x[i] = common[i];
    }
    for (Replica& replica : replicas) replica.examples = 0;
  }
};

TEST_P(LocalSteps, AreThoseOfPlainLoops) {
  if (comm.size() % c.group != 0) GTEST_SKIP() << "no groups of " << c.group;
  constexpr int steps = 22;
  Steps run(plain_deck(fmt::format("local: {{{}}}", c.local), c.batch, steps), comm);
  std::vector<double> common = numbers_of(run.parameters()), velocity(common.size());
  const int groups = comm.size() / c.group;
  std::vector<Replica> replicas(static_cast<std::size_t>(groups), {common, std::vector<double>(common.size())});
  GroupBatches next_batches(comm, c.group, c.batch);
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(run.step().done());
    const auto batches = next_batches.next(step <= c.from_step);
    for (std::size_t group = 0; group < replicas.size(); ++group) replicas[group].step(run.data(), batches[group]);
    const bool syncs = step <= c.from_step || step == steps || (step - c.from_step) % c.every == 0;
    EXPECT_EQ(run.run_trainer->has_common_parameters(), syncs);
    if (step <= c.from_step) {
      common = replicas[0].x;
      for (Replica& replica : replicas) replica.examples = 0;
    } else if (syncs) {
      sync(replicas, common, velocity, run.config.parallel.local);
    }
    const auto& expected = syncs ? common : replicas[static_cast<std::size_t>(comm.rank() / c.group)].x;
    EXPECT_LT(test::largest_difference(numbers_of(run.parameters()), expected), 1e-12) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LocalSteps,
    testing::Values(LocalCase{"average", "every: 3"}, LocalCase{"every_step", "every: 1", 7, 1, 1},
                    LocalCase{"fewer_than_ranks", "every: 3", 3},
                    LocalCase{"later", "every: 4, from_step: 5", 7, 1, 4, 5},
                    LocalCase{"nesterov", "every: 3, outer: nesterov"},
                    LocalCase{"nesterov_later", "every: 4, from_step: 5, outer: nesterov", 7, 1, 4, 5},
                    LocalCase{"adasum", "every: 3, outer: adasum"},
                    LocalCase{"adasum_every_step", "every: 1, outer: adasum", 7, 1, 1},
                    LocalCase{"adasum_fewer_than_ranks", "every: 3, outer: adasum, learning_rate: 0.8", 3},
                    LocalCase{"adasum_pairs", "every: 4, from_step: 5, outer: adasum, group: 2", 7, 2, 4, 5},
                    LocalCase{"pairs", "every: 3, group: 2", 7, 2},
                    LocalCase{"pairs_by_nesterov",
                              "every: 3, group: 2, outer: nesterov, learning_rate: 0.8, momentum: 0.6", 5, 2}),
    [](const auto& info) { return info.param.name; });

/// A deck with layers of several kinds in fp64; dropout is drawn by places in the global batch.
std::string deck(const std::string& parallel, const std::string& optimizer, int batch, int steps) {
  return fmt::format(
      "{{run: {{steps: {}}}, batch: {{global: {}, micro: 2}}, precision: {{compute: fp64}},"
      " data: {{synthetic: {{kind: random, shape: [6, 5, 2], classes: 7, train: {}}}}},"
      " model: {{layers: [{{conv2d: {{filters: 4, kernel: 3}}}}, relu, flatten, {{dropout: {{rate: 0.3}}}},"
      " {{linear: {{features: 33}}}}, tanh, {{linear: {{features: 7}}}}]}},"
      " optimizer: {}, parallel: {{{}}}}}",
      steps, batch, data_size, optimizer, parallel);
}

TEST(LocalTraining, OfOneStepWithoutMomentumIsSynchronous) {
  const Communicator comm = Communicator::world();
  for (const int batch : {12, 13, 3}) {
    const std::string sgd = "{type: sgd, learning_rate: 0.1, weight_decay: 0.01}";
    Steps synchronous(deck("", sgd, batch, 12), comm), local(deck("bucket_mb: 0.001, local: 1", sgd, batch, 12), comm);
    for (int step = 0; step < 12; ++step) {
      ASSERT_TRUE(synchronous.step().done());
      ASSERT_TRUE(local.step().done());
      EXPECT_LT(test::largest_difference(local.values(), synchronous.values()), 1e-12) << batch;
    }
    EXPECT_NEAR(local.trainer->step_metrics(comm).metrics.loss, synchronous.trainer->step_metrics().metrics.loss,
                1e-12);
  }
}

/// One group takes the steps of a synchronous run, whose gradients adafactor overwrites in its update.
TEST(LocalTraining, OfOneGroupHasTheNormsOfSynchronousSteps) {
  const Communicator comm = Communicator::world();
  for (const char* const optimizer : {"{type: sgd, momentum: 0.9}", "{type: adafactor, learning_rate: 0.01}"}) {
    Steps synchronous(deck("", optimizer, 12, 12), comm),
        local(deck(fmt::format("local: {{every: 2, group: {}}}", comm.size()), optimizer, 12, 12), comm);
    for (int step = 0; step < 6; ++step) {
      ASSERT_TRUE(synchronous.step().done());
      ASSERT_TRUE(local.step().done());
      const double norm = synchronous.trainer->step_metrics().gradient_norm;
      EXPECT_GT(norm, 0);
      EXPECT_NEAR(local.trainer->step_metrics().gradient_norm, norm, 1e-10 * norm) << optimizer;
    }
  }
}

/// A deck whose layers keep statistics, with groups of two ranks.
std::string deck_of_pairs(const std::string& parallel, const std::string& precision, int micro) {
  return fmt::format(
      "{{run: {{steps: 12}}, batch: {{global: 14, micro: {}}}, precision: {{compute: {}}},"
      " data: {{synthetic: {{kind: random, shape: [6, 5, 2], classes: 7, train: {}}}}},"
      " model: {{layers: [{{conv2d: {{filters: 8, kernel: 3}}}}, batch_norm, relu, flatten, {{dropout: {{rate: 0.3}}}},"
      " {{linear: {{features: 190}}}}, tanh, {{linear: {{features: 7}}}}]}},"
      " optimizer: {{type: adamw, learning_rate: 0.01}}, parallel: {{bucket_mb: 0.001, {}}}}}",
      micro, precision, data_size, parallel);
}

/// Two groups add two numbers, in whatever order. With divided gradients, those of each micro-batch are summed over
/// ranks by themselves, so that bits are those of whole gradients with one micro-batch a step.
TEST(LocalTraining, WithDividedParametersHasTheBitsOfWholeOnes) {
  const Communicator comm = Communicator::world();
  if (comm.size() != 2 && comm.size() != 4) GTEST_SKIP() << "neither one group of two ranks nor two";
  for (const char* const local :
       {"{every: 4, group: 2}", "{every: 3, group: 2, outer: nesterov}", "{every: 6, node_every: 2, group: 2}"})
    for (const char* const precision : {"fp32", "bf16", "fp64"})
      for (const int micro : {2, 14}) {
        const auto train = [&](const std::string& shard) {
          Steps run(deck_of_pairs(fmt::format("local: {}, shard: {}", local, shard), precision, micro), comm);
          for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
          run.run_trainer->settle();
          return test::arrays_of(comm, run.run_trainer->sharded_states());
        };
        const auto whole = train("none");
        EXPECT_EQ(whole.empty(), !comm.is_root());
        EXPECT_EQ(train("optimizer"), whole) << local << " " << precision;
        if (micro == 2) continue;
        for (const char* const shard : {"gradients", "parameters"})
          EXPECT_EQ(train(shard), whole) << shard << " " << local << " " << precision;
      }
}

/// Steps before groups part are those of a synchronous run, statistics included.
TEST(LocalTraining, IsSynchronousBeforeGroupsPart) {
  const Communicator comm = Communicator::world();
  const int group = comm.size() % 2 == 0 ? 2 : 1;
  Steps synchronous(deck_of_pairs("", "fp32", 2), comm),
      local(deck_of_pairs(fmt::format("local: {{every: 2, from_step: 5, group: {}}}", group), "fp32", 2), comm);
  for (int step = 1; step <= 7; ++step) {
    ASSERT_TRUE(synchronous.step().done());
    ASSERT_TRUE(local.step().done());
    if (step <= 5) EXPECT_EQ(local.values(), synchronous.values()) << step;
  }
  if (comm.size() > group) EXPECT_NE(local.values(), synchronous.values());
}

TEST(LocalTraining, OuterStepsWithoutMomentumAreAverages) {
  const Communicator comm = Communicator::world();
  const std::string adamw = "{type: adamw, learning_rate: 0.01}";
  const auto train = [&](const std::string& outer) {
    Steps run(deck("local: {every: 3" + outer + "}", adamw, 13, 12), comm);
    for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
    return run.values();
  };
  const std::vector<double> average = train("");
  EXPECT_EQ(train(", outer: nesterov, learning_rate: 1, momentum: 0"), average);
}

TEST(LocalTraining, SendsWhatSynchronousStepsDoWhenSynchronizingAlone) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(1);
  const Communicator comm = world.over(network);
  const auto bytes = [&](const std::string& parallel) {
    Steps run(deck("all_reduce: ring" + parallel, "{type: sgd, momentum: 0.9}", 12, 100), comm);
    network->take_bytes(world);
    for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
    return network->take_bytes(world);
  };
  const double synchronous = bytes("");
  EXPECT_EQ(synchronous > 0, world.size() > 1);
  EXPECT_EQ(bytes(", local: {every: 6, outer: nesterov}"), synchronous / 6);
  EXPECT_EQ(bytes(", local: {every: 4, from_step: 4}"), synchronous * 6 / 12);
}

/// Adasum sends each tensor up the tree of groups and down again, like a sum. Tensors of up to 1000 bytes do not count.
TEST(LocalTraining, SendsTensorsUpAndDownTheTreeOfAdasum) {
  const Communicator world = Communicator::world();
  const auto network = std::make_shared<test::CountingNetwork>(1);
  const Communicator comm = world.over(network);
  Steps run(deck("local: {every: 6, outer: adasum}", "{type: sgd, momentum: 0.9}", 12, 100), comm);
  double bytes = 0;
  for (const Parameter& parameter : run.parameters().parameters())
    if (parameter.range.count > 125) bytes += 8 * static_cast<double>(parameter.range.count);
  ASSERT_GT(bytes, 0);
  network->take_bytes(world);
  for (int step = 0; step < 12; ++step) EXPECT_TRUE(run.step().done());
  EXPECT_EQ(network->take_bytes(world), 2 * 2 * (world.size() - 1) * bytes);
}

/// The audit compares all that ranks have in common, statistics included, at each synchronization.
TEST(LocalTraining, LeavesTheSameBitsWhenSynchronized) {
  for (const char* local : {"{every: 3, outer: nesterov}", "{every: 2, group: node}", "{every: 3, outer: adasum}",
                            "{every: 3, from_step: 2}"}) {
    const test::RunOutcome left = test::train_to_the_end(fmt::format(
        "{{run: {{steps: 10, log_every: 1}}, batch: {{global: 13}}, parallel: {{audit_every: 1, local: {}}},"
        " data: {{synthetic: {{kind: random, shape: [6, 5, 2], classes: 7, train: 61}}}},"
        " optimizer: {{type: sgd, momentum: 0.9}},"
        " model: {{layers: [{{conv2d: {{filters: 4, kernel: 3}}}}, batch_norm, relu, flatten, {{linear: {{features: 7}}}}]}}}}",
        local));
    EXPECT_EQ(left.failure, "");
    EXPECT_EQ(left.steps, 10);
  }
}

/// Each rank has overflows of its own, and leaves out those steps, which its optimizer does not count; all go on with
/// one loss scale.
class LocalOverflows : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(LocalOverflows, LeaveOutStepsByThemselves) {
  const auto& [local, optimizer] = GetParam();
  const Communicator comm = Communicator::world();
  constexpr int steps = 60;
  Steps run(
      fmt::format(
          "{{run: {{steps: {}}}, batch: {{global: {}}}, optimizer: {},"
          " precision: {{compute: fp16, loss_scale: {{initial: 3.0e+6, interval: 1, growth: 1.3, backoff: 0.75}}}},"
          " data: {{synthetic: {{kind: random, shape: [64], classes: 7, train: {}}}}}, parallel: {{local: {}}},"
          " model: {{layers: [{{linear: {{features: 40}}}}, relu, {{linear: {{features: 7}}}}]}}}}",
          steps, comm.size(), optimizer, data_size, local),
      comm);
  int skipped = 0, done = 0;
  std::int64_t differences = 0;
  for (int step = 1; step <= steps; ++step) {
    StepResult result = run.step();
    if (auto later = run.run_trainer->settle()) result.outcome = std::move(later);
    ASSERT_TRUE(result.done());
    const bool is_skipped = result.outcome->status == StepOutcome::Status::skipped;
    skipped += is_skipped ? 1 : 0;
    done += is_skipped || run.trainer->own_examples() == 0 ? 0 : 1;
    differences += comm.any_rank(is_skipped) && !comm.every_rank(is_skipped) ? 1 : 0;
    if (!run.run_trainer->has_common_parameters()) continue;
    const auto scale = static_cast<std::int64_t>(*run.trainer->update().guard().loss_scale());
    EXPECT_EQ(comm.all_reduce_max(scale), comm.all_reduce_min(scale));
    std::int64_t hash = 0;
    for (const std::uint8_t byte : test::bytes_of(run.parameters().values())) hash = hash * 31 % 1000000007 + byte;
    EXPECT_EQ(comm.all_reduce_max(hash), comm.all_reduce_min(hash));
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, steps);
  if (comm.size() > 1) EXPECT_GT(differences, 0) << "ranks overflow in the same steps";
  if (comm.size() > 1)
    EXPECT_EQ(run.trainer->update().count().applied(), steps) << "the learning rate follows all steps";
  int counts = 0;
  for (const ShardedState& numbers : run.run_trainer->sharded_states())
    if (numbers.state == "next_step" && !numbers.held.empty()) {
      EXPECT_EQ(f64_on_host(ExecSpace(), numbers.values), done + 1);
      ++counts;
    }
  EXPECT_EQ(counts, run.config.optimizer.rule().counts_steps() ? 1 : 0);
}
INSTANTIATE_TEST_SUITE_P(Ways, LocalOverflows,
                         testing::Values(std::pair("5", "{type: sgd, momentum: 0.9, learning_rate: 0.01}"),
                                         std::pair("5", "{type: adam, learning_rate: 0.01}")),
                         [](const auto& info) { return fmt::format("way_{}", info.index); });

/// Evaluations, which read the common parameters, wait for the next synchronization.
TEST(LocalTraining, EvaluatesWhereGroupsSynchronize) {
  const test::RunOutcome left = test::train_to_the_end(
      "{run: {steps: 18, evaluate_every: 3 steps, log_every: 1}, batch: {global: 13}, parallel: {local: 4},"
      " data: {synthetic: {kind: random, shape: [6], classes: 7, train: 61, validation: 11}},"
      " model: {layers: [{linear: {features: 7}}]}}");
  if (!Communicator::world().is_root()) return;
  std::vector<int> evaluated;
  for (int step = 1; step <= 18; ++step)
    if (left.rows.contains(std::to_string(step) + "validation")) evaluated.push_back(step);
  EXPECT_EQ(evaluated, (std::vector<int>{4, 8, 12, 16, 18}));
}

TEST(LocalTraining, IsRefusedWhereItIsNotDefined) {
  const std::pair<const char*, const char*> cases[] = {
      {"parallel: {local: {every: 4, fragments: 2}, shard: optimizer}", "needs whole parameters on every rank"},
      {"parallel: {local: {every: 4, from_step: 2}, shard: gradients}", "needs whole parameters on every rank"},
      {"parallel: {local: {every: 4, outer: adasum}, shard: parameters}", "needs whole parameters on every rank"},
      {"parallel: {local: {every: 4}, deterministic: {shards: 8}}", "parallel.deterministic: needs the same bits"},
      {"parallel: {local: {every: 4}, group_size: 2}", "statistics of batch_norm"},
      {"parallel: {local: {every: 4}, wire: fp16}, precision: {loss_scale: {}}", "vanish in fp16"},
      {"parallel: {local: {every: 0}}", "parallel.local.every"},
      {"parallel: {local: {from_step: 3}}", "every"},
      {"parallel: {local: {every: 4, from_step: -1}}", "parallel.local.from_step"},
      {"parallel: {local: {every: 4, outer: nesterov, momentum: 1}}", "parallel.local.momentum"},
      {"parallel: {local: {every: 4, momentum: 0.5}}", "no effect without outer: nesterov"},
      {"parallel: {local: {every: 4, learning_rate: 0.5}}", "no effect with outer: average"},
      {"parallel: {local: {every: 4, fragments: 3}}", "do not divide the 4 steps"},
      {"parallel: {local: {every: 4, fragments: 0}}", "parallel.local.fragments"},
      {"parallel: {local: {every: 4, fragments: 2, delay: 2}}", "not less than every / fragments (2)"},
      {"parallel: {local: {every: 4, delay: -1}}", "parallel.local.delay"},
      {"parallel: {local: {every: 4, fragments: 2, outer: adasum}}", "to whole tensors"},
      {"parallel: {local: {every: 4, outer: adasum, momentum: 0.5}}", "no effect without outer: nesterov"},
      {"parallel: {local: {every: 4, node_every: 3}}", "3 steps do not divide the 4 of every"},
      {"parallel: {local: {every: 4, node_every: 8}}", "8 steps do not divide the 4 of every"},
      {"parallel: {local: {every: 4, node_every: 0}}", "parallel.local.node_every"},
      {"parallel: {local: {every: 4, node_every: 2, group: node}}", "a node is one group"},
      {"parallel: {local: {every: 4, node_every: 2, fragments: 2}}", "nodes average all parameters"},
      {"parallel: {local: {every: 4, node_every: 2, outer: adasum}}", "use group: node"},
      {"parallel: {local: {every: 4}}, optimizer: {type: sgd, ema_decay: 0.9}", "optimizer.ema_decay"},
      {"parallel: {local: {every: 4}}, loss_watch: {}", "losses of all ranks"},
  };
  for (const auto& [keys, words] : cases) {
    std::string message;
    try {
      read_run_config(parse_deck(
          fmt::format("{{{}, run: {{steps: 3}}, data: {{synthetic: {{kind: random, shape: [6], classes: 7}}}},"
                      " model: {{layers: [flatten]}}}}",
                      keys),
          "deck"));
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(words), message.npos) << keys << ": " << message;
    EXPECT_EQ(message.rfind("deck:1:", 0), 0u) << message;
  }
  const Communicator comm = Communicator::world();
  if (comm.size() % 3 == 0) return;
  try {
    Steps(plain_deck("local: {every: 4, group: 3}", 7, 3), comm);
    ADD_FAILURE() << "groups of 3";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be divided into groups of 3"), std::string::npos) << error.what();
  }
}

/// Ranks of a group of three and of a group of one own different parts.
TEST(LocalTraining, DividesParametersInEqualGroupsAlone) {
  const Communicator world = Communicator::world();
  if (world.size() != 4) GTEST_SKIP() << "no nodes of three ranks and of one";
  const Communicator comm = world.over(std::make_shared<test::CountingNetwork>(3));
  try {
    Steps(plain_deck("shard: optimizer, local: {every: 4, group: node}", 7, 3), comm);
    ADD_FAILURE() << "unequal groups";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("groups have different numbers of ranks"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.status(), ExitStatus::bad_deck);
  }
}

}  // namespace
}  // namespace lockstep
