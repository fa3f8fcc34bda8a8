// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// The example at each place of an epoch, 0 … size − 1.
struct EpochOrder {
  std::int64_t size = 0;
  std::function<std::int64_t(std::int64_t place)> example;
};

/// Returns the order of epoch number `epoch`, from 0 on. It depends on the number alone, so that a run may go on
/// anywhere.
using Sampling = std::function<EpochOrder(std::int64_t epoch)>;

/// Each example once, in an order that is computed (core/permutation.hpp) or, without shuffle, as stored. Throws
/// bad_data if there are no examples.
Sampling each_once(std::int64_t examples, bool shuffle, std::uint64_t seed);

/// The indices of PyTorch's torch.utils.data.DistributedSampler for all ranks together, of which each rank takes every
/// `ranks`-th. The order is torch.randperm with the seed plus the epoch (MT19937; Fisher and Yates' shuffle from the
/// front); its first indices are repeated at the end to reach a multiple of the ranks or, with `drop_last`, as many as
/// needed are left out.
Sampling distributed_sampler(std::int64_t examples, std::int64_t ranks, bool shuffle, bool drop_last,
                             std::uint64_t seed);

/// As many draws as there are examples, with replacement: example i has the probability weights[i] / Σ weights.
Sampling weighted_sampling(const std::vector<double>& weights, std::uint64_t seed);

/// As many draws as there are examples, with replacement: all classes that occur are equally likely, and so are the
/// examples of a class. Examples of the class `ignored` (-1: none) are never drawn; there must be others.
Sampling class_balanced_sampling(const std::vector<std::int32_t>& classes, std::uint64_t seed,
                                 std::int64_t ignored = -1);

}  // namespace lockstep
