// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/recurrent_sequence.hpp"

namespace lockstep {

/// A run of a parameter's elements that is contiguous in a library's weight memory, too.
struct WeightPiece {
  std::size_t parameter = 0;  ///< index in RecurrentTensors::weights
  std::int64_t first = 0;     ///< first element in the parameter
  std::int64_t count = 0;
  std::int64_t place = 0;  ///< first element in the library's memory

  Tensor in_parameter(const Tensor& tensor) const { return numbers(tensor, first); }
  Tensor in_library(const Tensor& tensor) const { return numbers(tensor, place); }
  friend bool operator==(const WeightPiece&, const WeightPiece&) = default;

 private:
  Tensor numbers(const Tensor& of, std::int64_t begin) const {
    return {static_cast<std::byte*>(of.data) + static_cast<std::size_t>(begin) * size_of(of.dtype), of.dtype, {count}};
  }
};

/// Joins pieces that are adjacent in both memories.
std::vector<WeightPiece> merged(std::vector<WeightPiece> pieces);

/// A library's functions for a recurrent layer of one shape. All tensors except `workspace` and `saved` have the
/// shape's dtype; the layout of weights is given by `pieces`.
class RecurrentProducts {
 public:
  virtual ~RecurrentProducts() = default;

  virtual std::span<const WeightPiece> pieces() const = 0;
  virtual std::int64_t weight_count() const = 0;  ///< elements of the library's weight memory, gaps included
  virtual std::size_t saved_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// `saved` is null if no backward pass follows.
  virtual void forward(const ExecSpace& space, const void* weights, const void* x, void* y, void* saved,
                       void* workspace) const = 0;
  virtual void backward_data(const ExecSpace& space, const void* weights, const void* y, const void* dy, void* dx,
                             void* saved, void* workspace) const = 0;
  /// Must follow backward_data. Adds to `dweights`.
  virtual void backward_weights(const ExecSpace& space, const void* x, const void* y, void* dweights, void* saved,
                                void* workspace) const = 0;
};

/// Throws PlanError (ops/library_plans.hpp) if the library declines.
using PlanRecurrent = std::shared_ptr<const RecurrentProducts> (*)(const RecurrentShape& shape);

/// A recurrent layer made of a library's functions, with weights and gradients in the layout of ops/recurrent.hpp. Null
/// if the library declines, or if a batch's sequences are not all aligned (may_begin_anywhere).
std::unique_ptr<RecurrentSequence> library_recurrent(const RecurrentShape& shape, PlanRecurrent plan);

}  // namespace lockstep
