// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/device_all_reduce.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/reducers/gradient_reducer.hpp"

namespace lockstep {

/// Sums gradients in buckets in the device's memory, where they are, during the kernels of the backward pass. Numbers
/// that travel in 16 bits are also added in 16 bits.
class DeviceReducer final : public GradientReducer {
 public:
  /// Statistics travel in their own type, whatever parallel.wire says. With the deck's overlap: none, sums do not run
  /// during the pass; with any other, they go on between layers.
  DeviceReducer(const ParallelConfig& config, std::unique_ptr<DeviceAllReduce> sums, const Tensor& gradients,
                const GradientBuckets& buckets);

  /// Type in which gradients of type `gradients` travel; if it is another one, there is a copy of all of them next to
  /// them.
  static DType type_on_wire(const ParallelConfig& config, DType gradients);

  void ready(const ExecSpace& space, std::int64_t end) override;
  void gradient_sum_done(const ExecSpace& space) override;
  void finish(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  double take_exposed_seconds() override;

 private:
  struct Bucket {
    std::int64_t end;
    Tensor gradients;
    Tensor rounded;  ///< what travels in their place; empty: they travel themselves

    const Tensor& travels() const { return rounded ? rounded : gradients; }
  };

  void add_buckets(std::span<const ElementRange> buckets, const Tensor& rounded);
  void start(const ExecSpace& space, std::size_t last_bucket);
  std::size_t advance();

  Tensor gradients_;
  OwnedTensor rounded_;
  bool overlaps_;
  std::vector<Bucket> buckets_;
  std::size_t started_ = 0;  ///< number of buckets whose sums have begun
  double exposed_seconds_ = 0;
  std::unique_ptr<DeviceAllReduce> sums_;  // last member: destroyed before the memory that it sums
};

}  // namespace lockstep
