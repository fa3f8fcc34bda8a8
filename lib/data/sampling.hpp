// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// Which example stands at each place of an epoch, 0 … size − 1.
struct EpochOrder {
  std::int64_t size = 0;
  std::function<std::int64_t(std::int64_t place)> example;
};

/// The order of epoch number `epoch`, from 0: a function of it alone, so that a run may go on anywhere.
using Sampling = std::function<EpochOrder(std::int64_t epoch)>;

/// Each example once, in an order that is computed (core/permutation.hpp), or as they are stored. Throws bad_data where
/// there are none.
Sampling each_once(std::int64_t examples, bool shuffle, std::uint64_t seed);

/// PyTorch's torch.utils.data.DistributedSampler of so many ranks: the indices of all of them together, whose every
/// `ranks`-th is one rank's. torch.randperm of the seed plus the epoch (MT19937; Fisher and Yates' shuffle from the
/// front), then as many of the first ones again as make them a multiple of the ranks, or `drop_last` as many less.
Sampling distributed_sampler(std::int64_t examples, std::int64_t ranks, bool shuffle, bool drop_last,
                             std::uint64_t seed);

/// As many draws as there are examples, with replacement: example i with a probability of weights[i] / Σ weights.
Sampling weighted_sampling(const std::vector<double>& weights, std::uint64_t seed);

/// As many draws as there are examples, with replacement: each class that occurs is as likely as the others, and each
/// example as the others of its class. Examples of the class `ignored` (-1: there is none) are never drawn; there must
/// be others.
Sampling class_balanced_sampling(const std::vector<std::int32_t>& classes, std::uint64_t seed,
                                 std::int64_t ignored = -1);

}  // namespace lockstep
