// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/batch/batch_partition.hpp"

namespace lockstep {

/// The example at each place of an epoch, 0 … size − 1.
struct EpochOrder {
  std::int64_t size = 0;
  std::function<std::int64_t(std::int64_t place)> example;
};

/// Returns the order of epoch number `epoch`, from 0 on. It depends on the number alone, so that a run may go on
/// anywhere.
using Sampling = std::function<EpochOrder(std::int64_t epoch)>;

/// Each example once, in an order that is computed (core/random.hpp) or, without shuffle, as stored. Throws
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

/// Position of a sampler: `next` examples of `epoch` have been given out.
struct SamplerPosition {
  std::int64_t epoch = 0;
  std::int64_t next = 0;
  friend bool operator==(const SamplerPosition&, const SamplerPosition&) = default;
};

/// The examples that one rank computes in one step.
struct BatchPlan {
  std::int64_t epoch = 0;            ///< from 0
  std::int64_t batch_examples = 0;   ///< examples of the batch
  std::int64_t global_examples = 0;  ///< those of all ranks that sum gradients, by which the sum is divided: all, or a
                                     ///< part of the batch
  std::int64_t first = 0;            ///< position of this rank's first example in the global batch
  bool last_of_epoch = false;
  SamplerPosition after;               ///< a sampler that starts here continues with the next batch
  std::vector<std::int64_t> examples;  ///< examples of this rank; may be empty
  std::int64_t next_example = 0;       ///< the example that follows them in the batch; after the batch's last one comes
                                       ///< its first
  /// Numbers by which these examples, and the one after them, are augmented: their own numbers or, if an example may
  /// come twice, their places in the epoch.
  std::vector<std::int64_t> draws;
  std::int64_t next_draw = 0;
  std::vector<MicroBatch> micro_batches;  ///< of these examples
  std::vector<std::int64_t> rank_shares;  ///< shares into which the ranks have divided the batch (BatchPartition)
};

/// Deals out global batches in an order that depends only on seed and epoch, so that any number of ranks sees the same
/// global batches (except with distributed_sampler, which pads them).
class Sampler {
 public:
  struct Options {
    std::int64_t dataset_size = 0;
    std::int64_t global_batch = 0;
    /// Global batch of a step that begins at this position; empty: global_batch everywhere.
    std::function<std::int64_t(const SamplerPosition&)> batch_at;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;
    /// Order of each epoch; empty: each example once, by `seed` and `shuffle`.
    Sampling sampling;
    bool repeats = false;  ///< whether the order may have an example more than once
    /// This rank is number `rank` of `of` that take the examples of a batch in turn; none: they take consecutive ones.
    struct Turn {
      std::int64_t rank = 0, of = 1;
    };
    std::optional<Turn> interleaved;
    std::optional<std::int64_t> epochs;  ///< none: endless
    int rank = 0;
    BatchPartition partition;  ///< division among the ranks of what they take of a batch
    /// The part of a batch of so many examples that these ranks take; empty: all of it.
    std::function<RankShare(std::int64_t examples)> part_of;
    /// Number P of equal parts of each batch, which are taken in an order of their own; 0: batches are taken one after
    /// the other. With parts, all batches have the same size. Part p of the run's batch b (from 0 on) has the number
    /// b · P + p.
    std::int64_t parts_of_batch = 0;
    std::int64_t batches = 0;  ///< batches of the run before `start`
    /// Numbers of the parts that step number `step` of the run takes; empty: they are asked for one by one.
    std::function<std::span<const std::int64_t>(std::int64_t step)> parts_of;
  };

  /// Throws bad_data if there are no examples. A batch that is larger than the dataset is the dataset.
  explicit Sampler(const Options& options, SamplerPosition start = {});

  /// Returns the next batch; none after the last epoch, and after the last parts that are known.
  std::optional<BatchPlan> next();
  /// Returns this rank's share of a part, which the ranks of the partition divide among them; the position stays.
  BatchPlan part(std::int64_t number);
  /// Position after `batches` batches of the run, if all batches have the same size.
  SamplerPosition position_after(std::int64_t batches) const;
  /// Divides the same batches into these shares (BatchPartition), from the next batch on.
  void set_shares(std::vector<std::int64_t> shares) { options_.partition.rank_shares = std::move(shares); }

 private:
  /// Goes on to the next epoch if nothing is left of this one, and returns whether it has done so.
  bool end_epoch();
  std::int64_t draw_of(std::int64_t example, std::int64_t place) const { return options_.repeats ? place : example; }
  /// Returns where a part's batch begins, and reads the order of its epoch.
  SamplerPosition go_to(std::int64_t batch);
  void add_example(std::int64_t place, BatchPlan& plan) const;
  /// Adds a part to this rank's examples, whose gradient is a sum of its own.
  void add_part(std::int64_t number, BatchPlan& plan);
  std::optional<BatchPlan> next_parts();

  Options options_;
  SamplerPosition position_;
  EpochOrder order_;  ///< of the current epoch; with parts, of the epoch of the last part
  std::int64_t order_epoch_ = 0;
};

}  // namespace lockstep
