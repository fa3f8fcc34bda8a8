// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/collective/schedule.hpp"
#include "optim/optimizer.hpp"
#include "parallel/config/compress_config.hpp"

namespace lockstep {

/// What sums depend on besides their numbers.
struct StepFacts {
  std::int64_t number = 1;  ///< from 1
  double examples = 1;      ///< of all ranks
  std::uint64_t seed = 0;   ///< of the run
};

/// Number of blocks of `block` numbers in `count`; the last block may have fewer.
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

/// A gradient in the flat buffer, as a matrix: its first dimension by all others.
struct CompressedTensor {
  ElementRange place;
  std::int64_t rows = 1, columns = 1;
};

/// What is summed at once: consecutive whole tensors, and the gaps after them, which hold zeros.
struct CompressedBucket {
  ElementRange place;
  std::vector<CompressedTensor> tensors;
};

/// What a compressed sum of this rank works on.
template <class T>
struct CompressedNumbers {
  const CompressConfig& config;
  const StepFacts& step;  ///< the current step
  const std::vector<CompressedBucket>& buckets;
  T* numbers = nullptr;  ///< the flat buffer
  /// What this rank has not sent, in units of the mean's gradient and not of the sum, so that its size does not depend
  /// on the batch. Null: it is forgotten.
  T* errors = nullptr;

  const CompressedBucket& bucket_at(std::int64_t first) const {
    return *std::ranges::lower_bound(buckets, first, {}, [](const auto& bucket) { return bucket.place.first; });
  }
  /// Adds the errors: numbers become p = g + e.
  void add_errors(const ElementRange& place) const {
    if (!errors) return;
    const T examples = static_cast<T>(step.examples);
    for (std::int64_t i = place.first; i < place.end(); ++i) numbers[i] += errors[i] * examples;
  }
  /// Factor from a number of the sum to one of `errors`.
  T error_unit() const { return static_cast<T>(1 / step.examples); }
};

/// Largest value of `measure` over the buckets.
template <class Measure>
auto largest_of(const std::vector<CompressedBucket>& buckets, Measure measure) {
  decltype(measure(buckets.front())) most{};
  for (const CompressedBucket& bucket : buckets) most = std::max(most, measure(bucket));
  return most;
}

/// Number of elements of the largest tensor.
inline std::int64_t largest_tensor(const std::vector<CompressedBucket>& buckets) {
  return largest_of(buckets, [](const CompressedBucket& bucket) {
    std::int64_t most = 0;
    for (const CompressedTensor& tensor : bucket.tensors) most = std::max(most, tensor.place.count);
    return most;
  });
}

/// `bytes`, rounded up to a multiple of an element's bytes.
constexpr std::size_t in_whole_elements(std::size_t bytes, std::size_t element_bytes) {
  return (bytes + element_bytes - 1) / element_bytes * element_bytes;
}

}  // namespace lockstep
