// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.hpp"

namespace lockstep {

/// The initial values of a parameter. Element i depends only on the seed, the parameter's number and i.
struct Initializer {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double value = 0;  ///< constant: the value; uniform: draws from (−value, value); normal: the standard deviation

  /// A run of `count` consecutive elements that has its own `value` (see Initializer::value).
  struct Part {
    std::int64_t count;
    double value;
  };
  std::vector<Part> parts = {};  ///< together cover all elements in order; empty: `value` holds for all of them

  static Initializer constant(double value) { return {Kind::constant, value}; }
  /// U(−1/√fan_in, 1/√fan_in): LeCun et al., "Efficient backprop", 1998; PyTorch's default for the weights and biases
  /// of linear and convolution layers.
  static Initializer fan_in(std::int64_t fan_in);
  static Initializer uniform(double bound) { return {Kind::uniform, bound}; }
  static Initializer uniform(std::vector<Part> bounds) { return {Kind::uniform, 0, std::move(bounds)}; }
  /// N(0, deviation²).
  static Initializer normal(double deviation) { return {Kind::normal, deviation}; }
};

void initialize(const ExecSpace& space, const Initializer& initializer, std::uint64_t seed, std::uint64_t number,
                const Tensor& parameter);

}  // namespace lockstep
