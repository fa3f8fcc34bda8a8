// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/tensor.hpp"

namespace lockstep {

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
