// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace lockstep {

/// A function of one element. Its derivative follows from its result, or is kept beside that: so whatever makes
/// the element can apply it before storing, and nobody keeps what it was given.
/// gelu: x·Φ(x), Φ(x) = (1 + erf(x/√2))/2 the normal distribution's probability (Hendrycks and Gimpel 2016), exact.
enum class Activation { none, relu, tanh, sigmoid, gelu };

/// Whether a backward pass reads the derivative that the forward pass has kept, and not the result.
constexpr bool keeps_derivative(Activation activation) { return activation == Activation::gelu; }

/// Whether a gradient replaces what stands in its place or is added to it (later micro-batches of a step).
enum class Store { replace, add };

}  // namespace lockstep
