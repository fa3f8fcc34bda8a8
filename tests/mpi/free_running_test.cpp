// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that are asynchronous workers, or groups of them, each in its own time: what they have done is in a record,
// which is played.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "comm/collective/executor.hpp"
#include "io/replace_file.hpp"
#include "mpi/run_outcome.hpp"
#include "mpi/serial_training.hpp"
#include "mpi/softmax_regression.hpp"
#include "parallel/asynchronous/free_order.hpp"
#include "run/training_run.hpp"
#include "support/fixtures.hpp"
#include "support/whole_checkpoint.hpp"

namespace lockstep {
namespace {

constexpr int steps = 18;

/// Random numbers are drawn in it, and parameters are no multiple of ranks.
std::string deck_with(const std::string& parallel, const std::string& optimizer, const char* precision = "fp32",
                      int log_every = 6) {
  return fmt::format(
      "{{precision: {{compute: {}}}, run: {{steps: {}, seed: 3, log_every: {}, evaluate_every: 9 steps}}, batch: {{global: 12, micro: 2}},"
      " data: {{drop_last: true, synthetic: {{kind: random, shape: [40], classes: 7, train: 70, validation: 9}}}},"
      " model: {{layers: [{{linear: {{features: 61}}, name: first}}, relu, {{dropout: {{rate: 0.2}}}},"
      " {{linear: {{features: 7}}}}]}},"
      " checkpoint: {{every_steps: 7, keep: 0}}, optimizer: {}, parallel: {{{}}}}}",
      precision, steps, log_every, optimizer, parallel);
}

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

using Arrays = std::map<std::string, std::vector<std::byte>>;

/// Runs on some of the ranks, and what they leave.
class OnRanks : public testing::Test {
 protected:
  OnRanks() { enable_log(false); }
  ~OnRanks() override { enable_log(true); }

  /// On the first `ranks` ranks; from a checkpoint, if there is any. What it leaves of parameters and the optimizer, on
  /// rank 0. Collective.
  Arrays train_deck(const std::string& name, int ranks, const std::string& deck, const std::string& from = "") {
    const bool takes_part = world_.rank() < ranks;
    const Communicator group = world_.split(takes_part ? 0 : 1);
    if (takes_part) {
      RunConfig config = test::read_run_config(deck, (folder_.path() / name).string());
      if (!from.empty()) config.run.resume = from;
      TrainingRun run(config, group);
      EXPECT_EQ(run.run(), ExitStatus::done);
      counts_ = run.trainer().strategy().gradient_counts(steps);
    }
    world_.barrier();
    Arrays arrays;
    if (!world_.is_root()) return arrays;
    for (const NamedArray& array : test::read_checkpoint(file(name, steps)).arrays)
      if (!array.name.starts_with("/replicas"))
        arrays[array.name].assign(array.data.get(), array.data.get() + array.bytes());
    return arrays;
  }
  std::string file(const std::string& run, int step) const {
    return folder_.path() / run / "checkpoints" / checkpoint_name(step);
  }

  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
  GradientCounts counts_;
};

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
  /// A record, whose gradients ranks share, or of which several share each.
  bool can_play(int ranks) const {
    const int collect = GetParam().collect;
    return collect % ranks == 0 || (ranks % collect == 0 && members() % (ranks / collect) == 0);
  }
  Arrays train(const std::string& name, int ranks, const std::string& schedule, const std::string& from = "") {
    const int servers = schedule.starts_with("free") ? GetParam().servers : 0;
    const std::string parallel = fmt::format("servers: {}, asynchronous: {{{}}}", servers, keys(schedule));
    return train_deck(name, ranks, deck_with(parallel, GetParam().optimizer, GetParam().precision), from);
  }
  void expect_counts(const std::string& record) const {
    if (!world_.is_root()) return;
    const std::vector<std::int64_t>& counts = counts_.by_staleness;
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), steps * GetParam().collect);
    const AsynchronousConfig config =
        test::read_run_config(deck(keys("free: true"), GetParam().optimizer), "none").parallel.asynchronous;
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

TEST_P(FreeRunning, IsPlayedAgainBitForBitOnAnyRanks) {
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
  EXPECT_TRUE(train("played", 1, fmt::format("replay: '{}'", record)) == expected);
}

constexpr const char* sgd = "{type: sgd, learning_rate: 0.05, momentum: 0.9}";

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
      const test::RunOutcome serial = test::train_to_the_end(deck("", optimizer, precision)),
                             free = test::train_to_the_end(deck("schedule: {free: true}", optimizer, precision));
      EXPECT_EQ(free.steps, serial.steps);
      EXPECT_EQ(free.applied, serial.applied);
      EXPECT_EQ(free.parameters, serial.parameters);
      EXPECT_EQ(free.states, serial.states);
    }
}

class Backup : public OnRanks {
 protected:
  /// Of each row of training, on rank 0: the loss, the accuracy and the gradient's norm.
  std::vector<double> rows_of(const std::string& run) const {
    std::vector<double> numbers;
    if (!world_.is_root()) return numbers;
    std::ifstream file(folder_.path() / run / "metrics.csv");
    std::string line, cell;
    std::getline(file, line);
    std::vector<std::string> names;
    for (std::istringstream text(line); std::getline(text, cell, ',');) names.push_back(cell);
    while (std::getline(file, line)) {
      if (line.find(",train,") == std::string::npos) continue;
      std::istringstream text(line);
      for (const std::string& name : names) {
        std::getline(text, cell, ',');
        if (name == "loss" || name == "accuracy" || name == "grad_norm") numbers.push_back(std::stod(cell));
      }
    }
    return numbers;
  }
};

/// Whoever comes first, the sum is that of the parts of the batch in their order.
TEST_F(Backup, DuplicatesLeaveTheBitsOfTheRanksThatAreWaitedFor) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  for (int backups = 1; backups < world_.size(); ++backups)
    for (const auto& [optimizer, precision, log_every, servers] :
         {std::tuple(sgd, "fp32", 1, 0), {sgd, "fp64", 6, 1}, {"{type: adamw}", "bf16", 1, 0}}) {
      const int parts = world_.size() - servers - backups;
      if (parts < 1) continue;
      const std::string name = fmt::format("{}_{}", backups, precision),
                        backed = deck_with(fmt::format("servers: {}, backup: {}", servers, backups), optimizer,
                                           precision, log_every);
      const Arrays expected = train_deck(
          "alone_" + name, 1,
          deck_with(fmt::format("deterministic: {{shards: {}}}", parts), optimizer, precision, log_every));
      EXPECT_TRUE(train_deck("backed_" + name, world_.size(), backed) == expected)
          << backups << " of " << world_.size();
      if (world_.is_root()) {
        EXPECT_EQ(counts_.by_staleness, (std::vector<std::int64_t>{steps * parts}));
        EXPECT_EQ(counts_.discarded_examples % (12 / parts), 0);
      }
      if (log_every == 1) {
        EXPECT_LE(test::largest_difference(rows_of("backed_" + name), rows_of("alone_" + name)), 1e-12)
            << "losses are those of what counts, each once";
      }
      EXPECT_TRUE(train_deck("again_" + name, world_.size(), backed, file("backed_" + name, 7)) == expected);
    }
}

/// Which parts have counted is in a record.
TEST_F(Backup, WhatIsDroppedIsPlayedAgainBitForBit) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const int ranks = world_.size(), counted = ranks - 1;
  if (ranks == 1) GTEST_SKIP() << "of more ranks";
  for (const int log_every : {1, 6}) {
    const std::string record = folder_.path() / fmt::format("record_{}", log_every),
                      name = fmt::format("every_{}", log_every);
    const auto with = [&](const std::string& parallel) { return deck_with(parallel, sgd, "fp32", log_every); };
    const std::string drop = with(fmt::format("backup: {{ranks: 1, mode: drop, record: '{}'}}", record));
    const Arrays expected = train_deck("dropped_" + name, ranks, drop);
    if (world_.is_root()) {
      EXPECT_EQ(counts_.by_staleness, (std::vector<std::int64_t>{steps * counted}));
      EXPECT_GE(counts_.discarded_examples, log_every == 1 ? 0 : 12 / ranks);
    }
    const std::string played = with(
        fmt::format("asynchronous: {{collect: {}, schedule: {{replay: '{}'}}}}", counted, record));
    EXPECT_TRUE(train_deck("played_" + name, 1, played) == expected);
    if (log_every == 1) {
      EXPECT_LE(test::largest_difference(rows_of("dropped_" + name), rows_of("played_" + name)), 1e-12)
          << "losses are those of what counts";
    }
    const Arrays gone_on = train_deck("again_" + name, ranks, drop, file("dropped_" + name, 14));
    EXPECT_TRUE(train_deck("played_again_" + name, 1, played) == gone_on) << "the record goes on with the run";
  }
}

TEST(FreeRunningGroup, OfAllRanksIsDeterministicBitForBit) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const std::string shards = fmt::format("deterministic: {{shards: {}}}", Communicator::world().size());
  for (const char* precision : {"fp32", "bf16"})
    EXPECT_EQ(test::train_to_the_end(deck("groups: 1, schedule: {free: true}", sgd, precision)).parameters,
              test::train_to_the_end(deck_with(shards, sgd, precision)).parameters);
}

/// Of several ranks each: a part's gradient is that of all its examples.
TEST(FreeRunningGroups, StepAsPlainLoopsWithTheirRecord) {
  using namespace test::softmax_regression;
  const Communicator comm = Communicator::world();
  if (memory_is_separate || comm.size() < 4) GTEST_SKIP() << "of two groups of two, on hosts";
  constexpr int collect = 3, batch = 12, size = 60, updates = 30;
  constexpr double rate = 0.3, momentum = 0.9;
  const test::TemporaryFolder folder;
  std::string record = folder.path() / "record";
  comm.broadcast(record);
  const RunConfig config = test::read_run_config(
      fmt::format("{{run: {{steps: {}, seed: 5, log_every: 10}}, batch: {{global: {}}}, precision: {{compute: fp64}},"
                  " data: {{synthetic: {{kind: random, shape: [{}], classes: {}, train: {}}}}},"
                  " model: {{layers: [{{linear: {{features: {}}}}}]}},"
                  " optimizer: {{type: sgd, learning_rate: {}, momentum: {}}}, parallel: {{asynchronous: {{groups: 2,"
                  " collect: {}, staleness: divide, schedule: {{free: true, record: '{}'}}}}}}}}",
                  updates, batch, inputs, classes, size, classes, rate, momentum, collect, record),
      (folder.path() / "run").string());
  const Experiment experiment = open_experiment(config);
  enable_log(false);
  TrainingRun run(config, comm);
  // Weights [classes, inputs] and biases, wherever the buffer has them.
  const auto numbers = [&] {
    const ParameterBuffer& buffer = run.trainer().model().parameters();
    std::vector<double> all;
    for (const std::size_t length : {std::size_t{inputs * classes}, std::size_t{classes}})
      for (const Parameter& parameter : buffer.parameters())
        if (const auto values = test::values_of(buffer.values(parameter)); values.size() == length)
          all.insert(all.end(), values.begin(), values.end());
    return all;
  };
  std::vector<std::vector<double>> versions{numbers()};
  const std::int64_t before = scheduled_bytes_sent();
  EXPECT_EQ(run.run(), ExitStatus::done);
  enable_log(true);
  const std::vector<double> found = numbers();
  // Inside the two groups: for each gradient a sum (up a tree and down again) and a gather, at meetings a gather.
  std::array<double, 1> sent{static_cast<double>(scheduled_bytes_sent() - before)};
  comm.all_reduce_sum(sent);
  const ParameterBuffer& buffer = run.trainer().model().parameters();
  constexpr int gradients = updates * collect, meetings = 6;  // behind each epoch
  EXPECT_EQ(sent[0],
            8.0 * static_cast<double>(buffer.trained_size()) * (comm.size() / 2 - 1) * (3 * gradients + 2 * meetings));
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
  EXPECT_LT(test::largest_difference(found, versions.back()), 1e-12);
}

TEST(FreeRunningDecks, ThatItIsNotDefinedForAreRefused) {
  if (memory_is_separate) GTEST_SKIP() << "ranks run freely on hosts alone";
  const auto refused = [](const std::string& changed, const std::string& why) {
    enable_log(false);
    try {
      const test::TemporaryFolder folder;
      TrainingRun(test::read_run_config(changed, (folder.path() / "run").string()), Communicator::world());
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::bad_deck);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("test:1"), std::string::npos) << error.what();
    }
    enable_log(true);
  };
  const std::string keys = "collect: 4, schedule: {free: true}";
  const auto with = [&](const std::string& optimizer) { return deck(keys, optimizer); };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = deck(keys, sgd);
    return text.replace(text.find(from), from.size(), to);
  };
  refused(with("{type: lamb}"), "parallel.asynchronous: schedule: {free: true} divides each update");
  refused(with("{type: sgd, clip_norm: 1}"), "optimizer.clip_norm wants the norm of all");
  refused(with("{type: sgd, ema_decay: 0.9}"), "optimizer.ema_decay averages them");
  refused(changed("optimizer:", "loss_watch: {}, optimizer:"), "loss_watch: watches the losses of all ranks");
  refused(changed("relu", "batch_norm"), "parallel.asynchronous.schedule.free: lets each rank read");
  refused(changed("drop_last: true, ", ""), "data.drop_last: is false");
  refused(changed("global: 12", "global: 10"), "batch.global: 10 examples are not 4 equal parts");
  refused(changed("global: 12", "global: 12, ramp: [[10 steps, 24]]"), "batch.ramp: makes batches longer");
  refused(changed("optimizer:", "loss: {type: cross_entropy, ignore_class: 3}, optimizer:"),
          "loss: lets targets count");
  refused(deck("staleness: compensate, adaptive: true, schedule: {free: true}", sgd), "parallel.asynchronous.adaptive");
  const int ranks = Communicator::world().size();
  refused(deck(fmt::format("groups: {}, schedule: {{free: true}}", ranks + 1), sgd),
          fmt::format("parallel.asynchronous.groups: {} ranks cannot be divided into {} groups", ranks, ranks + 1));
  refused(deck("groups: 0, schedule: {free: true}", sgd), "parallel.asynchronous.groups");
  refused(deck("groups: 2, schedule: {simulate: {ranks: 2}}", sgd),
          "parallel.asynchronous.groups: are of ranks that run freely");
  if (ranks > 1)
    refused(deck("groups: 1, collect: 4, schedule: {free: true}", sgd),
            fmt::format("batch.global: 12 examples are not {} equal parts", 4 * ranks));
  refused(deck("schedule: {free: false}", sgd), "parallel.asynchronous.schedule.free: is false");
  refused(deck("schedule: {free: true, replay: a}", sgd), "parallel.asynchronous.schedule");

  const auto backed = [&](const std::string& also = "", const char* optimizer = sgd) {
    return deck_with("backup: {ranks: 1, mode: drop}" + also, optimizer);
  };
  const auto changed_backup = [&](const std::string& from, const std::string& to) {
    std::string text = backed();
    return text.replace(text.find(from), from.size(), to);
  };
  refused(deck_with(fmt::format("backup: {}", ranks), sgd),
          fmt::format("parallel.backup.ranks: {} of {} ranks that compute leave none for a step", ranks, ranks));
  refused(deck_with(fmt::format("servers: {}, asynchronous: {{schedule: {{free: true}}}}", ranks), sgd),
          fmt::format("parallel.servers: {} of {} ranks leave none to compute", ranks, ranks));
  refused(deck_with("servers: 1", sgd), "parallel.servers: keep what ranks that run freely read");
  refused(deck_with("servers: 1, asynchronous: {groups: 1, schedule: {free: true}}", sgd),
          "parallel.servers: serve single ranks");
  refused(backed(", asynchronous: {schedule: {free: true}}"), "parallel.backup: is of steps that wait");
  refused(backed(", shard: optimizer"), "parallel.backup: wants whole copies of parameters");
  refused(deck_with("backup: {ranks: 1, record: a}", sgd), "parallel.backup.record: is of no use to duplicates");
  refused(backed(", local: 4"), "parallel.backup: updates the parameters of all ranks");
  refused(backed(", all_reduce: ring"), "parallel.all_reduce: backup cuts batches");
  refused(backed("", "{type: sgd, clip_norm: 1}"), "parallel.backup: leaves each rank a part of an update");
  if (ranks == 1) return;
  refused(changed_backup("relu", "batch_norm"), "parallel.backup: lets each rank read");
  refused(changed_backup("global: 12", "global: 13"),
          fmt::format("batch.global: 13 examples are not {} equal parts (parallel.backup)", ranks));
}

/// What it tells for each gradient: r (worker: part) of reading, p of adding, with u where that is an update, d of
/// dropping.
class ToldOrder {
 public:
  explicit ToldOrder(const FreeRules& rules) : order_(rules, [this] { return now_; }) {}

  std::string begin(std::int64_t version, std::int64_t meeting) {
    order_.begin(version, meeting, tell_);
    return std::exchange(told_, "");
  }
  std::string take(int worker, double now = 0) {
    now_ = now;
    order_.take(worker, tell_);
    return std::exchange(told_, "");
  }
  const std::vector<std::int64_t>& counts() const { return order_.staleness_counts(); }
  std::int64_t dropped() const { return order_.dropped(); }

 private:
  double now_ = 0;
  std::string told_;
  const FreeOrder::Tell tell_ = [this](const StoreEvent& event) {
    using Kind = StoreEvent::Kind;
    if (event.kind == Kind::read) told_ += fmt::format("r{}:{} ", event.worker, event.part);
    else if (event.kind == Kind::push) told_ += fmt::format("p{}{} ", event.worker, event.is_update != 0 ? "u" : "");
    else if (event.kind == Kind::drop) told_ += fmt::format("d{} ", event.worker);
    else told_ += "meet ";
  };
  FreeOrder order_;
};

TEST(FreeOrder, IsThatInWhichWorkersComeWithinTheBound) {
  if (Communicator::world().size() > 1) GTEST_SKIP() << "of one rank";
  ToldOrder order({.workers = 3, .collect = 2, .parts = 2, .bound = 1});
  EXPECT_EQ(order.begin(5, 9), "r0:10 r1:11 r2:12 ");
  EXPECT_EQ(order.take(1), "p1 r1:13 ");
  EXPECT_EQ(order.take(1), "p1u ") << "two ahead of the others";
  EXPECT_EQ(order.take(2), "p2 r2:14 ");
  EXPECT_EQ(order.take(0), "p0u r1:15 r0:16 ") << "worker 1 has waited for it, and comes first";
  EXPECT_EQ(order.take(2), "p2 r2:17 ");
  EXPECT_EQ(order.take(2), "p2u ");
  EXPECT_EQ(order.take(0), "p0 ");
  EXPECT_EQ(order.take(1), "p1u meet ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{3, 5}));
}

TEST(FreeOrder, DropsWhatComesTooLate) {
  if (Communicator::world().size() > 1) GTEST_SKIP() << "of one rank";
  ToldOrder order({.workers = 3, .collect = 2, .parts = 3, .is_synchronous = true});
  EXPECT_EQ(order.begin(4, 6), "r0:12 r1:13 r2:14 ");
  EXPECT_EQ(order.take(2), "p2 ") << "all parts of the batch are given out";
  EXPECT_EQ(order.take(0), "p0u r2:15 r0:16 ");
  EXPECT_EQ(order.take(1), "d1 r1:17 ");
  EXPECT_EQ(order.take(0), "p0 ");
  EXPECT_EQ(order.take(1), "p1u ") << "the last update: rank 2 is still at its part";
  EXPECT_EQ(order.take(2), "d2 meet ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(order.dropped(), 2);
}

TEST(FreeOrder, TakesTheFirstOfTwoInTheOrderOfParts) {
  if (Communicator::world().size() > 1) GTEST_SKIP() << "of one rank";
  ToldOrder order({.workers = 4, .collect = 3, .parts = 3, .is_synchronous = true, .duplicates = 1});
  EXPECT_EQ(order.begin(0, 3), "r0:0 r1:1 r2:2 r3:0 ") << "nothing is known of who is slow";
  EXPECT_EQ(order.take(3, 1), "p3 ");
  EXPECT_EQ(order.take(2, 2), "") << "before it comes part 1";
  EXPECT_EQ(order.take(0, 4), "d0 ") << "part 0 is done";
  EXPECT_EQ(order.take(1, 8), "p1 p2u r3:3 r0:4 r1:5 r2:5 ") << "rank 1 was the slowest";
  EXPECT_EQ(order.take(2, 9), "");
  EXPECT_EQ(order.take(0, 10), "");
  EXPECT_EQ(order.take(3, 10), "p3 p0 p2u r3:6 r0:7 r2:8 ");
  EXPECT_EQ(order.take(1, 16), "d1 r1:7 ") << "ranks 0 and 3 took as long as each other";
  EXPECT_EQ(order.take(0, 17), "");
  EXPECT_EQ(order.take(2, 17), "");
  EXPECT_EQ(order.take(3, 18), "p3 p0 p2u ");
  EXPECT_EQ(order.take(1, 19), "d1 meet ");
  EXPECT_EQ(order.counts(), (std::vector<std::int64_t>{9}));
  EXPECT_EQ(order.dropped(), 3);
}

}  // namespace
}  // namespace lockstep
