// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// Share number `number` when `total` things are divided into `of` shares. Shares are contiguous and differ by at most
/// one; larger ones come first.
struct RankShare {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
RankShare share_of(std::int64_t total, std::int64_t number, std::int64_t of);

/// Position of examples in a run.
struct BatchPlace {
  std::int64_t batch = 0;  ///< number of the run's batch, from 0 on
  std::int64_t epoch = 0;
  std::int64_t first = 0;  ///< position in the batch of the first of these examples
  bool operator==(const BatchPlace&) const = default;
};

/// Examples of one rank that a step computes at once.
struct MicroBatch {
  std::int64_t first = 0, count = 0;  ///< in the rank's share of the batch; count may be 0
  bool begins = false, ends = false;  ///< whether a sum of gradients begins or ends with it: that of the whole share,
                                      ///< or of a separate shard
  std::int64_t examples = 0;          ///< examples in the sum that ends here
  std::optional<BatchPlace> place{};  ///< the batch of its examples, if that is not the step's
  bool operator==(const MicroBatch&) const = default;
};

/// How a step's batch is divided among ranks, and on each into micro-batches of nearly equal size.
struct BatchPartition {
  std::int64_t ranks = 1;
  std::int64_t shards = 1;  ///< parts of each rank's share that have nothing to do with each other
  bool separate = false;    ///< whether the gradients of each shard have a sum of their own
  bool sums_each = false;   ///< whether the gradients of each micro-batch have a sum of their own
  std::int64_t micro = 1;   ///< most examples of a micro-batch
  /// The largest share that a rank may come to have, as a multiple of an equal share; 1: shares stay equal.
  std::int64_t share_limit = 1;
  /// Shares of the ranks in a batch: numbers of separate shards, or proportions of the examples. Empty: equal shares.
  std::vector<std::int64_t> rank_shares;

  /// The most examples of any rank by `rank_shares`, and the fewest of any rank if shares are equal.
  std::int64_t largest_share(std::int64_t global_examples) const;
  std::int64_t smallest_share(std::int64_t global_examples) const;
  /// The most examples that any rank may come to have, and the most of any micro-batch.
  std::int64_t room(std::int64_t global_examples) const;
  std::int64_t largest_micro_batch(std::int64_t global_examples) const;
  /// The most sums of gradients that a rank computes.
  std::int64_t sums(std::int64_t global_examples) const;
};

/// Share of a rank: its shards, one after the other, as the batch is divided into the shards of all ranks.
RankShare share_of(const BatchPartition& partition, std::int64_t global_examples, int rank);

/// Returns a rank's micro-batches: as few as `micro` allows, of sizes that differ by at most one. All ranks have
/// equally many, because layers may communicate in each, so the last ones may be empty. Exception: ranks with unequal
/// numbers of separate shards, where layers do not communicate.
std::vector<MicroBatch> micro_batches_of(const BatchPartition& partition, std::int64_t global_examples, int rank);

/// Micro-batches of a rank with `own` examples, if no rank has more than `largest`, and none has shards.
std::vector<MicroBatch> micro_batches_of(std::int64_t own, std::int64_t largest, const BatchPartition& partition);

/// Shares of ranks in `total` examples or shards, such that all ranks take about the same time: in proportion to 1 /
/// seconds (the seconds of each rank for one part), rounded by largest remainders (Hamilton's method; the lower rank
/// wins ties), each from `least` to `most`, which must be possible.
std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t total, std::int64_t least,
                                          std::int64_t most);

/// Seconds until the slowest rank has done its share.
double slowest_share(std::span<const double> seconds, std::span<const std::int64_t> shares);

/// Whether `next` shortens a step, compared with `now`, by more than times differ by chance.
bool is_worth_changing(std::span<const double> seconds, std::span<const std::int64_t> now,
                       std::span<const std::int64_t> next);

}  // namespace lockstep
