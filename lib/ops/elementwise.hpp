// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "core/step_number.hpp"
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

}  // namespace lockstep
