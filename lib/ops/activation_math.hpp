// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <type_traits>

#include "ops/activation.hpp"
#include "ops/fast_math.hpp"

// Activations as kernels compute them; C is the type of the arithmetic.
namespace lockstep {

/// Returns the activation of `value`. NaN stays NaN.
template <Activation activation, class C>
KOKKOS_INLINE_FUNCTION C activated(C value) {
  if constexpr (activation == Activation::relu) return value < C(0) ? C(0) : value;
  else if constexpr (activation == Activation::tanh) return fast_tanh(value);
  else if constexpr (activation == Activation::sigmoid) return fast_sigmoid(value);
  else if constexpr (activation == Activation::gelu) return value * fast_normal(value).probability;
  else return value;
}

/// The derivative at `value` of an activation that keeps it; for gelu, Φ(x) + x·φ(x).
template <Activation activation, class C>
KOKKOS_INLINE_FUNCTION C activation_derivative(C value) {
  static_assert(activation == Activation::gelu);
  return fast_normal(value).probability + value * fast_normal(value).density;
}

/// keeps_derivative as a constant that kernels can use.
template <Activation activation>
inline constexpr bool reads_derivative = keeps_derivative(activation);

/// dy times the activation's derivative. `kept` is that derivative or the activation's result, whichever is kept.
template <Activation activation, class C>
KOKKOS_INLINE_FUNCTION C activation_gradient(C kept, C dy) {
  if constexpr (reads_derivative<activation>) return dy * kept;
  else if constexpr (activation == Activation::relu) return kept > C(0) ? dy : C(0);
  else if constexpr (activation == Activation::tanh) return dy * (C(1) - kept * kept);
  else if constexpr (activation == Activation::sigmoid) return dy * (kept * (C(1) - kept));
  else return dy;
}

/// Calls f with the activation as a compile-time constant.
template <class F>
void dispatch_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::none: return f(std::integral_constant<Activation, Activation::none>());
    case Activation::relu: return f(std::integral_constant<Activation, Activation::relu>());
    case Activation::tanh: return f(std::integral_constant<Activation, Activation::tanh>());
    case Activation::sigmoid: return f(std::integral_constant<Activation, Activation::sigmoid>());
    case Activation::gelu: return f(std::integral_constant<Activation, Activation::gelu>());
  }
}

}  // namespace lockstep
