// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace lockstep {

/// A layer's statistics of a batch, of which other ranks may hold other examples. Tensors have master_dtype.
struct BatchStatistics {
  std::int64_t rows = 0;  ///< number of values per channel
  Tensor moments;         ///< [2, c]: the mean and Σ (x − mean)²
  Tensor sums;            ///< [2, c]: Σ dy and Σ dy·(x − mean)
};

/// Joins the batch statistics of layers with those of other ranks. All ranks must call it for the same layers in the
/// same order, including ranks without examples (rows = 0).
class StatisticsExchange {
 public:
  using Layers = std::span<BatchStatistics* const>;

  virtual ~StatisticsExchange() = default;
  /// Starts to replace rows and moments by those of all ranks. Must be finished before the next exchange starts.
  virtual void start_moments(const ExecSpace& space, Layers layers) = 0;
  /// Starts to replace the layers' sums by those of all ranks. Must be finished before the next exchange starts.
  virtual void start_sums(const ExecSpace& space, Layers layers) = 0;
  virtual void finish(const ExecSpace& space) = 0;
};

}  // namespace lockstep
