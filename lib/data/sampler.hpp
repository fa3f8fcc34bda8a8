// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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
  SamplerPosition after;               ///< a sampler that starts here goes on with the next batch
  std::vector<std::int64_t> examples;  ///< of this rank, may be empty
  std::int64_t next_example = 0;       ///< that follows them in the batch, whose first one is after its last
  /// Numbers by which they, and the one after them, are augmented: their own, or their places in the epoch where an
  /// example may come twice.
  std::vector<std::int64_t> draws;
  std::int64_t next_draw = 0;
  std::vector<MicroBatch> micro_batches;  ///< of them
  std::vector<std::int64_t> rank_shares;  ///< into which the ranks have divided the batch (BatchPartition)
};

/// A part of a batch, for one gradient, or `count` neighbouring ones, for the sum of as many: of batches of so many
/// equal parts, part p of the run's batch b (from 0 on) has the number b · parts + p. Of none, what comes after the
/// first `batches` of the run: no examples, where `examples` is what all ranks have had since they last came together.
struct PartRequest {
  std::optional<std::int64_t> part;
  std::int64_t count = 1;
  std::int64_t batches = 0, examples = 0;
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
    bool repeats = false;  ///< it may have an example more than once
    /// Of R ranks, rank r takes every R-th example of a batch from its r-th on, and not neighbours.
    bool interleaved = false;
    std::optional<std::int64_t> epochs;  ///< none: endless
    int rank = 0;
    BatchPartition partition;  ///< among the ranks
    /// Equal parts of each batch that are taken in an order of their own (PartRequest); 0: batches are taken as they
    /// come. All batches are of the same size then.
    std::int64_t parts_of_batch = 0;
    std::int64_t batches = 0;  ///< of the run, before `start`
    /// Numbers of the parts that step number `step` of the run takes; empty: they are asked for one by one.
    std::function<std::span<const std::int64_t>(std::int64_t step)> parts_of;
  };

  /// Throws bad_data when there are no examples, or, with drop_last, less than a batch as at `start`.
  explicit Sampler(const Options& options, SamplerPosition start = {});

  /// The next batch, or none after the last epoch, and after the last parts that are known.
  std::optional<BatchPlan> next();
  /// What is asked for. The plan's position is that after the batches of the last request without a part.
  BatchPlan take(const PartRequest& request);
  /// Batches are divided into these shares (BatchPartition) from the next one on: the same batches.
  void set_shares(std::vector<std::int64_t> shares) { options_.partition.rank_shares = std::move(shares); }

 private:
  /// Goes on to the next epoch where nothing is left of this one; whether it does.
  bool end_epoch();
  SamplerPosition position_after(std::int64_t batches) const;
  std::int64_t draw_of(std::int64_t example, std::int64_t place) const { return options_.repeats ? place : example; }
  /// Adds a part to this rank's examples.
  void add_part(std::int64_t number, BatchPlan& plan);
  std::optional<BatchPlan> next_parts();

  Options options_;
  SamplerPosition position_;
  EpochOrder order_;  ///< of the current epoch; of parts, of that of the last one
  std::int64_t order_epoch_ = 0;
};

}  // namespace lockstep
