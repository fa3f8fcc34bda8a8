// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Free-running asynchronous workers, which are ranks or groups of ranks: simulating their record gives the same bits.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "base/text_file.hpp"
#include "comm/collective/executor.hpp"
#include "io/output_file.hpp"
#include "mpi/free_runs.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/softmax_regression.hpp"
#include "run/experiment/experiment.hpp"
#include "run/training/training_run.hpp"

namespace lockstep::test {
namespace {

std::string deck(const std::string& asynchronous, const std::string& optimizer, const char* precision = "fp32") {
  return deck_with(asynchronous.empty() ? "" : fmt::format("asynchronous: {{{}}}", asynchronous), optimizer, precision);
}

struct Way {
  const char *name, *keys, *optimizer;
  int collect;
  const char* precision = "fp32";
  int groups = 0;  ///< 0: each rank is a worker
  int servers = 0;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class FreeRunning : public OnRanks, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
    if (std::max(GetParam().groups, GetParam().servers + 1) > world_.size()) GTEST_SKIP() << "of more ranks";
  }
  std::string keys(const std::string& schedule) const {
    const auto& [name, keys, optimizer, collect, precision, groups, servers] = GetParam();
    return fmt::format("{}{}, collect: {}, schedule: {{{}}}", groups > 0 ? fmt::format("groups: {}, ", groups) : "",
                       keys, collect, schedule);
  }
  int workers() const { return GetParam().groups > 0 ? GetParam().groups : world_.size() - GetParam().servers; }
  int members() const { return (world_.size() - GetParam().servers) / workers(); }
  /// True if this number of ranks can replay the record: ranks share the gradients of an update, or several share each.
  bool can_play(int ranks) const {
    const int collect = GetParam().collect;
    return collect % ranks == 0 || (ranks % collect == 0 && members() % (ranks / collect) == 0);
  }
  Arrays train(const std::string& name, int ranks, const std::string& schedule, const std::string& from = "") {
    const int servers = schedule.starts_with("free") ? GetParam().servers : 0;
    const std::string parallel = fmt::format("servers: {}, asynchronous: {{{}}}", servers, keys(schedule));
    return without_workers(
        train_deck(name, ranks, deck_with(parallel, GetParam().optimizer, GetParam().precision), from));
  }
  void expect_counts(const std::string& record) const {
    if (!world_.is_root()) return;
    const std::vector<std::int64_t>& counts = counts_.by_staleness;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), steps * GetParam().collect);
    const AsynchronousConfig config =
        read_run_config(deck(keys("free: true"), GetParam().optimizer), "none").parallel.asynchronous;
    const PushOrder order = PushOrder::parse(read_text_file(record), record, config, steps);
    EXPECT_EQ(order.workers(), workers());
    EXPECT_EQ(order.members(), members());
    EXPECT_EQ(order.staleness_counts(steps), counts);
    std::vector<bool> done(static_cast<std::size_t>(steps * GetParam().collect));
    for (int update = 1; update <= steps; ++update)
      for (const std::int64_t part : order.parts_of(update)) done.at(static_cast<std::size_t>(part)) = true;
    EXPECT_EQ(std::ranges::count(done, true), std::ssize(done)) << "each part once";
  }
};

TEST_P(FreeRunning, IsReplayedBitForBitOnAnyRanks) {
  const std::string record = folder_.path() / "record";
  const Arrays expected = train("free", world_.size(), fmt::format("free: true, record: '{}'", record));
  expect_counts(record);
  const std::string replay = fmt::format("replay: '{}'", record);
  for (int ranks = 1; ranks <= world_.size(); ranks *= 2) {
    if (!can_play(ranks)) continue;
    EXPECT_TRUE(train(fmt::format("on_{}", ranks), ranks, replay) == expected) << "on " << ranks << " ranks";
    EXPECT_TRUE(train(fmt::format("from_{}", ranks), ranks, replay, file("free", 7)) == expected) << "going on";
  }
}

TEST_P(FreeRunning, GoesOnFromACheckpointAndItsRecord) {
  const std::string record = folder_.path() / "record", free = fmt::format("free: true, record: '{}'", record);
  train("free", world_.size(), free);
  const Arrays expected = train("going_on", world_.size(), free, file("free", 14));
  expect_counts(record);
  EXPECT_TRUE(train("simulated", 1, fmt::format("replay: '{}'", record)) == expected);
}

INSTANTIATE_TEST_SUITE_P(Ways, FreeRunning,
                         testing::Values(Way{"plain", "staleness: none", sgd, 1},
                                         Way{"divided_sums", "staleness: divide, bound: 2", sgd, 4},
                                         Way{"compensated", "staleness: compensate", sgd, 3},
                                         Way{"rounded", "staleness: divide", sgd, 4, "bf16"},
                                         Way{"adam", "staleness: none, bound: 0", "{type: adamw}", 4},
                                         Way{"server", "staleness: divide", sgd, 4, "fp32", 0, 1},
                                         Way{"servers", "staleness: compensate, bound: 1", sgd, 2, "bf16", 0, 2},
                                         Way{"hybrid", "staleness: compensate, bound: 1", sgd, 2, "fp32", 2},
                                         Way{"hybrid_divided", "staleness: divide", sgd, 3, "bf16", 2},
                                         Way{"one_group", "staleness: none", "{type: adamw}", 1, "fp32", 1}),
                         [](const auto& info) { return info.param.name; });

TEST(FreeRunningAlone, IsSerialBitForBit) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  if (Communicator::world().size() > 1) GTEST_SKIP() << "of one rank";
  for (const char* precision : {"fp32", "fp64", "bf16"})
    for (const char* optimizer : {sgd, "{type: adamw}"}) {
      const RunOutcome serial = train_to_the_end(deck("", optimizer, precision)),
                       free = train_to_the_end(deck("schedule: {free: true}", optimizer, precision));
      EXPECT_EQ(free.steps, serial.steps);
      EXPECT_EQ(free.applied, serial.applied);
      EXPECT_EQ(free.parameters, serial.parameters);
      EXPECT_EQ(free.states, serial.states);
    }
}

TEST(FreeRunningGroup, OfAllRanksIsDeterministicBitForBit) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const std::string shards = fmt::format("deterministic: {{shards: {}}}", Communicator::world().size());
  for (const char* precision : {"fp32", "bf16"})
    EXPECT_EQ(train_to_the_end(deck("groups: 1, schedule: {free: true}", sgd, precision)).parameters,
              train_to_the_end(deck_with(shards, sgd, precision)).parameters);
}

/// Each worker is a group of ranks: the gradient of a part is that of all its examples.
TEST(FreeRunningGroups, StepAsPlainLoopsWithTheirRecord) {
  using namespace softmax_regression;
  const Communicator comm = Communicator::world();
  if (memory_is_separate || comm.size() < 4) GTEST_SKIP() << "of two groups of two, on hosts";
  constexpr int collect = 3, batch = 12, size = 60, updates = 30;
  constexpr double rate = 0.3, momentum = 0.9;
  const TemporaryFolder folder;
  std::string record = folder.path() / "record";
  comm.broadcast(record);
  const RunConfig config = read_run_config(
      fmt::format("{{run: {{steps: {}, seed: 5, log_every: 10}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
                  " data: {{synthetic: {{kind: random, shape: [{}], classes: {}, train: {}}}}},"
                  " model: {{layers: [{{linear: {{features: {}}}, name: fc}}]}},"
                  " optimizer: {{type: sgd, learning_rate: {}, momentum: {}}}, parallel: {{asynchronous: {{groups: 2,"
                  " collect: {}, staleness: divide, schedule: {{free: true, record: '{}'}}}}}}}}",
                  updates, batch, inputs, classes, size, classes, rate, momentum, collect, record),
      (folder.path() / "run").string());
  const Experiment experiment = open_experiment(config);
  enable_log(false);
  TrainingRun run(config, comm);
  const ParameterBuffer& parameters = run.trainer().model().parameters();
  std::vector<std::vector<double>> versions{numbers_of(parameters)};
  const std::int64_t before = scheduled_bytes_sent();
  EXPECT_EQ(run.run(), ExitStatus::done);
  enable_log(true);
  const std::vector<double> found = numbers_of(parameters);
  // Within the two groups, each gradient takes a sum (up a tree and down again) and a gather, and each synchronization
  // a gather. Between the groups, each gradient takes half of the parameters there and back, and each synchronization
  // sends each half to the other group.
  std::array<double, 1> sent{static_cast<double>(scheduled_bytes_sent() - before)};
  comm.all_reduce_sum(sent);
  const ParameterBuffer& buffer = run.trainer().model().parameters();
  constexpr int gradients = updates * collect, syncs = 6;  // one after each epoch
  EXPECT_EQ(sent[0], 8.0 * static_cast<double>(buffer.trained_size()) *
                         ((comm.size() / 2 - 1) * (3 * gradients + 2 * syncs) + gradients + syncs));
  if (!comm.is_root()) return;
  const PushOrder order = PushOrder::parse(read_text_file(record), record, config.parallel.asynchronous, updates);
  std::vector<std::vector<std::int64_t>> batches;
  Sampler sampler({.dataset_size = size, .global_batch = batch, .seed = 5});
  for (int i = 0; i < updates; ++i) batches.push_back(sampler.next()->examples);
  std::vector<double> velocity(found.size());
  for (int update = 1; update <= updates; ++update) {
    std::vector<double> next = versions.back(), mean(found.size());
    for (std::size_t place = 0; place < collect; ++place) {
      const PushOrder::Push& push = order.of_update(update)[place];
      const auto part = static_cast<std::size_t>(order.parts_of(update)[place]);
      constexpr std::size_t each = batch / collect;
      const std::vector<double> g = gradient_of(*experiment.data.train,
                                                std::span(batches[part / collect]).subspan(part % collect * each, each),
                                                versions[static_cast<std::size_t>(push.version)]);
      const auto staleness = static_cast<double>(update - 1 - push.version);
      for (std::size_t i = 0; i < g.size(); ++i) mean[i] += g[i] / std::max(1.0, staleness) / collect;
    }
    for (std::size_t i = 0; i < next.size(); ++i) {
      velocity[i] = momentum * velocity[i] + mean[i];
      next[i] -= rate * velocity[i];
    }
    versions.push_back(next);
  }
  EXPECT_LT(largest_difference(found, versions.back()), 1e-12);
}

TEST(FreeRunningDecks, ThatItIsNotDefinedForAreRefused) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const std::string keys = "collect: 4, schedule: {free: true}";
  const auto with = [&](const std::string& optimizer) { return deck(keys, optimizer); };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = deck(keys, sgd);
    return text.replace(text.find(from), from.size(), to);
  };
  expect_refused(with("{type: lamb}"),
                 "parallel.asynchronous.schedule.free: needs an optimizer that can update a part");
  expect_refused(with("{type: sgd, clip_norm: 1}"), "optimizer.clip_norm: needs the norm of the whole gradient");
  expect_refused(with("{type: sgd, ema_decay: 0.9}"), "optimizer.ema_decay: needs steps that all ranks take together");
  expect_refused(changed("optimizer:", "loss_watch: {}, optimizer:"),
                 "loss_watch: needs steps that all ranks take together");
  expect_refused(changed("relu", "batch_norm"), "parallel.asynchronous.schedule.free: lets each rank read");
  expect_refused(changed("drop_last: true, ", ""), "data.drop_last: is false");
  expect_refused(changed("global: 12", "global: 10"), "batch.global: 10 examples cannot be divided into 4 equal parts");
  expect_refused(changed("global: 12", "global: 12, ramp: [[10 steps, 24]]"),
                 "batch.ramp: needs batches that need no fixed parts");
  expect_refused(changed("optimizer:", "loss: {type: cross_entropy, ignore_class: 3}, optimizer:"),
                 "parallel.asynchronous.schedule.free: needs targets of equal weight");
  expect_refused(deck("staleness: compensate, adaptive: true, schedule: {free: true}", sgd),
                 "parallel.asynchronous.adaptive");
  const int ranks = Communicator::world().size();
  expect_refused(
      deck(fmt::format("groups: {}, schedule: {{free: true}}", ranks + 1), sgd),
      fmt::format("parallel.asynchronous.groups: {} ranks cannot be divided into {} groups", ranks, ranks + 1));
  expect_refused(deck("groups: 0, schedule: {free: true}", sgd), "parallel.asynchronous.groups");
  expect_refused(deck("groups: 2, schedule: {simulate: {ranks: 2}}", sgd),
                 "parallel.asynchronous.groups: are for ranks that run freely");
  if (ranks > 1)
    expect_refused(deck("groups: 1, collect: 4, schedule: {free: true}", sgd),
                   fmt::format("batch.global: 12 examples cannot be divided into {} equal parts", 4 * ranks));
  expect_refused(deck("schedule: {free: false}", sgd), "parallel.asynchronous.schedule.free: is false");
  expect_refused(deck("schedule: {free: true, replay: a}", sgd), "parallel.asynchronous.schedule");
}

}  // namespace
}  // namespace lockstep::test
