// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"
#include "ops/library_choices.hpp"
#include "ops/recurrent.hpp"

namespace lockstep {

/// A recurrent layer over whole sequences, whose initial state is zero.
struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t n = 0;       ///< number of sequences
  std::int64_t length = 0;  ///< positions in each sequence, T
  std::int64_t in = 0;      ///< features of x
  std::int64_t units = 0;   ///< units of a direction, u
  std::int64_t directions = 1;
  DType dtype = DType::f32;
  LibraryChoices choices;

  auto operator<=>(const RecurrentShape&) const = default;
  std::int64_t gates() const { return gates_of(cell) * units; }
  std::int64_t outputs() const { return directions * units; }
};

/// Number of parameters of a direction: weight_ih [g·u, in], weight_hh [g·u, u], bias_ih and bias_hh [g·u], with gates
/// in the order of ops/recurrent.hpp.
inline constexpr std::size_t recurrent_parameters = 4;

struct RecurrentTensors {
  std::span<const Tensor> weights;  ///< parameters of each direction, of the shape's dtype
  Tensor x, y;                      ///< [n, T, in], [n, T, outputs]
  Tensor saved;                     ///< kept from forward to backward; empty if no backward pass follows
  Tensor workspace;
};

/// All time steps of a recurrent layer at once, as libraries compute them, planned for one shape (see InnerProduct).
class RecurrentSequence {
 public:
  virtual ~RecurrentSequence() = default;

  virtual std::size_t saved_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  virtual void forward(const ExecSpace& space, const RecurrentTensors& tensors) = 0;
  /// May be called once after a forward pass, since it may overwrite `saved`. `dx` and `gradients` (shaped like the
  /// weights, of master_dtype) may be empty.
  virtual void backward(const ExecSpace& space, const RecurrentTensors& tensors, const Tensor& dy, const Tensor& dx,
                        std::span<const Tensor> gradients, Store store) = 0;
};

}  // namespace lockstep
