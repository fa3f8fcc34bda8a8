// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// The share of one of `of` in `total` things: shares are contiguous and differ by at most one, the first are the
/// larger.
struct RankShare {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
RankShare share_of(std::int64_t total, std::int64_t number, std::int64_t of);

/// Where examples stand in a run's course.
struct BatchPlace {
  std::int64_t batch = 0;  ///< number of the run's batch, from 0 on
  std::int64_t epoch = 0;
  std::int64_t first = 0;  ///< position of the first of them in the batch
  bool operator==(const BatchPlace&) const = default;
};

/// Examples of one rank that a step computes at once.
struct MicroBatch {
  std::int64_t first = 0, count = 0;  ///< in the rank's share of the batch; count may be 0
  bool begins = false, ends = false;  ///< a sum of gradients: of the whole share, or of a separate shard
  std::int64_t examples = 0;          ///< in the sum that ends here
  std::optional<BatchPlace> place{};  ///< of which batch they are, where that is not the step's
  bool operator==(const MicroBatch&) const = default;
};

/// How a step's batch is divided among ranks, and on each into micro-batches.
struct BatchPartition {
  std::int64_t ranks = 1;
  std::int64_t shards = 1;  ///< of each rank: parts of its share that have nothing to do with each other
  bool separate = false;    ///< whether the gradients of each shard are a sum of their own
  bool sums_each = false;   ///< whether those of each micro-batch are
  std::int64_t micro = 1;   ///< most examples of a micro-batch
  /// The largest share that a rank may come to have, in equal ones: 1 where they stay equal.
  std::int64_t share_limit = 1;
  /// Of a batch, each rank's: of its separate shards, so many; or of its examples, in this proportion. Empty: equal
  /// ones.
  std::vector<std::int64_t> rank_shares;

  /// No rank has more by `rank_shares`; of equal shares the largest and the smallest.
  std::int64_t largest_share(std::int64_t global_examples) const;
  std::int64_t smallest_share(std::int64_t global_examples) const;
  /// Most examples that any rank may come to have, and most of any micro-batch.
  std::int64_t room(std::int64_t global_examples) const;
  std::int64_t largest_micro_batch(std::int64_t global_examples) const;
  /// Sums of gradients that a rank computes, at most.
  std::int64_t sums(std::int64_t global_examples) const;
};

/// A rank's share: its shards, the parts of the batch of as many ranks, one after the other.
RankShare share_of(const BatchPartition& partition, std::int64_t global_examples, int rank);

/// The micro-batches of a rank. All ranks have equally many, since layers may ask other ranks in each: the last ones of
/// some are empty. (But where ranks have separate shards of unequal number, of which layers ask nobody.)
std::vector<MicroBatch> micro_batches_of(const BatchPartition& partition, std::int64_t global_examples, int rank);

/// The micro-batches of a rank with `own` examples, where no rank has more than `largest`, and none has shards.
std::vector<MicroBatch> micro_batches_of(std::int64_t own, std::int64_t largest, const BatchPartition& partition);

}  // namespace lockstep
