// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/device.hpp"
#include "core/host_memory.hpp"
#include "parallel/reducers/gradient_reducer.hpp"

namespace lockstep {

/// Sums gradients in buckets. As the backward pass makes ranges of the gradients final, from their beginning on,
/// each full bucket is summed, one after the other. On a device, buckets are copied to the host and back during
/// kernels, which the host goes on starting meanwhile.
class BucketedReducer final : public GradientReducer {
 public:
  using Overlap = GradientSumConfig::Overlap;

  /// `measured`: see make_all_reduce. `memory`: see gradient_memory; on hosts `gradients` lie in it. If the deck says
  /// so (parallel.shard), ranks divide the sums of trained gradients, and each has those that it owns
  /// (make_shard_place). `compressed` replaces the sum of trained gradients that the rest of the deck asks for; null:
  /// it does not. Gradients after the trained ones travel in their own type, whatever parallel.wire says. Collective;
  /// throws SharedError if overlap: thread is asked of an MPI that cannot serve threads, or if the deck's all-reduce
  /// cannot be had.
  BucketedReducer(const ParallelConfig& config, std::span<const AllReduceRow> measured, const ShardGroups& groups,
                  const std::optional<NodeMemory>& memory, const Tensor& gradients, const GradientBuckets& buckets,
                  std::unique_ptr<Collective> compressed = nullptr);
  ~BucketedReducer() override;

  void ready(const ExecSpace& space, std::int64_t end) override;
  void gradient_sum_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  std::int64_t summed() const override;
  double take_exposed_seconds() override;

 private:
  class Helper;
  class Trial;
  struct Bucket {
    std::int64_t first, end;
    Collective* sum;
    std::optional<StreamEvent> on_host;  ///< when its copy has arrived there; none: nothing is copied

    bool has_arrived() const { return !on_host || on_host->has_happened(); }
    void start() const { sum->start(first, end - first); }
  };
  /// Streams in which buckets are copied, if the device has memory of its own.
  struct Streams {
    ExecSpace to_host, to_device;
  };

  void make_available(const ExecSpace& space, std::size_t last_bucket);
  void copy_out(Bucket& bucket);
  void copy_back(const Bucket& bucket);
  std::size_t bytes_before(const Bucket& bucket) const;
  Tensor gradients_of(const Bucket& bucket) const;
  void add_buckets(std::span<const ElementRange> buckets, Collective* sum);
  void advance(std::size_t last_bucket);
  void complete(std::size_t last_bucket, const std::function<void()>& meanwhile);
  void use(Overlap overlap);

  Communicator ranks_;
  Tensor gradients_;
  StagingMemory staging_;      ///< where the device writes gradients that the host cannot read
  std::byte* host_ = nullptr;  ///< where the gradients are summed
  PinnedMemory pinned_;
  std::optional<Streams> streams_;
  std::unique_ptr<Collective> sum_, exact_sum_;  ///< of trained gradients, and of those after them
  std::vector<Bucket> buckets_;
  std::size_t available_ = 0;  ///< buckets that are final, and on their way to the host
  std::size_t next_ = 0;       ///< next bucket to be summed
  bool running_ = false;       ///< whether the bucket before next_ is being summed
  std::int64_t ready_ = 0;     ///< elements that are final, if one rank sums nothing
  double exposed_seconds_ = 0;
  Overlap overlap_ = Overlap::none;
  std::unique_ptr<Trial> trial_;
  std::unique_ptr<Helper> helper_;
};

}  // namespace lockstep
