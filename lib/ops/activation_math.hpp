// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "ops/activation.hpp"

// Activations as kernels compute them; C is the type of the arithmetic.
namespace lockstep {

/// y of what the activation is given. NaN stays NaN.
template <Activation activation, class C>
KOKKOS_INLINE_FUNCTION C activated(C value) {
  if constexpr (activation == Activation::relu) return value < C(0) ? C(0) : value;
  else if constexpr (activation == Activation::tanh) return Kokkos::tanh(value);
  else if constexpr (activation == Activation::sigmoid) return C(1) / (C(1) + Kokkos::exp(-value));
  else return value;
}

/// dy times the activation's derivative, by the activation's result.
template <Activation activation, class C>
KOKKOS_INLINE_FUNCTION C activation_gradient(C result, C dy) {
  if constexpr (activation == Activation::relu) return result > C(0) ? dy : C(0);
  else if constexpr (activation == Activation::tanh) return dy * (C(1) - result * result);
  else if constexpr (activation == Activation::sigmoid) return dy * (result * (C(1) - result));
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
  }
}

}  // namespace lockstep
