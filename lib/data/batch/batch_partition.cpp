// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/batch_partition.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <numeric>

namespace lockstep {
namespace {

/// Cuts a share into micro-batches of nearly equal size: as many as a share of `largest` examples takes.
void append_micro_batches(RankShare share, std::int64_t largest, std::int64_t micro, std::vector<MicroBatch>& to) {
  const std::int64_t number = std::max<std::int64_t>(1, (largest + micro - 1) / micro);
  for (std::int64_t i = 0; i < number; ++i) {
    const RankShare part = share_of(share.count, i, number);
    to.push_back({.first = share.first + part.first, .count = part.count, .begins = false, .ends = false});
  }
}

/// Marks one sum over all micro-batches, of `examples` examples, or with `each`, one sum for each of them.
void mark_sums(std::vector<MicroBatch>& micro_batches, std::int64_t examples, bool each) {
  micro_batches.front().begins = micro_batches.back().ends = true;
  micro_batches.back().examples = examples;
  if (!each) return;
  for (MicroBatch& micro_batch : micro_batches) {
    micro_batch.begins = micro_batch.ends = true;
    micro_batch.examples = micro_batch.count;
  }
}

/// Numbers of a rank's shards.
RankShare shards_of(const BatchPartition& partition, int rank) {
  const auto& rank_shares = partition.rank_shares;
  if (rank_shares.empty()) return {rank * partition.shards, partition.shards};
  return {std::accumulate(rank_shares.begin(), rank_shares.begin() + rank, std::int64_t{0}),
          rank_shares[static_cast<std::size_t>(rank)]};
}

/// Shares before rounding. Shares outside of the limits are set to these, first on the side where more is cut off, and
/// the other ranks divide the rest.
std::vector<double> ideal_shares(std::span<const double> seconds, double total, double least, double most) {
  const std::size_t ranks = seconds.size();
  std::vector<double> shares(ranks);
  std::vector<bool> is_set(ranks, false);
  for (std::size_t pass = 0; pass <= ranks; ++pass) {
    double left = total, speeds = 0, above = 0, below = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r]) left -= shares[r];
      else speeds += 1 / seconds[r];
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r]) continue;
      shares[r] = left / (speeds * seconds[r]);
      above += std::max(0.0, shares[r] - most);
      below += std::max(0.0, least - shares[r]);
    }
    if (above == 0 && below == 0) break;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (is_set[r] || (above >= below ? shares[r] <= most : shares[r] >= least)) continue;
      shares[r] = above >= below ? most : least;
      is_set[r] = true;
    }
  }
  return shares;
}

}  // namespace

RankShare share_of(std::int64_t total, std::int64_t number, std::int64_t of) {
  const std::int64_t each = total / of, rest = total % of;
  return {number * each + std::min(number, rest), each + (number < rest ? 1 : 0)};
}

std::int64_t BatchPartition::largest_share(std::int64_t global_examples) const {
  if (rank_shares.empty()) return share_of(*this, global_examples, 0).count;
  const std::int64_t total = std::accumulate(rank_shares.begin(), rank_shares.end(), std::int64_t{0});
  if (separate) return std::ranges::max(rank_shares) * share_of(global_examples, 0, total).count;
  return (global_examples * std::ranges::max(rank_shares) + total - 1) / total;
}

std::int64_t BatchPartition::smallest_share(std::int64_t global_examples) const {
  const std::int64_t all = ranks * shards, first = share_of(global_examples, all - shards, all).first;
  return global_examples - first;
}

std::int64_t BatchPartition::room(std::int64_t global_examples) const {
  const std::int64_t all = ranks * shards;
  const auto of_first = [&](std::int64_t some) {  // the first shards, which are the largest
    const RankShare last = share_of(global_examples, some - 1, all);
    return last.first + last.count;
  };
  return separate ? of_first(std::min(all, share_limit * shards))
                  : std::min(global_examples, share_limit * of_first(shards));
}

std::int64_t BatchPartition::largest_micro_batch(std::int64_t global_examples) const {
  const std::int64_t at_once = share_of(global_examples, 0, ranks * shards).count;
  return std::min({micro, global_examples, separate ? at_once : share_limit * at_once});
}

std::int64_t BatchPartition::sums(std::int64_t global_examples) const {
  if (sums_each) return std::ssize(micro_batches_of(*this, global_examples, 0));
  return separate ? std::min(ranks * shards, share_limit * shards) : 1;
}

RankShare share_of(const BatchPartition& partition, std::int64_t global_examples, int rank) {
  const std::int64_t all = partition.ranks * partition.shards;
  if (partition.rank_shares.empty() || partition.separate) {
    const RankShare shards = shards_of(partition, rank);
    const std::int64_t first = share_of(global_examples, shards.first, all).first;
    const RankShare last = share_of(global_examples, shards.first + shards.count - 1, all);
    return {first, last.first + last.count - first};
  }
  const auto& rank_shares = partition.rank_shares;
  const std::int64_t total = std::accumulate(rank_shares.begin(), rank_shares.end(), std::int64_t{0});
  const std::int64_t before = std::accumulate(rank_shares.begin(), rank_shares.begin() + rank, std::int64_t{0});
  const std::int64_t first = global_examples * before / total;
  return {first, global_examples * (before + rank_shares[static_cast<std::size_t>(rank)]) / total - first};
}

std::vector<MicroBatch> micro_batches_of(const BatchPartition& partition, std::int64_t global_examples, int rank) {
  std::vector<MicroBatch> micro_batches;
  const std::int64_t all = partition.ranks * partition.shards;
  const RankShare own = share_of(partition, global_examples, rank);
  if (!partition.rank_shares.empty() && !partition.separate)
    return micro_batches_of(own.count, partition.largest_share(global_examples), partition);
  const RankShare shards = shards_of(partition, rank);
  for (std::int64_t shard = 0; shard < shards.count; ++shard) {
    const RankShare share = share_of(global_examples, shards.first + shard, all);
    // As many micro-batches as the first rank's shard of this number, which is the largest.
    const std::int64_t most = share_of(global_examples, shard, all).count;
    const std::size_t before = micro_batches.size();
    append_micro_batches({share.first - own.first, share.count}, most, partition.micro, micro_batches);
    if (!partition.separate) continue;
    micro_batches[before].begins = micro_batches.back().ends = true;
    micro_batches.back().examples = share.count;
  }
  if (partition.separate) return micro_batches;
  mark_sums(micro_batches, own.count, partition.sums_each);
  return micro_batches;
}

std::vector<MicroBatch> micro_batches_of(std::int64_t own, std::int64_t largest, const BatchPartition& partition) {
  std::vector<MicroBatch> micro_batches;
  append_micro_batches({0, own}, largest, partition.micro, micro_batches);
  mark_sums(micro_batches, own, partition.sums_each);
  return micro_batches;
}

std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t total, std::int64_t least,
                                          std::int64_t most) {
  assert(std::ssize(seconds) * least <= total && total <= std::ssize(seconds) * most);
  const std::vector<double> ideal = ideal_shares(seconds, static_cast<double>(total), static_cast<double>(least),
                                                 static_cast<double>(most));
  std::vector<std::int64_t> shares;
  std::int64_t left = total;
  for (const double share : ideal) {
    shares.push_back(std::clamp(static_cast<std::int64_t>(std::floor(share)), least, most));
    left -= shares.back();
  }
  for (; left != 0; left += left > 0 ? -1 : 1) {
    std::size_t chosen = shares.size();
    double farthest = 0;
    for (std::size_t r = 0; r < shares.size(); ++r) {
      if (left > 0 ? shares[r] >= most : shares[r] <= least) continue;
      const double missing = (ideal[r] - static_cast<double>(shares[r])) * (left > 0 ? 1 : -1);
      if (chosen < shares.size() && missing <= farthest) continue;
      chosen = r;
      farthest = missing;
    }
    shares[chosen] += left > 0 ? 1 : -1;
  }
  return shares;
}

double slowest_share(std::span<const double> seconds, std::span<const std::int64_t> shares) {
  double slowest = 0;
  for (std::size_t r = 0; r < shares.size(); ++r)
    slowest = std::max(slowest, seconds[r] * static_cast<double>(shares[r]));
  return slowest;
}

bool is_worth_changing(std::span<const double> seconds, std::span<const std::int64_t> now,
                       std::span<const std::int64_t> next) {
  constexpr double least_gain = 0.04;
  return slowest_share(seconds, next) < (1 - least_gain) * slowest_share(seconds, now);
}

}  // namespace lockstep
