// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// An element-wise function whose derivative follows from its result, or is kept with it. The operation that produces
/// an element can therefore apply the function before storing, and the function's input is not kept. gelu is x·Φ(x),
/// exact, with the normal distribution function Φ(x) = (1 + erf(x/√2))/2 (Hendrycks and Gimpel 2016).
enum class Activation { none, relu, tanh, sigmoid, gelu };

/// True if backward reads the derivative that forward has kept, instead of the result.
constexpr bool keeps_derivative(Activation activation) { return activation == Activation::gelu; }

/// Whether a gradient replaces the present value or is added to it (in later micro-batches of a step).
enum class Store { replace, add };

}  // namespace lockstep
