// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace lockstep {

/// What a layer knows of a batch, of which other ranks may have other examples; of master_dtype.
struct BatchStatistics {
  std::int64_t rows = 0;  ///< values per channel
  Tensor moments;         ///< [2, c]: the mean, and Σ (x − mean)²
  Tensor sums;            ///< [2, c]: Σ dy, and Σ dy·(x − mean)
};

/// Joins the statistics of layers with those of other ranks: all that `nn` knows of these. The ranks call it for the
/// same layers in the same order, also those that have no examples (rows 0).
class StatisticsExchange {
 public:
  using Layers = std::span<BatchStatistics* const>;

  virtual ~StatisticsExchange() = default;
  /// Begins to make rows and moments those of all ranks; to be finished before the next one begins.
  virtual void start_moments(const ExecSpace& space, Layers layers) = 0;
  /// Begins to send the layers' sums, as start_moments does the moments.
  virtual void start_sums(const ExecSpace& space, Layers layers) = 0;
  virtual void finish(const ExecSpace& space) = 0;
};

}  // namespace lockstep
