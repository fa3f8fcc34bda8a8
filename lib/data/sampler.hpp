// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "data/batch_partition.hpp"
#include "data/sampling.hpp"

namespace lockstep {

/// Where a sampler stands: `next` examples of `epoch` have been given out.
struct SamplerPosition {
  std::int64_t epoch = 0;
  std::int64_t next = 0;
  friend bool operator==(const SamplerPosition&, const SamplerPosition&) = default;
};

/// Which examples one rank computes in one step.
struct BatchPlan {
  std::int64_t epoch = 0;            ///< from 0
  std::int64_t global_examples = 0;  ///< of all ranks together; the gradient sum is divided by it
  std::int64_t first = 0;            ///< position of this rank's first example in the global batch
  bool last_of_epoch = false;
  SamplerPosition after;                  ///< a sampler that starts here goes on with the next batch
  std::vector<std::int64_t> examples;     ///< of this rank, may be empty
  std::int64_t next_example = 0;          ///< that stands behind them in the batch, whose first one is behind its last
  std::vector<MicroBatch> micro_batches;  ///< of them
  std::vector<std::int64_t> parts;        ///< by which the ranks have divided the batch (BatchPartition)
};

/// Another number for each version of Sampler that deals out other examples for the same seed.
inline constexpr std::int64_t example_order = 2;  // 1: each epoch shuffled as a whole

/// Deals out global batches in an order that depends on nothing but seed and epoch, so that any
/// number of ranks sees the same global batches (but for distributed_sampler, which pads them).
class Sampler {
 public:
  struct Options {
    std::int64_t dataset_size = 0;
    std::int64_t global_batch = 0;
    /// The global batch of a step that begins there; empty: global_batch everywhere.
    std::function<std::int64_t(const SamplerPosition&)> batch_at;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;
    /// The order of each epoch; empty: each example once, by `seed` and `shuffle`.
    Sampling sampling;
    /// Of R ranks, rank r takes every R-th example of a batch from its r-th on, and not neighbours.
    bool interleaved = false;
    std::optional<std::int64_t> epochs;  ///< none: endless
    int rank = 0;
    BatchPartition partition;  ///< among the ranks
  };

  /// Throws bad_data when there are no examples, and none for a batch where drop_last leaves nothing else.
  explicit Sampler(const Options& options, SamplerPosition start = {});

  /// The next batch, or none after the last epoch.
  std::optional<BatchPlan> next();
  /// Batches are divided by these parts (BatchPartition) from the next one on: the same batches.
  void deal(std::vector<std::int64_t> parts) { options_.partition.parts = std::move(parts); }

 private:
  /// Goes on to the next epoch where nothing is left of this one; whether it does.
  bool end_epoch();

  Options options_;
  SamplerPosition position_;
  EpochOrder order_;  ///< of the current epoch
};

}  // namespace lockstep
