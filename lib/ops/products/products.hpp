// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/tensor.hpp"
#include "ops/activation.hpp"
#include "ops/sequence/recurrent.hpp"

namespace lockstep {

/// Freedoms that a library may use to be faster; part of what a product is planned for.
struct LibraryChoices {
  bool tf32 = false;          ///< may round fp32 operands to 10 bits of mantissa for matrix units
  bool deterministic = true;  ///< must give the same bits in every run: no atomic additions

  auto operator<=>(const LibraryChoices&) const = default;
};

struct InnerProductShape {
  std::int64_t n = 0;        ///< rows of x
  std::int64_t in = 0;       ///< features of x
  std::int64_t out = 0;      ///< features of y
  DType dtype = DType::f32;  ///< type of x, y, their gradients and the weight
  bool bias = true;
  Activation activation = Activation::none;
  std::int64_t uses = 1;  ///< number of uses of one weight before the next is set; decides whether rearranging it pays
  LibraryChoices choices;

  /// Floating-point operations of one of the three products; multiply-adds count as two.
  double flops() const { return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out); }
};

/// y = activation(x·Wᵀ + b), planned for one shape: the constructor allocates everything, and calls allocate nothing.
/// Sums, the bias and the weight's gradient have master_dtype. The backward calls take the gradient of the activation's
/// input.
class InnerProduct {
 public:
  virtual ~InnerProduct() = default;

  /// This product for another number of rows; it shares the weight. Null if the library declines.
  virtual std::unique_ptr<InnerProduct> resized(std::int64_t n) const = 0;
  /// Bytes of scratch memory, which any call may overwrite.
  virtual std::size_t workspace_bytes() const { return 0; }

  /// weight [out, in]; must be called again whenever its values have changed. Its address must not change.
  virtual void set_weight(const Tensor& weight) = 0;
  /// x [n, in], bias [out] (empty if there is none), y [n, out].
  virtual void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
                       const Tensor& workspace) = 0;
  /// dx = dy·W; dy [n, out], dx [n, in].
  virtual void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) = 0;
  /// dweight (+)= dyᵀ·x.
  virtual void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                               Store store, const Tensor& workspace) = 0;
};

struct ConvolutionShape {
  std::int64_t n = 0, h = 0, w = 0, c = 0;  ///< extents of x
  std::int64_t filters = 0;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride = 1;
  std::int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;  ///< zeros around x
  std::int64_t groups = 1;
  DType dtype = DType::f32;
  bool bias = true;
  Activation activation = Activation::none;
  LibraryChoices choices;

  auto operator<=>(const ConvolutionShape&) const = default;
  std::int64_t out_h() const { return (h + pad_top + pad_bottom - kernel_h) / stride + 1; }
  std::int64_t out_w() const { return (w + pad_left + pad_right - kernel_w) / stride + 1; }
  /// Floating-point operations of one of the three products, padding included; multiply-adds count as two.
  double flops() const {
    return 2.0 * static_cast<double>(n * out_h() * out_w() * filters) *
           static_cast<double>(kernel_h * kernel_w * (c / groups));
  }
};

/// y = activation(x ⋆ W + b), a cross-correlation, planned for one shape (see InnerProduct).
class Convolution {
 public:
  virtual ~Convolution() = default;

  /// This convolution for another number of images; it shares the weight. Null if the library declines.
  virtual std::unique_ptr<Convolution> resized(std::int64_t n) const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }

  /// weight [filters, c/groups, kernel_h, kernel_w]; must be called again whenever its values have changed.
  virtual void set_weight(const Tensor& weight) = 0;
  /// x [n, h, w, c], bias [filters] (empty if there is none), y [n, out_h, out_w, filters].
  virtual void forward(const ExecSpace& space, const Tensor& x, const Tensor& bias, const Tensor& y,
                       const Tensor& workspace) = 0;
  virtual void backward_data(const ExecSpace& space, const Tensor& dy, const Tensor& dx, const Tensor& workspace) = 0;
  virtual void backward_weight(const ExecSpace& space, const Tensor& x, const Tensor& dy, const Tensor& dweight,
                               Store store, const Tensor& workspace) = 0;
};

/// Multi-head attention over sequences (Vaswani et al., "Attention is all you need", 2017). With `causal`, a position
/// attends only to itself and to earlier positions.
struct AttentionShape {
  std::int64_t n = 0;       ///< number of sequences
  std::int64_t length = 0;  ///< positions in each sequence, T
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  bool causal = true;
  DType dtype = DType::f32;
  LibraryChoices choices;
  /// Positions in the memory, if queries attend to another sequence; it is then never causal. 0: to their own sequence.
  std::int64_t memory = 0;

  auto operator<=>(const AttentionShape&) const = default;
  std::int64_t width() const { return heads * head_size; }
  std::int64_t keys() const { return memory > 0 ? memory : length; }
  /// Elements between the queries, or the keys, of neighbouring positions.
  std::int64_t query_row() const { return memory > 0 ? width() : 3 * width(); }
  std::int64_t key_row() const { return memory > 0 ? 2 * width() : 3 * width(); }
  /// Floating-point operations of the two products, multiply-adds counted as two; half as many with `causal`.
  double flops() const {
    return (causal ? 2.0 : 4.0) * static_cast<double>(n) * static_cast<double>(length) * static_cast<double>(keys()) *
           static_cast<double>(width());
  }
};

/// softmax(q·kᵀ/√head_size)·v, planned for one shape (see InnerProduct). The T × T matrix of scores is never stored;
/// scores exist for one block at a time (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018; Dao
/// et al., "FlashAttention", 2022). Arithmetic is in master_dtype.
class ScaledDotProductAttention {
 public:
  virtual ~ScaledDotProductAttention() = default;

  /// This attention for another number of sequences. Null if the library declines.
  virtual std::unique_ptr<ScaledDotProductAttention> resized(std::int64_t n) const = 0;
  virtual std::size_t workspace_bytes() const = 0;

  /// Without a memory, q [n, T, 3·width] holds queries, keys and values of each position, each by head, and `kv` is
  /// empty. With a memory, q [n, T, width] holds queries only, and kv [n, memory, 2·width] keys and values. y [n, T,
  /// width]; logsumexp [n, heads, T] of master_dtype is kept for the backward pass.
  virtual void forward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                       const Tensor& logsumexp, const Tensor& workspace) = 0;
  /// Computes dq and dkv, in the layout of q and kv, from dy. Probabilities are recomputed block by block. Every sum is
  /// computed by one thread or team in a fixed order.
  virtual void backward(const ExecSpace& space, const Tensor& q, const Tensor& kv, const Tensor& y,
                        const Tensor& logsumexp, const Tensor& dy, const Tensor& dq, const Tensor& dkv,
                        const Tensor& workspace) = 0;
};

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
/// in the order of ops/sequence/recurrent.hpp.
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
