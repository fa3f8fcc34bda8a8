// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares asynchronous workers, whose gradients are of stale parameters, with plain loops in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/training_arrays.hpp"
#include "mpi/free_runs.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/serial_training.hpp"
#include "mpi/softmax_regression.hpp"
#include "run/experiment/experiment.hpp"
#include "run/training/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

using namespace test::softmax_regression;

constexpr int data_size = 61;
constexpr double rate = 0.3, momentum = 0.9;

/// A deck of softmax regression.
std::string plain_deck(const std::string& asynchronous, int batch, int steps, const std::string& sgd = "") {
  const std::string parallel = asynchronous.empty() ? "" : fmt::format("asynchronous: {{{}}}", asynchronous);
  return fmt::format(
      "{{run: {{steps: {}, seed: 5}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
      " data: {{synthetic: {{kind: random, shape: [{}], classes: {}, train: {}}}}},"
      " model: {{layers: [{{linear: {{features: {}}}, name: fc}}]}},"
      " optimizer: {{type: sgd, {}}}, parallel: {{{}}}}}",
      steps, batch, inputs, classes, data_size, classes,
      sgd.empty() ? fmt::format("learning_rate: {}, momentum: {}", rate, momentum) : sgd, parallel);
}

AsynchronousConfig asynchronous_config(const std::string& asynchronous) {
  return test::read_run_config(plain_deck(asynchronous, 64, 1), "none").parallel.asynchronous;
}

struct Way {
  const char* name;
  const char* keys;  ///< keys of parallel.asynchronous
  int workers, collect;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class AsynchronousSteps : public testing::TestWithParam<Way> {
 protected:
  AsynchronousSteps() { enable_log(false); }
  ~AsynchronousSteps() override { enable_log(true); }
};

TEST_P(AsynchronousSteps, AreThoseOfPlainLoops) {
  const Way& way = GetParam();
  constexpr int steps = 22, batch = 10;
  const Communicator comm = Communicator::world();
  const auto has = [&](const char* word) { return std::string_view(way.keys).find(word) != std::string_view::npos; };
  if (way.collect % comm.size() != 0 || (has("adaptive") && comm.size() > 1)) GTEST_SKIP() << "not on these ranks";
  const std::string keys = fmt::format(
      "{}, collect: {}, schedule: {{simulate: {{ranks: {}, delays: [1, 1.7], spread: 0.3}}}}", way.keys, way.collect,
      way.workers);
  const test::TemporaryFolder folder;
  const RunConfig config = test::read_run_config(plain_deck(keys, batch, steps), (folder.path() / "run").string());
  const Experiment experiment = open_experiment(config);
  const PushOrder order = simulate_pushes(config.parallel.asynchronous, 5, steps);
  TrainingRun run(config, comm);
  std::vector<std::vector<double>> versions{numbers_of(run.trainer().model().parameters())};
  const std::size_t size = versions[0].size();
  std::vector<double> velocity(size);
  std::vector<std::vector<double>> squares(static_cast<std::size_t>(way.workers), std::vector<double>(size));
  Sampler sampler({.dataset_size = data_size, .global_batch = batch, .seed = 5});
  for (int step = 1; step <= steps; ++step) {
    ASSERT_TRUE(run.step().done());
    const BatchPlan plan = *sampler.next();
    const std::vector<double>& now = versions.back();
    std::vector<double> sum(size), next = now;
    for (int place = 0; place < way.collect; ++place) {
      const PushOrder::Push& push = order.of_update(step)[static_cast<std::size_t>(place)];
      const std::vector<double>& read = versions[static_cast<std::size_t>(push.version)];
      const RankShare share = share_of(plan.global_examples, place, way.collect);
      const std::vector<double> g = gradient_of(*experiment.data.train,
                                                std::span(plan.examples).subspan(share.first, share.count), read);
      const double weight = static_cast<double>(share.count) / static_cast<double>(plan.global_examples),
                   staleness = static_cast<double>(step - 1 - push.version);
      for (std::size_t i = 0; i < size; ++i) {
        double each = has("divide") ? g[i] / std::max(1.0, staleness) : g[i];
        double lambda = has("compensate") ? 0.7 : 0;
        if (has("adaptive") && share.count > 0) {  // a worker's part of a small last batch may be empty
          double& m = squares[static_cast<std::size_t>(push.worker)][i];
          m = 0.95 * m + 0.05 * g[i] * g[i];
          lambda = 0.7 / std::sqrt(m + 1e-7);
        }
        each += lambda * g[i] * g[i] * (now[i] - read[i]);
        sum[i] += weight * each;
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      velocity[i] = momentum * velocity[i] + sum[i];
      next[i] -= rate * velocity[i];
    }
    versions.push_back(next);
    EXPECT_LT(test::largest_difference(numbers_of(run.trainer().model().parameters()), next), 1e-12) << "step " << step;
  }
  EXPECT_GT(order.staleness_counts(steps).size(), 2u) << "stale gradients are what this is about";
}

INSTANTIATE_TEST_SUITE_P(
    Ways, AsynchronousSteps,
    testing::Values(Way{"plain", "staleness: none", 5, 1}, Way{"plain_sums", "staleness: none, bound: 1", 6, 4},
                    Way{"divided", "staleness: divide", 5, 1}, Way{"divided_sums", "staleness: divide", 16, 4},
                    Way{"compensated", "staleness: compensate, lambda: 0.7", 5, 1},
                    Way{"compensated_sums", "staleness: compensate, lambda: 0.7", 9, 4},
                    Way{"adaptive", "staleness: compensate, adaptive: true, lambda: 0.7", 5, 1},
                    Way{"adaptive_sums", "staleness: compensate, adaptive: true, lambda: 0.7", 5, 2}),
    [](const auto& info) { return info.param.name; });

/// A deck with layers of several kinds that uses most of what a run can do.
std::string deep_deck(const std::string& parallel,
                      const char* optimizer = "{type: sgd, learning_rate: 0.05, momentum: 0.9}",
                      const char* precision = "fp32") {
  return fmt::format(
      "{{run: {{steps: 18, seed: 3}}, batch: {{global: 13}}, precision: {{compute: {}}},"
      " data: {{synthetic: {{kind: random, shape: [40], classes: 7, train: 72, validation: 9}}}},"
      " model: {{layers: [{{linear: {{features: 60}}, name: first}}, batch_norm, relu, {{dropout: {{rate: 0.2}}}},"
      " {{linear: {{features: 7}}}}]}},"
      " checkpoint: {{every_steps: 7, keep: 0}}, optimizer: {}, parallel: {{sync_batch_norm: false{}}}}}",
      precision, optimizer, parallel);
}
std::string asynchronously(const std::string& keys) { return fmt::format(", asynchronous: {{{}}}", keys); }

TEST(Asynchronous, OneWorkerIsSerialBitForBit) {
  if (Communicator::world().size() > 1) GTEST_SKIP() << "of one rank";
  for (const char* precision : {"fp32", "fp64", "bf16"})
    for (const char* keys :
         {"staleness: none", "staleness: divide", "staleness: compensate, adaptive: true", "bound: 0"})
      test::expect_the_same(
          test::train_to_the_end(deep_deck("", "{type: sgd, learning_rate: 0.05, momentum: 0.9}", precision)),
          test::train_to_the_end(
              deep_deck(asynchronously(fmt::format("{}, schedule: {{simulate: {{ranks: 1}}}}", keys)),
                        "{type: sgd, learning_rate: 0.05, momentum: 0.9}", precision)));
}

TEST(Asynchronous, CompensationOfNoWeightIsNoneBitForBit) {
  constexpr const char* schedule = "collect: 4, schedule: {simulate: {ranks: 6, spread: 0.5}}";
  test::expect_the_same(
      test::train_to_the_end(deep_deck(asynchronously(fmt::format("{}, staleness: none", schedule)))),
      test::train_to_the_end(deep_deck(asynchronously(fmt::format("{}, staleness: compensate, lambda: 0", schedule)))));
}

/// Parameters after training with a run's own arithmetic, without ranks or workers.
std::vector<double> serially(int batch, int steps, double learning_rate) {
  return test::train_serially(
             test::read_run_config(plain_deck("", batch, steps, fmt::format("learning_rate: {}", learning_rate)),
                                   "none"),
             steps)
      .parameters;
}

TEST(Asynchronous, BoundOfZeroIsSynchronous) {
  const Communicator comm = Communicator::world();
  const test::TemporaryFolder folder;
  const auto finally = [&](const std::string& keys, int batch, int steps) {
    const RunConfig config = test::read_run_config(plain_deck(keys, batch, steps, "learning_rate: 0.1"),
                                                   (folder.path() / std::to_string(batch)).string());
    TrainingRun run(config, comm);
    for (int step = 0; step < steps; ++step) run.step();
    return test::values_of(run.trainer().model().parameters().values());
  };
  EXPECT_LT(test::largest_difference(finally("bound: 0, collect: 4, schedule: {simulate: {ranks: 4}}", 12, 9),
                                     serially(12, 9, 0.1)),
            1e-12);
  if (comm.size() > 1) return;
  // Four workers step one after the other with gradients of the same parameters: one step of all, four times as long.
  EXPECT_LT(
      test::largest_difference(finally("bound: 0, schedule: {simulate: {ranks: 4}}", 3, 16), serially(12, 4, 0.4)),
      1e-12);
}

class AsynchronousRuns : public test::OnRanks, public testing::WithParamInterface<const char*> {
 protected:
  test::Arrays train(const std::string& name, int ranks, const std::string& keys, const std::string& from = "") {
    return train_deck(name, ranks, deep_deck(asynchronously(keys)), from);
  }
};

TEST_P(AsynchronousRuns, HaveTheSameBitsOnAnyRanksReplayedAndResumed) {
  const std::string keys = fmt::format("{}, collect: 4, schedule: ", GetParam());
  const std::string record = folder_.path() / "record";
  const test::Arrays expected = train(
      "one", 1, fmt::format("{}{{simulate: {{ranks: 6, spread: 0.5}}, record: '{}'}}", keys, record));
  const std::string replay = fmt::format("{}{{replay: '{}'}}", keys, record);
  const bool adapts = std::string_view(GetParam()).find("adaptive") != std::string_view::npos;
  for (int ranks = 1; ranks <= (adapts ? 1 : world_.size()); ranks *= 2) {
    EXPECT_TRUE(train(fmt::format("on_{}", ranks), ranks, replay) == expected) << "on " << ranks << " ranks";
    EXPECT_TRUE(train(fmt::format("on_from_there_{}", ranks), ranks, replay, file("one", 7)) == expected) << "going on";
  }
  if (world_.is_root()) EXPECT_TRUE(expected.contains("/workers/5/parameters/first/weight"));
}

/// Replicas whose synchronizations are applied later begin with the common parameters, not with those that simulated
/// workers have read.
using AsynchronousOnRanks = test::OnRanks;
TEST_F(AsynchronousOnRanks, GoOnAsReplicasOfTheCommonParameters) {
  const int replicas = world_.size();
  train_deck("workers", 1,
             deep_deck(asynchronously(fmt::format("schedule: {{simulate: {{ranks: {}, spread: 0.5}}}}", replicas))));
  std::string deck = deep_deck(", local: {every: 6, delay: 1}");
  deck.replace(deck.find("steps: 18"), 9, "steps: 7");
  RunConfig config = test::read_run_config(deck, (folder_.path() / "replicas").string());
  config.run.resume = file("workers", 7);
  EXPECT_EQ(TrainingRun(config, world_).run(), ExitStatus::done);
  if (!world_.is_root()) return;
  const std::vector<NamedArray> arrays = test::read_checkpoint(file("replicas", 7)).arrays;
  const auto numbers = [&](const std::string& name) {
    const NamedArray& array = *find_array(arrays, name);
    return std::string(reinterpret_cast<const char*>(array.data.get()), array.bytes());
  };
  for (int replica = 0; replica < replicas; ++replica)
    EXPECT_EQ(numbers(fmt::format("/replicas/{}/parameters/first/weight", replica)), numbers("/model/first/weight"));
}

INSTANTIATE_TEST_SUITE_P(Ways, AsynchronousRuns,
                         testing::Values("staleness: divide", "staleness: compensate",
                                         "staleness: compensate, adaptive: true"),
                         [](const auto& info) { return fmt::format("way_{}", info.index); });

TEST(PushOrder, StaysWithinItsBound) {
  for (const int bound : {0, 1, 3})
    for (const int collect : {1, 3}) {
      const AsynchronousConfig config = asynchronous_config(
          fmt::format("bound: {}, collect: {}, schedule: {{simulate: {{ranks: 7, delays: [1, 1, 9], spread: 0.8}}}}",
                      bound, collect));
      constexpr int updates = 400;
      const PushOrder order = simulate_pushes(config, 11, updates);
      std::vector<int> given(7);
      int furthest = 0;
      for (int update = 1; update <= updates; ++update)
        for (const PushOrder::Push& push : order.of_update(update)) {
          const int ahead = given[static_cast<std::size_t>(push.worker)]++ - *std::ranges::min_element(given);
          furthest = std::max(furthest, ahead);
          ASSERT_LE(ahead, bound);
        }
      EXPECT_EQ(furthest, bound) << "the slow ones are waited for";
      const std::vector<std::int64_t> counts = order.staleness_counts(updates);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), updates * collect);
    }
}

TEST(PushOrder, HasTheStalenessOfSoftsync) {
  // Zhang, Gupta, Lian & Liu 2016: with λ workers and updates of λ / n gradients, the mean staleness is n.
  for (const int n : {1, 4, 16}) {
    const PushOrder order = simulate_pushes(
        asynchronous_config(fmt::format("collect: {}, schedule: {{simulate: {{ranks: 16, spread: 0.3}}}}", 16 / n)), 3,
        4000);
    const std::vector<std::int64_t> counts = order.staleness_counts(4000);
    double sum = 0;
    for (std::size_t tau = 0; tau < counts.size(); ++tau)
      sum += static_cast<double>(tau) * static_cast<double>(counts[tau]);
    EXPECT_NEAR(sum / (4000.0 * 16 / n), n, 1.05);
  }
}

TEST(PushOrder, OfEqualWorkersIsRoundAndRound) {
  const PushOrder order = simulate_pushes(asynchronous_config("schedule: {simulate: {ranks: 3}}"), 3, 7);
  const std::vector<PushOrder::Push> expected{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 2}, {2, 3}, {0, 4}};
  for (int update = 1; update <= 7; ++update)
    EXPECT_EQ(order.of_update(update)[0], expected[static_cast<std::size_t>(update - 1)]);
  EXPECT_EQ(order.staleness_counts(7), (std::vector<std::int64_t>{1, 1, 5}));
}

TEST(PushOrder, OfFilesThatAreNoneIsRefused) {
  AsynchronousConfig config = asynchronous_config("collect: 2, bound: 1, schedule: {simulate: {ranks: 3}}");
  const std::string text = simulate_pushes(config, 3, 4).text();
  EXPECT_EQ(PushOrder::parse(text, "file", config, 4).text(), text);
  const std::string head = text.substr(0, text.find('\n') + 1) + "workers 3\ncollect 2\n";
  const auto refused = [&](const std::string& changed, const char* why, std::int64_t updates = 2) {
    try {
      PushOrder::parse(changed, "file", config, updates);
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::bad_data);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused("", "is not a record");
  refused(text.substr(1), "is not a record");
  refused(text.substr(0, text.find('\n') + 1) + "workers none", "the number of 'workers' is missing");
  refused(text.substr(0, text.find('\n') + 1) + "workers 3\nmembers 0\ncollect 2\n",
          "the number of 'members' is missing");
  refused(head + "0 0\n1 0\n2 0\n", "has 3 gradients");
  refused(head + "0 0\n1 0\n2 0\nx 1\n", "the line of gradient 4 is invalid");
  // What a node that failed has lost of the file's end.
  const std::string four = head + "0 0\n1 0\n2 0\n0 1\n";
  EXPECT_EQ(PushOrder::parse(four + std::string(3, '\0'), "file", config, 2).text(), four);
  refused(PushOrder::head(3, 2, {}, 2, 2) + "0 0 0\n1 0 9223372036854775807\n2 0 1\n0 1 2\n",
          "the line of gradient 2 is invalid");
  refused(text, "gradients, but the run needs 50 updates of 2", 50);
  refused(head + "0 0\n1 0\n3 0\n0 1\n", "there are 3 workers");
  refused(head + "0 0\n1 0\n2 0\n0 1\n3 1\n", "there are 3 workers");
  refused(head + "0 0\n1 1\n2 0\n0 1\n", "less than its update, 1");
  refused(head + "0 0\n1 0\n2 -1\n0 1\n", "less than its update, 2");
  refused(head + "0 0\n0 0\n0 0\n2 1\n", "more than parallel.asynchronous.bound allows");
  config.bound.reset();
  refused(head + "0 0\n1 0\n0 1\n2 1\n0 0\n1 2\n", "previous gradient was part of update 2", 3);
  config.groups = 2;
  refused(text, "has 3 workers, but parallel.asynchronous.groups is 2");
  config.groups.reset();
  config.collect = 3;
  refused(text, "but 3 here (parallel.asynchronous.collect)");
  config.collect = 2;
  refused(text.substr(0, text.find('\n') + 1) + "workers 3\ncollect 2\nparts 1\n",
          "more than the parts of a batch (1)");
}

TEST(Asynchronous, DecksThatItIsNotDefinedForAreRefused) {
  using test::expect_refused;
  const int ranks = Communicator::world().size();
  const std::string schedule = fmt::format("collect: {}, schedule: {{simulate: {{ranks: 2}}}}", ranks);
  const auto with = [&](const std::string& more) { return deep_deck(asynchronously(schedule) + more); };
  expect_refused(with(", shard: optimizer"), "parallel.asynchronous: needs whole parameters");
  expect_refused(with(", deterministic: {shards: 8}"), "parallel.asynchronous: needs a free order of sums");
  expect_refused(with(", virtual_replicas: 2"), "parallel.virtual_replicas: needs one share of each batch");
  expect_refused(with(", sync_batch_norm: true").replace(with("").find("sync_batch_norm: false, "), 24, ""),
                 "parallel.sync_batch_norm: asynchronous workers");
  expect_refused(deep_deck(asynchronously(schedule), "{type: sgd}", "fp16"),
                 "parallel.asynchronous: needs gradients without a loss scale (workers would have");
  expect_refused(deep_deck(asynchronously(schedule + ", staleness: compensate"), "{type: adamw}"),
                 "parallel.asynchronous.staleness: compensate needs an optimizer that steps along");
  const auto keys = [&](const std::string& keys) { return deep_deck(asynchronously(keys)); };
  expect_refused(keys(schedule + ", bound: -1"), "parallel.asynchronous.bound");
  expect_refused(keys(schedule + ", lambda: 1"), "parallel.asynchronous.lambda: has no effect");
  expect_refused(keys(schedule + ", adaptive: true"), "parallel.asynchronous.adaptive: has no effect");
  expect_refused(keys("collect: 1"), "parallel.asynchronous.schedule");
  expect_refused(keys("schedule: {record: a}"), "parallel.asynchronous.schedule");
  expect_refused(keys("schedule: {replay: a, simulate: {ranks: 2}}"), "parallel.asynchronous.schedule");
  expect_refused(keys("schedule: {replay: a, record: b}"), "parallel.asynchronous.schedule.record");
  expect_refused(keys("schedule: {simulate: {ranks: 2, delays: []}}"), "delays");
  expect_refused(keys("collect: 16, schedule: {simulate: {ranks: 2}}"), "batch.global: 13 examples");
  if (ranks == 1) return;
  expect_refused(keys(fmt::format("collect: {}, schedule: {{simulate: {{ranks: 2}}}}", ranks + 1)),
                 "parallel.asynchronous.collect");
  expect_refused(keys(schedule + ", staleness: compensate, adaptive: true"), "parallel.asynchronous.adaptive");
}

}  // namespace
}  // namespace lockstep
