// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asynchronous workers that step by themselves and push their differences, free-running and simulated, against plain
// loops in fp64.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/text_file.hpp"
#include "comm/collective/executor.hpp"
#include "io/output_file.hpp"
#include "mpi/free_runs.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/softmax_regression.hpp"
#include "run/training/training_run.hpp"
#include "support/scratch.hpp"

namespace lockstep::test::stepping_workers {
namespace {

using namespace softmax_regression;

/// `momentum`: of the outer rule; 0: it has none.
struct Way {
  const char *name, *local, *staleness;
  int collect;
  double rate, momentum = 0;
  bool adam = false;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

constexpr int batch = 12, data_size = 60, every = 3, plain_steps = 80;  // the last round has two steps
constexpr double inner_rate = 0.2, inner_momentum = 0.8;

std::string plain_deck(const Way& way, const std::string& schedule) {
  return fmt::format(
      "{{run: {{steps: {}, seed: 5, log_every: 17}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
      " data: {{synthetic: {{kind: random, shape: [{}], classes: {}, train: {}}}}},"
      " model: {{layers: [{{linear: {{features: {}}}, name: fc}}]}}, optimizer: {},"
      " parallel: {{local: {{every: {}, {}}}, asynchronous: {{collect: {}, staleness: {}, schedule: {{{}}}}}}}}}",
      plain_steps, batch, inputs, classes, data_size, classes,
      way.adam ? fmt::format("{{type: adam, learning_rate: {}}}", inner_rate / 10)
               : fmt::format("{{type: sgd, learning_rate: {}, momentum: {}}}", inner_rate, inner_momentum),
      every, way.local, way.collect, way.staleness, schedule);
}

/// A worker's optimizer.
struct Inner {
  std::vector<double> first, second;
  int steps = 0;

  void step(bool adam, const std::vector<double>& g, std::vector<double>& x) {
    first.resize(x.size());
    second.resize(x.size());
    ++steps;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (adam) {
        first[i] = 0.9 * first[i] + 0.1 * g[i];
        second[i] = 0.999 * second[i] + 0.001 * g[i] * g[i];
        x[i] -= inner_rate / 10 * (first[i] / (1 - std::pow(0.9, steps))) /
                (std::sqrt(second[i] / (1 - std::pow(0.999, steps))) + 1e-8);
      } else {
        first[i] = inner_momentum * first[i] + g[i];
        x[i] -= inner_rate * first[i];
      }
    }
  }
};

/// The parameters after the pushes of `order`, in plain loops from the parameters x on.
std::vector<double> simulated(const Way& way, const PushOrder& order, const Dataset& data,
                              const std::vector<double>& x) {
  std::vector<std::vector<std::int64_t>> batches;
  Sampler sampler({.dataset_size = data_size, .global_batch = batch, .seed = 5});
  for (int i = 0; i < plain_steps; ++i) batches.push_back(sampler.next()->examples);
  std::vector<std::vector<double>> versions{x};
  std::vector<Inner> workers(static_cast<std::size_t>(order.workers()));
  std::vector<double> velocity(x.size());
  const std::size_t each = batch / static_cast<std::size_t>(way.collect);
  const int updates = (plain_steps + every - 1) / every;
  for (int update = 1; update <= updates; ++update) {
    std::vector<double> difference(x.size());
    for (int place = 0; place < way.collect; ++place) {
      const PushOrder::Push& push = order.of_update(update)[static_cast<std::size_t>(place)];
      const std::int64_t round = order.has_parts() ? order.parts_of(update)[static_cast<std::size_t>(place)]
                                                   : (update - 1) * way.collect + place;
      const std::vector<double>& read = versions[static_cast<std::size_t>(push.version)];
      std::vector<double> own = read;
      const std::int64_t first = round / way.collect * every;
      for (std::int64_t step = first; step < std::min<std::int64_t>(first + every, plain_steps); ++step) {
        const std::span part = std::span(batches[static_cast<std::size_t>(step)])
                                   .subspan(static_cast<std::size_t>(round % way.collect) * each, each);
        workers[static_cast<std::size_t>(push.worker)].step(way.adam, gradient_of(data, part, own), own);
      }
      const bool divides = std::string_view(way.staleness) == "divide";
      const double weight = divides ? 1 / std::max<double>(1, static_cast<double>(order.staleness(update, place))) : 1;
      for (std::size_t i = 0; i < x.size(); ++i) difference[i] += weight * (read[i] - own[i]) / way.collect;
    }
    std::vector<double> next = versions.back();
    for (std::size_t i = 0; i < x.size(); ++i) {
      velocity[i] = way.momentum * velocity[i] + difference[i];
      next[i] -= way.rate * (difference[i] + way.momentum * velocity[i]);
    }
    versions.push_back(next);
  }
  return versions.back();
}

class SteppingWorkers : public testing::TestWithParam<Way> {
 protected:
  SteppingWorkers() { enable_log(false); }
  ~SteppingWorkers() override { enable_log(true); }
  void SetUp() override {
    if (memory_is_separate) GTEST_SKIP() << "workers step by themselves on hosts alone";
  }
  /// Trains the deck, and compares it with plain loops in the same order of pushes.
  void compare(const std::string& schedule, const std::function<PushOrder(const RunConfig&)>& order_of) {
    const RunConfig config = read_run_config(plain_deck(GetParam(), schedule), (folder_.path() / "run").string());
    const Experiment experiment = open_experiment(config);
    TrainingRun run(config, comm_);
    const ParameterBuffer& parameters = run.trainer().model().parameters();
    const std::vector<double> begin = numbers_of(parameters);
    const std::int64_t before = scheduled_bytes_sent();
    EXPECT_EQ(run.run(), ExitStatus::done);
    std::array<double, 1> sent{static_cast<double>(scheduled_bytes_sent() - before)};
    comm_.all_reduce_sum(sent);
    sent_ = sent[0] / (8.0 * static_cast<double>(parameters.trained_size()));
    const std::vector<double> found = numbers_of(parameters);
    const std::vector<std::int64_t> counts = run.run_trainer().gradient_counts().by_staleness;
    if (!comm_.is_root()) return;
    const PushOrder order = order_of(config);
    EXPECT_LT(largest_difference(found, simulated(GetParam(), order, *experiment.data.train, begin)), 1e-12);
    EXPECT_EQ(counts, order.staleness_counts(updates));
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), updates * GetParam().collect);
  }

  static constexpr int updates = (plain_steps + every - 1) / every;
  const Communicator comm_ = Communicator::world();
  const TemporaryFolder folder_;
  double sent_ = 0;  ///< by all ranks, in multiples of the network's parameters
};

TEST_P(SteppingWorkers, FollowPlainLoopsByTheirRecord) {
  std::string record = folder_.path() / "record";
  comm_.broadcast(record);
  compare(fmt::format("free: true, record: '{}'", record), [&](const RunConfig& config) {
    return PushOrder::parse(read_text_file(record), record, config.parallel.asynchronous, updates,
                            config.parallel.steps_of_round());
  });
  // Each round sends what it reads and pushes, except a worker's own slice; each synchronization, what all ranks read.
  // Synchronizations are due at multiples of 17 steps, and at the ends of epochs of five steps.
  int syncs = 0;
  for (int update = 1; update <= updates; ++update) {
    const auto passes = [&](int period) {
      return std::min(update * every, plain_steps) / period > (update - 1) * every / period;
    };
    syncs += passes(17) || passes(5) || update == updates ? 1 : 0;
  }
  const double others = comm_.size() - 1;
  EXPECT_NEAR(sent_, 2.0 * updates * GetParam().collect * others / comm_.size() + syncs * others, 1e-9);
}

TEST_P(SteppingWorkers, FollowPlainLoopsWhenTheyAreSimulated) {
  compare("simulate: {ranks: 5, delays: [1, 1.7], spread: 0.3}", [](const RunConfig& config) {
    const PushOrder order = simulate_pushes(config.parallel.asynchronous, 5, updates, config.parallel.steps_of_round());
    EXPECT_GT(order.staleness_counts(updates).size(), 2u) << "stale differences are what this is about";
    return order;
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, SteppingWorkers,
                         testing::Values(Way{"plain", "outer: average, learning_rate: 0.6", "none", 1, 0.6},
                                         Way{"nesterov", "outer: nesterov, momentum: 0.5", "divide", 2, 0.7, 0.5},
                                         Way{"nesterov_adam", "outer: nesterov, learning_rate: 0.9", "none", 3, 0.9,
                                             0.9, true},
                                         Way{"adam", "outer: average, learning_rate: 0.4", "divide", 1, 0.4, 0, true}),
                         [](const auto& info) { return info.param.name; });

/// The keys of a run, whose other settings are those of free_runs.hpp.
struct Run {
  const char *name, *asynchronous, *local, *optimizer;
  const char* precision = "fp32";
  int servers = 0;
};
void PrintTo(const Run& run, std::ostream* out) { *out << run.name; }

class SteppingWorkersRuns : public OnRanks, public testing::WithParamInterface<Run> {
 protected:
  void SetUp() override {
    const bool groups = std::string_view(GetParam().asynchronous).find("groups: 2") != std::string_view::npos;
    if (memory_is_separate || world_.size() < std::max(GetParam().servers + 1, groups ? 2 : 1)) GTEST_SKIP();
  }
  Arrays train(const std::string& name, int ranks, const std::string& schedule, const std::string& from = "") {
    const auto& run = GetParam();
    const std::string parallel = fmt::format(
        "servers: {}, local: {{every: 4, {}}}, asynchronous: {{{}, schedule: {{{}}}}}",
        schedule.starts_with("free") ? run.servers : 0, run.local, run.asynchronous, schedule);
    Arrays arrays = train_deck(name, ranks, deck_with(parallel, run.optimizer, run.precision), from);
    return without_workers(std::move(arrays));
  }
};

TEST_P(SteppingWorkersRuns, AreReplayedBitForBitOnAnyRanksAndResumed) {
  const std::string record = folder_.path() / "record", free = fmt::format("free: true, record: '{}'", record);
  const Arrays expected = train("free", world_.size(), free);
  if (world_.is_root()) EXPECT_TRUE(expected.contains("/replicas/0/next_step/number"));
  const std::string replay = fmt::format("replay: '{}'", record);
  for (int ranks = 1; ranks <= world_.size(); ranks *= 2) {
    EXPECT_TRUE(train(fmt::format("on_{}", ranks), ranks, replay) == expected) << "on " << ranks << " ranks";
    EXPECT_TRUE(train(fmt::format("from_{}", ranks), ranks, replay, file("free", 8)) == expected) << "going on";
    EXPECT_TRUE(train(fmt::format("on_from_{}", ranks), ranks, replay, file("on_1", 8)) == expected) << "likewise";
  }
  const Arrays gone_on = train("going_on", world_.size(), free, file("free", 8));
  EXPECT_TRUE(train("simulated", 1, replay) == gone_on);
}

INSTANTIATE_TEST_SUITE_P(Ways, SteppingWorkersRuns,
                         testing::Values(Run{"adam", "collect: 1, bound: 2", "outer: nesterov",
                                             "{type: adamw, clip_norm: 0.5}"},
                                         Run{"sums", "collect: 3, staleness: divide", "outer: nesterov", sgd, "bf16"},
                                         Run{"groups", "groups: 2, collect: 2", "outer: nesterov", "{type: adamw}"},
                                         Run{"server", "collect: 2", "outer: average", sgd, "fp32", 1},
                                         Run{"lamb", "collect: 2", "outer: nesterov", "{type: lamb}"}),
                         [](const auto& info) { return info.param.name; });

std::string deck(const std::string& local, const std::string& asynchronous, const std::string& optimizer = sgd,
                 const char* precision = "fp32") {
  return deck_with(fmt::format("local: {{{}}}, asynchronous: {{{}}}", local, asynchronous), optimizer, precision);
}

TEST(SteppingWorkersRows, HaveTheNormOfTheLastDifference) {
  if (memory_is_separate) GTEST_SKIP() << "workers step by themselves on hosts alone";
  for (const char* schedule : {"simulate: {ranks: 3}", "free: true"})
    for (const auto& [name, row] :
         train_to_the_end(deck("every: 4", fmt::format("collect: 3, schedule: {{{}}}", schedule))).rows) {
      if (name.find("train") == name.npos) continue;
      const std::size_t end = row.size() - 1;  // columns: epoch,split,…,grad_norm,
      EXPECT_GT(std::stod(row.substr(row.rfind(',', end - 1) + 1)), 0) << schedule << ": " << row;
    }
}

TEST(SteppingWorkersAlone, WithAveragesAreSerial) {
  const Communicator comm = Communicator::world();
  if (memory_is_separate || comm.size() > 1) GTEST_SKIP() << "of one rank, on hosts";
  const auto numbers = [&](const std::string& parallel, const char* optimizer) {
    enable_log(false);
    const TemporaryFolder folder;
    TrainingRun run(read_run_config(deck_with(parallel, optimizer, "fp64"), (folder.path() / "run").string()), comm);
    EXPECT_EQ(run.run(), ExitStatus::done);
    enable_log(true);
    return values_of(run.trainer().model().parameters().values());
  };
  for (const char* optimizer : {sgd, "{type: adamw}"})
    for (const char* keys : {"local: {every: 1}, asynchronous: {schedule: {free: true}}",
                             "local: {every: 5}, asynchronous: {schedule: {free: true}}",
                             "local: {every: 5}, asynchronous: {schedule: {simulate: {ranks: 1}}}"})
      EXPECT_LT(largest_difference(numbers(keys, optimizer), numbers("", optimizer)), 1e-12) << keys;
}

TEST(SteppingWorkersDecks, ThatTheyAreNotDefinedForAreRefused) {
  if (memory_is_separate) GTEST_SKIP() << "workers step by themselves on hosts alone";
  const std::pair<std::string, const char*> refused[] = {
      {"every: 2, outer: adasum", "parallel.local.outer: adasum needs synchronizations of all groups at once"},
      {"every: 2, from_step: 3", "parallel.local.from_step: needs synchronizations of all groups at once"},
      {"every: 2, node_every: 1", "parallel.local.node_every"},
      {"every: 2, fragments: 2", "parallel.local.fragments: needs synchronizations of all groups at once"},
      {"every: 2, delay: 1", "parallel.local.delay"},
      {"every: 2, group: 2", "asynchronous.groups sets the ranks of a worker"}};
  for (const auto& [local, why] : refused) expect_refused(deck(local, "schedule: {free: true}"), why);
  expect_refused(deck("every: 2", "staleness: compensate, schedule: {free: true}"),
                 "parallel.asynchronous.staleness: compensate needs gradients of single steps");
  expect_refused(deck_with("local: 2, backup: 1", sgd), "parallel.backup: needs the same parameters on all ranks");
  std::string norm = deck("every: 2", "schedule: {simulate: {ranks: 2}}");
  norm.replace(norm.find("relu"), 4, "batch_norm");
  norm.replace(norm.find("local:"), 0, "sync_batch_norm: false, ");
  expect_refused(norm, "parallel.local: lets each worker step independently");
}

}  // namespace
}  // namespace lockstep::test::stepping_workers
