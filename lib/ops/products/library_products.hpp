// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/dtype.hpp"
#include "ops/products/products.hpp"

namespace lockstep {

// Helpers for providers whose library plans for one shape, on this process's device, and may decline.

/// Thrown when a library declines a plan; the text is the library's.
struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Plans that need a larger workspace are not used. Some convolutions would copy x and y to another layout, which takes
/// gigabytes.
inline constexpr std::size_t max_plan_workspace_bytes = std::size_t{1} << 30;

/// True if an example of any of these element counts is a multiple of 16 bytes: the libraries read 16 bytes at a time,
/// and part of a batch can begin at any example.
inline bool may_begin_anywhere(DType dtype, std::initializer_list<std::int64_t> counts) {
  return std::ranges::all_of(
      counts, [&](std::int64_t count) { return static_cast<std::size_t>(count) * size_of(dtype) % 16 == 0; });
}

/// The plans Plans(shape), made once for all layers of that shape and kept for the life of the process, since the
/// library may be unloaded before static objects are destroyed. Null if there are no examples.
template <class Plans, class Shape>
std::shared_ptr<const Plans> plans_for(const Shape& shape) {
  static auto& planned = *new std::map<Shape, std::shared_ptr<const Plans>>;
  auto& plans = planned[shape];
  if (!plans && shape.n > 0) plans = std::make_shared<const Plans>(shape);
  return plans;
}

/// One of the three products of a convolution, as planned by a library for one shape.
class ConvolutionProduct {
 public:
  virtual ~ConvolutionProduct() = default;

  virtual std::size_t workspace_bytes() const = 0;
  /// `tensors` are in the order that ConvolutionProducts gives. Returns at once. Throws Error(internal) if it cannot be
  /// started.
  virtual void run(const ExecSpace& space, std::span<void* const> tensors, void* workspace) const = 0;
};

/// Tensors have shape.dtype, a bias master_dtype. Their layouts are those of Convolution, except that weights and their
/// gradients are channels-last: [filters, kernel_h, kernel_w, c/groups].
struct ConvolutionProducts {
  std::unique_ptr<ConvolutionProduct> forward;          ///< x, weight, bias (if forward adds it), y
  std::unique_ptr<ConvolutionProduct> data_gradient;    ///< dy, weight, dx
  std::unique_ptr<ConvolutionProduct> weight_gradient;  ///< x, dy, dweight
  bool adds_bias = true;                                ///< true if forward adds the bias and applies the activation
};

/// Throws PlanError if the library declines. Returns null if there are no examples.
using PlanConvolution = std::shared_ptr<const ConvolutionProducts> (*)(const ConvolutionShape& shape);

/// A convolution made of a library's products. It adds what these leave out: the order of weights, a bias and an
/// activation that they do not support, and weight gradients that are accumulated or of another type. Null if the
/// library declines, or if a batch's images are not all aligned (may_begin_anywhere).
std::unique_ptr<Convolution> library_convolution(const ConvolutionShape& shape, PlanConvolution plan);

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

/// Throws PlanError if the library declines.
using PlanRecurrent = std::shared_ptr<const RecurrentProducts> (*)(const RecurrentShape& shape);

/// A recurrent layer made of a library's functions, with weights and gradients in the layout of
/// ops/sequence/recurrent.hpp. Null if the library declines, or if a batch's sequences are not all aligned
/// (may_begin_anywhere).
std::unique_ptr<RecurrentSequence> library_recurrent(const RecurrentShape& shape, PlanRecurrent plan);

}  // namespace lockstep
