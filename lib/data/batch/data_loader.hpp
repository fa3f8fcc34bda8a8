// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/device.hpp"
#include "core/tensor.hpp"
#include "data/augment.hpp"
#include "data/batch/sampler.hpp"
#include "data/dataset/dataset.hpp"

namespace lockstep {

/// One rank's share of a batch, as stored in the dataset: in host memory, unless a program has given it on the device.
struct HostBatch {
  BatchPlan plan;
  StagingMemory inputs;   // [n, input_shape…]
  StagingMemory targets;  // [n, target_shape…]
  bool inputs_on_device = false, targets_on_device = false;
  /// What is done to each image; empty: nothing. If images are mixed, `inputs`, `targets` and this have one image more,
  /// that of plan.next_example.
  std::vector<ImageChange> changes;
  /// The end of the batch's last copy to a device, set by the code that copies it; the batch stays as it is until then.
  mutable std::optional<StreamEvent> copied;
  std::int64_t size() const { return static_cast<std::int64_t>(plan.examples.size()); }
};

/// Reads batches: a thread fills a ring of them ahead of the step, or each is read when it is asked for.
class DataLoader {
 public:
  /// Depth of a loader that does not know in advance what is next.
  static constexpr int on_demand = 0;
  /// The usual depth.
  static constexpr int ahead = memory_is_separate ? 4 : 3;

  /// `max_batch`: the largest share of this rank. `dataset` must outlive the loader.
  DataLoader(const Dataset& dataset, Sampler sampler, std::int64_t max_batch, const AugmentConfig& augment,
             std::uint64_t seed, int depth = ahead);
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  /// Waits for the batch that is being read, and for those that are being copied.
  ~DataLoader();

  /// Returns the next batch, or null after the last. Waits for it. The batch stays valid until the following call; its
  /// memory stays until it is copied (HostBatch::copied), for which the call after that waits. An exception of the
  /// thread (for an unreadable file, for example) is thrown here, after the batches before it.
  const HostBatch* next();
  /// Reads a part of a batch (Sampler::part); for loaders on demand. It stays valid until the following call.
  const HostBatch& part(std::int64_t number);
  /// See Sampler::position_after; for loaders on demand.
  SamplerPosition position_after(std::int64_t batches) const { return sampler_.position_after(batches); }
  /// Divides batches into these shares (BatchPartition), from the first batch on that cannot have been begun yet. Its
  /// number is the same on all ranks that have asked for the same number of batches.
  void set_shares(std::vector<std::int64_t> shares);

 private:
  struct NewShares {
    std::uint64_t from;  ///< number of the first batch
    std::vector<std::int64_t> rank_shares;
  };
  void take_back();
  void fill();
  bool fill_slot(HostBatch& batch);
  void read(HostBatch& batch);

  const Dataset& dataset_;
  Sampler sampler_;  // used by the thread, like the augmenter
  Augmenter augmenter_;
  std::int64_t max_batch_;
  std::vector<HostBatch> ring_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::uint64_t filled_ = 0;    ///< batches made so far; batch b is in slot b % ring size
  std::uint64_t lent_ = 0;      ///< batches that were asked for; the step uses the last one
  std::uint64_t returned_ = 0;  ///< batches whose slots may be filled again
  bool finished_ = false;       ///< the thread makes no more batches: the last epoch has ended, or there is a
                                ///< `failure_`
  bool stopping_ = false;
  std::deque<NewShares> new_shares_;  ///< for batches that are not begun yet
  std::exception_ptr failure_;

  std::thread thread_;  // last member: the thread uses all others; none on demand
};

}  // namespace lockstep
