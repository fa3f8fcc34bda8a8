// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/device_reducer.hpp"

#include <utility>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "comm/spin_backoff.hpp"
#include "core/tensor.hpp"
#include "ops/elementwise/copies.hpp"
#include "parallel/reducers/gradient_reducer.hpp"

namespace lockstep {
DeviceReducer::DeviceReducer(const ParallelConfig& config, std::unique_ptr<DeviceAllReduce> sums,
                             const Tensor& gradients, const GradientBuckets& buckets)
    : gradients_(gradients),
      overlaps_(config.sums.overlap != GradientSumConfig::Overlap::none),
      sums_(std::move(sums)) {
  if (const DType type = type_on_wire(config, gradients.dtype); type != gradients.dtype && !buckets.trained.empty())
    rounded_ = OwnedTensor("lockstep::gradients_in_16_bits", type, {buckets.trained.back().end()});
  add_buckets(buckets.trained, rounded_.get());
  add_buckets(buckets.statistics, {});
}

DType DeviceReducer::type_on_wire(const ParallelConfig& config, DType gradients) {
  return gradients == DType::f32 ? config.sums.options().wire : gradients;
}

void DeviceReducer::add_buckets(std::span<const ElementRange> buckets, const Tensor& rounded) {
  for (const ElementRange& bucket : buckets) {
    buckets_.push_back({bucket.end(), flat_part(gradients_, bucket), rounded ? flat_part(rounded, bucket) : Tensor{}});
  }
}

void DeviceReducer::ready(const ExecSpace& space, std::int64_t end) {
  if (!overlaps_) return;
  std::size_t last = started_;
  while (last < buckets_.size() && buckets_[last].end <= end) ++last;
  start(space, last);
  advance();
}

/// The host has started all kernels of the backward pass, and sums are all that is left for it to do while they run.
void DeviceReducer::gradient_sum_done(const ExecSpace& space) {
  if (!overlaps_) return;
  start(space, buckets_.size());
  outlast_kernels(space, [this] { advance(); });
}

void DeviceReducer::finish(const ExecSpace& space, const std::function<void()>& meanwhile) {
  start(space, buckets_.size());  // not begun yet on a rank without examples
  outlast_kernels(space, [this] { advance(); });
  const Timer timer;
  // The device could wait by itself. The host waits instead, because it must see sums that fail, and which ranks it
  // waits for.
  SpinBackoff backoff;
  for (std::size_t before = buckets_.size(), left = 0; (left = advance()) > 0; before = left) {
    meanwhile();
    if (left == before) backoff.pause();
    else backoff.reset();
  }
  exposed_seconds_ += timer.seconds();
  for (const Bucket& bucket : buckets_)
    if (bucket.rounded) convert(space, bucket.rounded, bucket.gradients);
  started_ = 0;
  heartbeat().sum(-1);
}

/// Starts the sums of the buckets before `last`, which are final.
void DeviceReducer::start(const ExecSpace& space, std::size_t last) {
  if (started_ >= last) return;
  for (std::size_t i = started_; i < last; ++i)
    if (buckets_[i].rounded) convert(space, buckets_[i].gradients, buckets_[i].rounded);
  const StreamEvent written(space);
  for (; started_ < last; ++started_) sums_->start(buckets_[started_].travels(), written);
}

std::size_t DeviceReducer::advance() {
  const std::size_t left = sums_->advance();
  if (left > 0) heartbeat().sum(static_cast<std::int32_t>(started_ - left));
  return left;
}

double DeviceReducer::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
