// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/sampling.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "core/permutation.hpp"

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

}  // namespace lockstep
