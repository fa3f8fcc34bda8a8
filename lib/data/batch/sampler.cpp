// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/sampler.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "core/random.hpp"

namespace lockstep {
namespace {

/// torch.randperm(n, generator=torch.Generator().manual_seed(seed)) for n < 2³² / 20 and for the seeds of decks, which
/// are below 2⁵³. Larger seeds give other orders.
std::vector<std::int64_t> torch_randperm(std::int64_t n, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed ^ seed >> 53 << 16));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = 0; i + 1 < order.size(); ++i) std::swap(order[i], order[i + random() % (order.size() - i)]);
  return order;
}

RandomStream draws(std::uint64_t seed, std::int64_t epoch) {
  return {seed, RandomPurpose::sampling, static_cast<std::uint64_t>(epoch)};
}

}  // namespace

Sampling each_once(std::int64_t examples, bool shuffle, std::uint64_t seed) {
  validate(examples > 0, ExitStatus::bad_data, "the dataset has no examples; give one that has some");
  return [=](std::int64_t epoch) -> EpochOrder {
    if (!shuffle) return {examples, [](std::int64_t place) { return place; }};
    const RandomStream random(seed, RandomPurpose::shuffle, static_cast<std::uint64_t>(epoch));
    return {examples, [order = Permutation(examples, random)](std::int64_t place) { return order(place); }};
  };
}

Sampling distributed_sampler(std::int64_t examples, std::int64_t ranks, bool shuffle, bool drop_last,
                             std::uint64_t seed) {
  const std::int64_t whole = examples / ranks * ranks, size = drop_last || whole == examples ? whole : whole + ranks;
  return [=](std::int64_t epoch) -> EpochOrder {
    if (!shuffle) return {size, [=](std::int64_t place) { return place % examples; }};
    const auto order = std::make_shared<const std::vector<std::int64_t>>(
        torch_randperm(examples, seed + static_cast<std::uint64_t>(epoch)));
    return {size, [=](std::int64_t place) { return (*order)[static_cast<std::size_t>(place % examples)]; }};
  };
}

Sampling weighted_sampling(const std::vector<double>& weights, std::uint64_t seed) {
  auto sums = std::make_shared<std::vector<double>>(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums->begin());
  const auto examples = static_cast<std::int64_t>(weights.size());
  return [sums, examples, seed](std::int64_t epoch) -> EpochOrder {
    return {examples, [sums, random = draws(seed, epoch)](std::int64_t place) {
              const double wanted = random.uniform(static_cast<std::uint64_t>(place)) * sums->back();
              // The first sum above `wanted` is that of an example with a weight above 0. Through rounding there may be
              // none; then the last such example is taken.
              const auto found = std::ranges::upper_bound(*sums, wanted);
              return std::min(found, std::ranges::lower_bound(*sums, sums->back())) - sums->begin();
            }};
  };
}

Sampling class_balanced_sampling(const std::vector<std::int32_t>& classes, std::uint64_t seed, std::int64_t ignored) {
  std::map<std::int32_t, std::vector<std::int64_t>> examples_of;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes[i] != ignored) examples_of[classes[i]].push_back(static_cast<std::int64_t>(i));
  auto lists = std::make_shared<std::vector<std::vector<std::int64_t>>>();
  for (auto& [number, examples] : examples_of) lists->push_back(std::move(examples));
  const auto examples = static_cast<std::int64_t>(classes.size());
  return [lists, examples, seed](std::int64_t epoch) -> EpochOrder {
    return {examples, [lists, random = draws(seed, epoch)](std::int64_t place) {
              const auto number = 2 * static_cast<std::uint64_t>(place);
              const auto& list = (*lists)[random.below(lists->size(), number)];
              return list[random.below(list.size(), number + 1)];
            }};
  };
}

Sampler::Sampler(const Options& options, SamplerPosition start) : options_(options), position_(start) {
  if (!options_.batch_at) options_.batch_at = [batch = options.global_batch](const SamplerPosition&) { return batch; };
  if (!options_.sampling) options_.sampling = each_once(options.dataset_size, options.shuffle, options.seed);
  order_ = options_.sampling(start.epoch);
  order_epoch_ = start.epoch;
  validate(options_.parts_of_batch == 0 || position_ == position_after(options_.batches), ExitStatus::bad_data,
           "epoch {}, example {} is not where {} batches of {} examples end (the run takes parts of batches in an "
           "order of their own); continue it with the batch.global and data that it began with",
           start.epoch + 1, start.next, options_.batches, options_.global_batch);
  end_epoch();
}

SamplerPosition Sampler::position_after(std::int64_t batches) const {
  const std::int64_t of_epoch = order_.size / options_.global_batch;
  return {batches / of_epoch, batches % of_epoch * options_.global_batch};
}

SamplerPosition Sampler::go_to(std::int64_t batch) {
  const SamplerPosition at = position_after(batch);
  if (std::exchange(order_epoch_, at.epoch) != at.epoch) order_ = options_.sampling(at.epoch);
  return at;
}

void Sampler::add_example(std::int64_t place, BatchPlan& plan) const {
  plan.examples.push_back(order_.example(place));
  plan.draws.push_back(draw_of(plan.examples.back(), place));
}

void Sampler::add_part(std::int64_t number, BatchPlan& plan) {
  const std::int64_t batch = number / options_.parts_of_batch;
  const SamplerPosition at = go_to(batch);
  const RankShare share = share_of(options_.global_batch, number % options_.parts_of_batch, options_.parts_of_batch);
  const auto before = std::ssize(plan.examples);
  for (std::int64_t i = 0; i < share.count; ++i) add_example(at.next + share.first + i, plan);
  for (MicroBatch& micro_batch : micro_batches_of(share.count, share.count, {.micro = options_.partition.micro})) {
    micro_batch.place = BatchPlace{batch, at.epoch, share.first + micro_batch.first};
    micro_batch.first += before;
    plan.micro_batches.push_back(micro_batch);
  }
}

BatchPlan Sampler::part(std::int64_t number) {
  const SamplerPosition at = go_to(number / options_.parts_of_batch);
  const RankShare part = share_of(options_.global_batch, number % options_.parts_of_batch, options_.parts_of_batch),
                  own = share_of(options_.partition, part.count, options_.rank);
  BatchPlan plan{
      .epoch = at.epoch, .batch_examples = part.count, .global_examples = part.count, .first = part.first + own.first};
  for (std::int64_t i = 0; i < own.count; ++i) add_example(at.next + plan.first + i, plan);
  plan.micro_batches = micro_batches_of(options_.partition, part.count, options_.rank);
  return plan;
}

/// Plans this rank's share of the parts that the next step takes.
std::optional<BatchPlan> Sampler::next_parts() {
  BatchPlan plan;
  const std::span<const std::int64_t> parts = options_.parts_of(++options_.batches);
  if (parts.empty()) return std::nullopt;
  const RankShare own = share_of(std::ssize(parts), options_.rank, options_.partition.ranks);
  for (std::int64_t i = 0; i < own.count; ++i) add_part(parts[static_cast<std::size_t>(own.first + i)], plan);
  plan.global_examples = plan.batch_examples = std::ssize(parts) * options_.global_batch / options_.parts_of_batch;
  plan.epoch = position_.epoch;
  position_ = position_after(options_.batches);
  plan.last_of_epoch = position_.next == 0;
  plan.after = position_;
  return plan;
}

bool Sampler::end_epoch() {
  // A batch that is larger than the dataset is the dataset.
  const std::int64_t least = options_.drop_last ? std::min(options_.batch_at(position_), order_.size) : 1;
  if (order_.size - position_.next >= least) return false;
  position_ = {position_.epoch + 1, 0};
  order_ = options_.sampling(position_.epoch);
  return true;
}

std::optional<BatchPlan> Sampler::next() {
  if (options_.epochs && position_.epoch >= *options_.epochs) return std::nullopt;
  if (options_.parts_of) return next_parts();
  BatchPlan plan;
  plan.epoch = position_.epoch;
  plan.batch_examples = std::min(options_.batch_at(position_), order_.size - position_.next);
  const RankShare part = options_.part_of ? options_.part_of(plan.batch_examples) : RankShare{0, plan.batch_examples};
  plan.global_examples = part.count;
  const RankShare share = share_of(options_.partition, plan.global_examples, options_.rank);
  plan.first = part.first + share.first;
  plan.micro_batches = micro_batches_of(options_.partition, plan.global_examples, options_.rank);
  plan.rank_shares = options_.partition.rank_shares;
  plan.examples.reserve(static_cast<std::size_t>(share.count));
  plan.draws.reserve(static_cast<std::size_t>(share.count));
  const auto place_of = [&](std::int64_t i) {
    const std::int64_t in_batch = options_.interleaved ? i * options_.interleaved->of + options_.interleaved->rank
                                                       : plan.first + i;
    return position_.next + in_batch % plan.batch_examples;
  };
  for (std::int64_t i = 0; i < share.count; ++i) add_example(place_of(i), plan);
  if (share.count > 0) {
    plan.next_example = order_.example(place_of(share.count));
    plan.next_draw = draw_of(plan.next_example, place_of(share.count));
  }

  position_.next += plan.batch_examples;
  plan.last_of_epoch = end_epoch();
  plan.after = position_;
  return plan;
}

}  // namespace lockstep
