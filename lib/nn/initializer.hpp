// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace lockstep {

/// How a parameter starts. Element i depends on seed, the parameter's number and i alone.
struct Initializer {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double value = 0;  ///< constant: the value; uniform: drawn from (−value, value); normal: the standard deviation

  static Initializer constant(double value) { return {Kind::constant, value}; }
  /// U(−1/√fan_in, 1/√fan_in): LeCun et al., "Efficient backprop", 1998, as PyTorch starts its
  /// linear and convolution layers, weights and biases.
  static Initializer fan_in(std::int64_t fan_in);
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  /// N(0, deviation²).
  static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
};

void initialize(const ExecSpace& space, const Initializer& initializer, std::uint64_t seed, std::uint64_t number,
                const Tensor& parameter);

}  // namespace lockstep
