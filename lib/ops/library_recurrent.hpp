// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/recurrent_sequence.hpp"

namespace lockstep {

/// Numbers of a parameter that lie side by side in a library's memory for weights, too.
struct WeightPiece {
  std::size_t parameter = 0;  ///< as RecurrentTensors::weights counts
  std::int64_t first = 0;     ///< element of it
  std::int64_t count = 0;
  std::int64_t place = 0;  ///< of the first one in the library's memory, in elements

  Tensor in_parameter(const Tensor& tensor) const { return numbers(tensor, first); }
  Tensor in_library(const Tensor& tensor) const { return numbers(tensor, place); }
  friend bool operator==(const WeightPiece&, const WeightPiece&) = default;

 private:
  Tensor numbers(const Tensor& of, std::int64_t begin) const {
    return {static_cast<std::byte*>(of.data) + static_cast<std::size_t>(begin) * size_of(of.dtype), of.dtype, {count}};
  }
};

/// Neighbours in both memories as one piece.
std::vector<WeightPiece> merged(std::vector<WeightPiece> pieces);

/// What a library computes of a recurrent layer, for one shape. All tensors but `workspace` and `saved` are of the
/// shape's dtype; its weights lie as `pieces` says.
class RecurrentProducts {
 public:
  virtual ~RecurrentProducts() = default;

  virtual std::span<const WeightPiece> pieces() const = 0;
  virtual std::int64_t weight_count() const = 0;  ///< elements of its memory for weights, gaps included
  virtual std::size_t saved_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// `saved` is null where no backward pass follows.
  virtual void forward(const ExecSpace& space, const void* weights, const void* x, void* y, void* saved,
                       void* workspace) const = 0;
  virtual void backward_data(const ExecSpace& space, const void* weights, const void* y, const void* dy, void* dx,
                             void* saved, void* workspace) const = 0;
  /// After backward_data. Adds to `dweights`.
  virtual void backward_weights(const ExecSpace& space, const void* x, const void* y, void* dweights, void* saved,
                                void* workspace) const = 0;
};

/// Throws PlanError (ops/library_plans.hpp) for what the library declines.
using PlanRecurrent = std::shared_ptr<const RecurrentProducts> (*)(const RecurrentShape& shape);

/// A recurrent layer of such products, which takes weights and gives gradients where ours lie. Null for what the
/// library declines, and where sequences may not begin anywhere.
std::unique_ptr<RecurrentSequence> library_recurrent(const RecurrentShape& shape, PlanRecurrent plan);

}  // namespace lockstep
