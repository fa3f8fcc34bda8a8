// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"
#include "ops/library_choices.hpp"
#include "ops/recurrent.hpp"

namespace lockstep {

/// A recurrent layer over whole sequences, from zeros.
struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t n = 0;       ///< sequences
  std::int64_t length = 0;  ///< positions of each, T
  std::int64_t in = 0;      ///< features of x
  std::int64_t units = 0;   ///< u
  std::int64_t directions = 1;
  DType dtype = DType::f32;
  LibraryChoices choices;

  auto operator<=>(const RecurrentShape&) const = default;
  std::int64_t gates() const { return gates_of(cell) * units; }
  std::int64_t outputs() const { return directions * units; }
};

/// Parameters of a direction: weight_ih [g·u, in], weight_hh [g·u, u], bias_ih and bias_hh [g·u], gates in the order of
/// ops/recurrent.hpp.
inline constexpr std::size_t recurrent_parameters = 4;

struct RecurrentTensors {
  std::span<const Tensor> weights;  ///< the parameters of each direction, of the shape's dtype
  Tensor x, y;                      ///< [n, T, in], [n, T, outputs]
  Tensor saved;                     ///< from forward to backward; empty where no backward pass follows
  Tensor workspace;
};

/// All steps of a recurrent layer at once, as libraries do them, planned for one shape (see InnerProduct).
class RecurrentSequence {
 public:
  virtual ~RecurrentSequence() = default;

  virtual std::size_t saved_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  virtual void forward(const ExecSpace& space, const RecurrentTensors& tensors) = 0;
  /// Once after a forward pass: it may overwrite what that has saved. `dx` and `gradients` (as the weights, of
  /// master_dtype) may be empty.
  virtual void backward(const ExecSpace& space, const RecurrentTensors& tensors, const Tensor& dy, const Tensor& dx,
                        std::span<const Tensor> gradients, Store store) = 0;
};

}  // namespace lockstep
