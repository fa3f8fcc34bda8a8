// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "optim/optimizer.hpp"
#include "parallel/config/compress_config.hpp"

namespace lockstep {

/// What sums depend on beside their numbers.
struct StepFacts {
  std::int64_t number = 1;  ///< from 1
  double examples = 1;      ///< of all ranks
  std::uint64_t seed = 0;   ///< of the run
};

/// Blocks of so many numbers, of which the last may have fewer.
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

/// A gradient in the flat buffer, as a matrix: the first dimension by the others.
struct CompressedTensor {
  Stretch place;
  std::int64_t rows = 1, columns = 1;
};

/// What is summed at once: whole tensors that follow each other, and the gaps after them, which are zero.
struct CompressedBucket {
  Stretch place;
  std::vector<CompressedTensor> tensors;
};

/// What a compressed sum of this rank works on.
template <class T>
struct CompressedNumbers {
  const CompressConfig& config;
  const StepFacts& step;  ///< the running one
  const std::vector<CompressedBucket>& buckets;
  T* numbers = nullptr;  ///< the flat buffer
  /// What this rank has not sent, as parts of the mean's gradient and not of the sum: so they are of the same size
  /// whatever the batch is. Null: they are forgotten.
  T* errors = nullptr;
  /// In the same units, of each number; null: the optimizer applies its momentum itself.
  T* velocities = nullptr;
  Momentum momentum = {};

  const CompressedBucket& bucket_at(std::int64_t first) const {
    return *std::ranges::lower_bound(buckets, first, {}, [](const auto& bucket) { return bucket.place.first; });
  }
  /// Gradients become what the velocities, u ← m u + g, make a step of: this place's part of it.
  void apply_momentum(const Stretch& place) const {
    if (!velocities) return;
    const T kept = static_cast<T>(momentum.factor), unit = error_unit(), examples = static_cast<T>(step.examples);
    for (std::int64_t i = place.first; i < place.end; ++i) {
      velocities[i] = kept * velocities[i] + numbers[i] * unit;
      numbers[i] = momentum.nesterov ? numbers[i] + kept * velocities[i] * examples : velocities[i] * examples;
    }
  }
  /// Numbers become p = g + e.
  void add_errors(const Stretch& place) const {
    if (!errors) return;
    const T examples = static_cast<T>(step.examples);
    for (std::int64_t i = place.first; i < place.end; ++i) numbers[i] += errors[i] * examples;
  }
  /// What a number of the sum is in `errors`.
  T error_unit() const { return static_cast<T>(1 / step.examples); }
};

/// Most of what a function says of buckets.
template <class Measure>
auto largest_of(const std::vector<CompressedBucket>& buckets, Measure measure) {
  decltype(measure(buckets.front())) most{};
  for (const CompressedBucket& bucket : buckets) most = std::max(most, measure(bucket));
  return most;
}

/// Numbers of the largest tensor.
inline std::int64_t largest_tensor(const std::vector<CompressedBucket>& buckets) {
  return largest_of(buckets, [](const CompressedBucket& bucket) {
    std::int64_t most = 0;
    for (const CompressedTensor& tensor : bucket.tensors) most = std::max(most, tensor.place.count());
    return most;
  });
}

/// Bytes, and those after them up to the next multiple of an element's.
constexpr std::size_t in_whole_elements(std::size_t bytes, std::size_t element_bytes) {
  return (bytes + element_bytes - 1) / element_bytes * element_bytes;
}

}  // namespace lockstep
