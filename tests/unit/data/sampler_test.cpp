// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/run_length.hpp"
#include "support/scratch.hpp"

namespace lockstep::test {
namespace {

using Batches = std::vector<std::vector<std::int64_t>>;

std::vector<BatchPlan> plans_of(Sampler sampler, std::size_t most = 1000) {
  std::vector<BatchPlan> plans;
  while (plans.size() < most) {
    auto plan = sampler.next();
    if (!plan) break;
    plans.push_back(*plan);
  }
  return plans;
}

/// The global batches that `ranks` ranks see together, in the order of their ranks.
Batches global_batches(Sampler::Options options, int ranks) {
  Batches batches;
  for (int rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    options.partition.ranks = ranks;
    const auto plans = plans_of(Sampler(options));
    batches.resize(plans.size());
    for (std::size_t b = 0; b < plans.size(); ++b) {
      EXPECT_EQ(static_cast<std::size_t>(plans[b].first), batches[b].size());
      batches[b].insert(batches[b].end(), plans[b].examples.begin(), plans[b].examples.end());
      EXPECT_GE(plans[b].global_examples, static_cast<std::int64_t>(batches[b].size()));
    }
  }
  return batches;
}

TEST(RankShare, CoversAllAndDiffersByOne) {
  for (const std::int64_t total : {0, 1, 2, 7, 96, 97})
    for (int ranks = 1; ranks < 9; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const RankShare share = share_of(total, rank, ranks);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(share.count - total / ranks, 1);
        EXPECT_GE(share.count, total / ranks);
        next += share.count;
      }
      EXPECT_EQ(next, total);
    }
}

TEST(Sampler, EachExampleOnceAnEpochForAnyRanksAndBatch) {
  for (const std::int64_t size : {1, 10, 97})
    for (const std::int64_t batch : {1, 3, 10, 64, 200})
      for (const int ranks : {1, 2, 3, 4, 7}) {
        const auto batches = global_batches({.dataset_size = size, .global_batch = batch, .seed = 5, .epochs = 2},
                                            ranks);
        std::vector<int> seen(static_cast<std::size_t>(size), 0);
        for (const auto& examples : batches)
          for (const auto example : examples) ++seen[static_cast<std::size_t>(example)];
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 2), size) << size << " " << batch << " " << ranks;
      }
}

TEST(Sampler, SameGlobalBatchesForAnyNumberOfRanks) {
  const Sampler::Options options{.dataset_size = 101, .global_batch = 17, .seed = 3, .epochs = 3};
  const auto one = global_batches(options, 1);
  for (const int ranks : {2, 3, 4, 20}) EXPECT_EQ(one, global_batches(options, ranks));
}

TEST(Sampler, OrderDependsOnSeedAndEpochOnly) {
  const Sampler::Options options{.dataset_size = 50, .global_batch = 50, .seed = 3, .epochs = 2};
  Sampler::Options other = options;
  other.seed = 4;
  const auto first = global_batches(options, 1), again = global_batches(options, 1);
  EXPECT_EQ(first, again);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], global_batches(other, 1)[0]);
}

TEST(Sampler, FileOrderWithoutShuffle) {
  const auto batches = global_batches({.dataset_size = 5, .global_batch = 2, .shuffle = false, .epochs = 2}, 1);
  EXPECT_EQ(batches, (Batches{{0, 1}, {2, 3}, {4}, {0, 1}, {2, 3}, {4}}));
}

TEST(Sampler, CountsAndMarksTheRaggedEnd) {
  const Sampler sampler({.dataset_size = 10, .global_batch = 4, .epochs = 1});
  const auto plans = plans_of(sampler);
  ASSERT_EQ(plans.size(), 3u);
  EXPECT_FALSE(plans[1].last_of_epoch);
  EXPECT_TRUE(plans[2].last_of_epoch);
  EXPECT_EQ(plans[2].global_examples, 2);
}

TEST(Sampler, DropLast) {
  Sampler::Options options{.dataset_size = 10, .global_batch = 4, .drop_last = true, .epochs = 2};
  const auto plans = plans_of(Sampler(options));
  ASSERT_EQ(plans.size(), 4u);
  EXPECT_TRUE(plans[1].last_of_epoch);
  EXPECT_EQ(plans[2].epoch, 1);
  for (const auto& plan : plans) EXPECT_EQ(plan.global_examples, 4);
}

TEST(Sampler, ABatchLargerThanTheDatasetIsTheDataset) {
  for (const bool drop_last : {false, true})
    for (const std::int64_t batch : {100, 128}) {
      const auto plans = plans_of(
          Sampler({.dataset_size = 100, .global_batch = batch, .drop_last = drop_last, .epochs = 2}));
      ASSERT_EQ(plans.size(), 2u);
      for (const auto& plan : plans) EXPECT_EQ(plan.global_examples, 100);
    }
}

TEST(Sampler, NeedsExamples) {
  try {
    const Sampler sampler({.dataset_size = 0, .global_batch = 1});
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_data);
    EXPECT_NE(std::string(error.what()).find("no examples"), std::string::npos) << error.what();
  }
}

TEST(Sampler, BatchesChangeOnTheWay) {
  using Unit = TrainingSpan::Unit;
  for (const bool drop_last : {false, true}) {
    const RunLength length(23, drop_last, {{{}, 4}, {{30, Unit::examples}, 7}, {{3, Unit::epochs}, 10}}, 5,
                           std::nullopt);
    const auto plans = plans_of(
        Sampler({.dataset_size = 23,
                 .batch_at = [&](const SamplerPosition& at) { return length.batch_at(at.epoch, at.next); },
                 .drop_last = drop_last,
                 .epochs = 5}));
    ASSERT_EQ(plans.size(), static_cast<std::size_t>(length.steps()));
    for (std::size_t step = 0; step < plans.size(); ++step) {
      const RunPoint point = length.point_of({static_cast<double>(step), Unit::steps});
      EXPECT_EQ(plans[step].epoch, point.epoch) << step;
      EXPECT_LE(plans[step].global_examples, length.batch_at_step(static_cast<std::int64_t>(step))) << step;
      if (drop_last || !plans[step].last_of_epoch) {
        EXPECT_EQ(plans[step].global_examples, length.batch_at_step(static_cast<std::int64_t>(step))) << step;
      }
    }
  }
}

TEST(Sampler, GoesOnFromAnyPosition) {
  const Sampler::Options options{
      .dataset_size = 23, .global_batch = 5, .seed = 8, .epochs = 3, .rank = 1, .partition = {.ranks = 2}};
  const auto all = plans_of(Sampler(options));
  for (std::size_t done = 0; done < all.size(); ++done) {
    const SamplerPosition start = done == 0 ? SamplerPosition{} : all[done - 1].after;
    const auto rest = plans_of(Sampler(options, start));
    ASSERT_EQ(rest.size(), all.size() - done);
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].examples, all[done + i].examples);
  }
  // A position may also give the end of an epoch as all examples of that epoch taken.
  EXPECT_EQ(plans_of(Sampler(options, {0, 23}))[0].examples, all[5].examples);
  EXPECT_TRUE(plans_of(Sampler(options, all.back().after)).empty());
}

TEST(Sampler, EndlessWithoutEpochs) {
  EXPECT_EQ(plans_of(Sampler({.dataset_size = 3, .global_batch = 2})).size(), 1000u);
}

/// Every place is equally likely for every example (a chi-squared test with a fixed seed).
TEST(Sampler, ShufflesEvenly) {
  constexpr int n = 6, epochs = 6000;
  int counts[n][n] = {};
  for (const auto& plan :
       plans_of(Sampler({.dataset_size = n, .global_batch = n, .seed = 1, .epochs = epochs}), epochs))
    for (std::size_t place = 0; place < n; ++place) ++counts[plan.examples[place]][place];
  double chi_squared = 0;
  for (const auto& row : counts)
    for (const int count : row) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  // A permutation has each example and each place once, so that χ² with 25 degrees of freedom is 6/5 times as large.
  // The limit is exceeded by chance once in a thousand.
  EXPECT_LT(chi_squared, 6.0 / 5 * 52.6);
}

/// Each rank reads, batch by batch, what it would read by PyTorch's DistributedSampler.
TEST(Sampler, DistributedSamplerIsPyTorchs) {
  for (const auto& golden : nlohmann::json::parse(read_golden("samplers.json"))) {
    const std::int64_t n = golden.at("n");
    const int ranks = golden.at("ranks");
    SCOPED_TRACE(fmt::format("{} examples on {} ranks", n, ranks));
    const bool drop_last = golden.at("drop_last");
    for (int rank = 0; rank < ranks; ++rank) {
      Sampler sampler({.dataset_size = n,
                       .global_batch = golden.at("batch"),
                       .drop_last = drop_last,
                       .sampling = distributed_sampler(n, ranks, golden.at("shuffle"), drop_last, golden.at("seed")),
                       .interleaved = Sampler::Options::Turn{rank, ranks},
                       .epochs = 2,
                       .rank = rank,
                       .partition = {.ranks = ranks}});
      for (const auto& epoch : golden.at("epochs"))
        for (const auto& batch : epoch.at(static_cast<std::size_t>(rank)))
          EXPECT_EQ(sampler.next().value().examples, batch.get<std::vector<std::int64_t>>());
      EXPECT_FALSE(sampler.next().has_value());
    }
  }
}

/// In 20000 draws each example has about its share, and one of weight 0 none, in the same way on any number of ranks.
TEST(Sampler, DrawsByWeight) {
  constexpr std::int64_t n = 20000;
  std::vector<double> weights(n, 0.0);
  weights[3] = 1;
  weights[700] = 2;
  weights[n - 2] = 5;
  const Sampler::Options options{
      .dataset_size = n, .global_batch = 1000, .sampling = weighted_sampling(weights, 5), .epochs = 2};
  const Batches one = global_batches(options, 1);
  EXPECT_EQ(one, global_batches(options, 3));
  EXPECT_NE(one[0], one[20]) << "epochs differ";
  std::map<std::int64_t, int> count;
  for (std::size_t b = 0; b < 20; ++b)
    for (const std::int64_t example : one[b]) ++count[example];
  EXPECT_EQ(count.size(), 3u);
  EXPECT_NEAR(count[3], 2500, 250);
  EXPECT_NEAR(count[700], 5000, 350);
  EXPECT_NEAR(count[n - 2], 12500, 400);
}

TEST(Sampler, DrawsEachClassAlike) {
  std::vector<std::int32_t> classes(9000, 7);
  for (std::size_t i = 0; i < 30; ++i) classes[300 * i] = 2;
  const Batches batches = global_batches(
      {.dataset_size = 9000, .global_batch = 100, .sampling = class_balanced_sampling(classes, 1), .epochs = 1}, 2);
  std::map<std::int64_t, int> count;
  int rare = 0;
  for (const auto& batch : batches)
    for (const std::int64_t example : batch) {
      ++count[example];
      rare += classes[static_cast<std::size_t>(example)] == 2 ? 1 : 0;
    }
  EXPECT_NEAR(rare, 4500, 250);
  for (std::int64_t i = 0; i < 30; ++i) EXPECT_NEAR(count[300 * i], 150, 60);
}

/// The class that the loss ignores is not balanced with the others, which share the whole epoch.
TEST(Sampler, DrawsNoExampleOfAnIgnoredClass) {
  std::vector<std::int32_t> classes(3000, 7);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = i % 3 == 0 ? 255 : i % 30 == 1 ? 2 : 7;
  const EpochOrder order = class_balanced_sampling(classes, 1, 255)(0);
  EXPECT_EQ(order.size, 3000);
  std::map<std::int32_t, int> count;
  for (std::int64_t place = 0; place < order.size; ++place)
    ++count[classes[static_cast<std::size_t>(order.example(place))]];
  EXPECT_EQ(count.size(), 2u);
  EXPECT_NEAR(count[2], 1500, 150);
  // An ignored class that no example has changes no draw.
  const EpochOrder plain = class_balanced_sampling(classes, 1)(0), other = class_balanced_sampling(classes, 1, 9)(0);
  for (std::int64_t place = 0; place < 100; ++place) EXPECT_EQ(plain.example(place), other.example(place));
}

TEST(Sampler, GoesOnAnywhereInAnySampling) {
  for (const bool weighted : {false, true}) {
    const Sampler::Options options{.dataset_size = 23,
                                   .global_batch = 6,
                                   .sampling = weighted ? weighted_sampling(std::vector<double>(23, 0.5), 3)
                                                        : distributed_sampler(23, 3, true, false, 3),
                                   .interleaved = weighted ? std::nullopt : std::optional(Sampler::Options::Turn{1, 3}),
                                   .epochs = 3,
                                   .rank = 1,
                                   .partition = {.ranks = 3}};
    const auto all = plans_of(Sampler(options));
    for (std::size_t done = 1; done < all.size(); ++done) {
      const auto rest = plans_of(Sampler(options, all[done - 1].after));
      ASSERT_EQ(rest.size(), all.size() - done);
      for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].examples, all[done + i].examples);
    }
  }
}

TEST(Sampler, HasPartsOfBatchesInAnyOrder) {
  // A batch has 4 parts of 3 examples, which two ranks divide; 27 examples make two batches an epoch.
  Sampler::Options options{
      .dataset_size = 27, .global_batch = 12, .seed = 5, .drop_last = true, .partition = {.ranks = 2, .micro = 1}};
  Sampler batches({.dataset_size = 27, .global_batch = 12, .seed = 5, .drop_last = true});
  options.parts_of_batch = 4;
  std::vector<BatchPlan> plans;
  for (int batch = 0; batch < 5; ++batch) plans.push_back(*batches.next());
  for (int rank = 0; rank < 2; ++rank) {
    options.rank = rank;
    Sampler parts(options);
    for (const std::int64_t number : {17, 0, 3, 12, 7, 16, 1}) {
      const BatchPlan part = parts.part(number);
      const BatchPlan& whole = plans[static_cast<std::size_t>(number / 4)];
      const std::int64_t place = 3 * (number % 4) + 2 * rank, count = 2 - rank;
      const auto first = whole.examples.begin() + place;
      EXPECT_EQ(part.examples, std::vector<std::int64_t>(first, first + count));
      EXPECT_EQ(part.draws, part.examples);
      EXPECT_EQ(part.epoch, whole.epoch);
      EXPECT_EQ(part.first, place);
      EXPECT_EQ(part.global_examples, 3);
      ASSERT_EQ(part.micro_batches.size(), 2u) << "as many as the other rank has";
      EXPECT_EQ(part.micro_batches[1], (MicroBatch{.first = 1, .count = count - 1, .ends = true, .examples = count}));
    }
    EXPECT_EQ(parts.position_after(3), plans[2].after);
  }

  // Parts in a known order, half of which each of two ranks takes.
  const std::vector<std::int64_t> order{5, 0, 2, 1, 3, 4, 8, 7};
  options.partition = {.ranks = 2, .shards = 2, .separate = true, .micro = 3};
  options.rank = 1;
  options.parts_of = [&](std::int64_t step) {
    return step > 2 ? std::span<const std::int64_t>()
                    : std::span(order).subspan(static_cast<std::size_t>(4 * step - 4), 4);
  };
  Sampler known(options);
  const BatchPlan first = *known.next();
  const auto& examples = plans[0].examples;
  EXPECT_EQ(first.examples,
            (std::vector{examples[6], examples[7], examples[8], examples[3], examples[4], examples[5]}));
  EXPECT_EQ(first.global_examples, 12);
  EXPECT_EQ(first.after, plans[0].after);
  EXPECT_EQ(known.next()->after, plans[1].after);
  EXPECT_FALSE(known.next()) << "what comes after is not known";

  // Steps with only two of the four parts.
  const std::vector<std::int64_t> some{3, 1};
  options.parts_of = [&](std::int64_t) { return std::span(some); };
  const BatchPlan half = *Sampler(options).next();
  EXPECT_EQ(half.examples, std::vector(examples.begin() + 3, examples.begin() + 6));
  EXPECT_EQ(half.global_examples, 6);
  EXPECT_EQ(half.after, plans[0].after);

  options.batches = 1;
  EXPECT_THROW(Sampler{options}, Error) << "the run stands elsewhere";
}

/// Augmentation is drawn by an example's number, or by its place in the epoch where an example may come twice.
TEST(Sampler, AugmentsEachDrawAnew) {
  const auto order = [](std::int64_t) {
    return EpochOrder{.size = 6, .example = [](std::int64_t i) { return i % 2; }};
  };
  for (const bool repeats : {false, true}) {
    Sampler sampler({.dataset_size = 6, .global_batch = 4, .sampling = order, .repeats = repeats});
    const auto first = sampler.next(), second = sampler.next();
    EXPECT_EQ(first->examples, (std::vector<std::int64_t>{0, 1, 0, 1}));
    EXPECT_EQ(first->draws, repeats ? (std::vector<std::int64_t>{0, 1, 2, 3}) : first->examples);
    EXPECT_EQ(second->draws, repeats ? (std::vector<std::int64_t>{4, 5}) : second->examples);
    EXPECT_EQ(second->next_draw, repeats ? 4 : 0);
  }
}

}  // namespace
}  // namespace lockstep::test
