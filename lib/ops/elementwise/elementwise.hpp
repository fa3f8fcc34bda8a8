// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/device_graph.hpp"
#include "core/tensor.hpp"
#include "ops/activation.hpp"

namespace lockstep {

/// y = activation(x); x may be y. `derivative`: see bias_activation_forward.
void activation_forward(const ExecSpace& space, Activation activation, const Tensor& x, const Tensor& y,
                        const Tensor& derivative = {});
/// dx = dy · activation′, from what forward has kept (see bias_activation_backward). The gradient of relu at 0 is 0. dx
/// may be dy.
void activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                         const Tensor& dx);

/// y = a + b.
void add(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& y);
/// y += x.
void accumulate(const ExecSpace& space, const Tensor& x, const Tensor& y);
/// y += scale · x; not for 16-bit types. `left_out` lies in device memory; if it is not 0, nothing is done.
void accumulate(const ExecSpace& space, double scale, const Tensor& x, const Tensor& y,
                const std::int32_t* left_out = nullptr);

/// Inverted dropout (Srivastava et al. 2014): y = x / (1 − rate) where kept, else 0. With g = first_element + i, word g
/// mod 4 of draw g / 4 of the stream (seed, stream ^ step) decides whether element i is dropped. The mask therefore
/// depends on the position in the global batch but not on the rank, and the backward pass draws it again instead of
/// storing it. The probability equals the rate to 2⁻³².
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  ///< stream of the layer; its lower 40 bits are left for the step
  StepNumber step;
  std::int64_t first_element = 0;  ///< position of this rank's first element in the global batch
  double rate = 0.5;
};
void dropout(const ExecSpace& space, const DropoutMask& mask, const Tensor& x, const Tensor& y);

// y is treated as [rows, c] here: c is the last extent, rows are all others.

/// y = activation(y + bias) in place; bias [c] has y's master_dtype, or is empty. `derivative`, shaped like y, receives
/// the activation's derivative if that is kept; it is empty if no backward pass follows.
void bias_activation_forward(const ExecSpace& space, const Tensor& bias, Activation activation, const Tensor& y,
                             const Tensor& derivative = {});

/// In one pass: dy ← dy · activation′, in place, and dbias [c] (master_dtype) (+)= the column sums of the new dy; dbias
/// may be empty. `kept`, shaped like dy, is the activation's derivative if that is kept, else its result; it is not
/// read, and may be empty, for Activation::none. The order of the sums depends only on the sizes and the number of
/// threads.
void bias_activation_backward(const ExecSpace& space, Activation activation, const Tensor& kept, const Tensor& dy,
                              const Tensor& dbias, Store store, const Tensor& workspace);

/// Workspace bytes of bias_activation_backward for gradients [rows, c]; 0 with one thread.
std::size_t bias_workspace_bytes(DType dtype, std::int64_t rows, std::int64_t c);

/// Element-wise functions that products do not fuse; backward needs their input x:
///  - silu: x/(1 + e^−x) (Elfwing et al. 2018);
///  - leaky_relu: x, times a where x ≤ 0 (Maas et al. 2013);
///  - elu: x, or a·(e^x − 1) where x ≤ 0 (Clevert et al. 2016);
///  - gelu_tanh: x/2·(1 + tanh(√(2/π)·(x + 0.044715 x³))) (Hendrycks and Gimpel 2016; GPT-2's gelu).
enum class Pointwise { silu, leaky_relu, elu, gelu_tanh };

/// y = f(x); x may be y. `a` is the parameter of leaky_relu and elu.
void pointwise_forward(const ExecSpace& space, Pointwise function, double a, const Tensor& x, const Tensor& y);
/// dx = dy · f′(x); dx may be dy.
void pointwise_backward(const ExecSpace& space, Pointwise function, double a, const Tensor& x, const Tensor& dy,
                        const Tensor& dx);

/// y = a · b, element by element.
void multiply(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& y);
/// da = dy · b and db = dy · a; one of them may be empty, and one may be dy.
void multiply_backward(const ExecSpace& space, const Tensor& a, const Tensor& b, const Tensor& dy, const Tensor& da,
                       const Tensor& db);

}  // namespace lockstep
