// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "config/fields.hpp"
#include "nn/initializer.hpp"

namespace lockstep {

/// How the weight and the bias of a layer with fan_in inputs and fan_out outputs an element start; keys of linear and
/// conv2d.
struct WeightInit {
  /// fan_in: U(±1/√fan_in), both (LeCun et al. 1998; PyTorch's default). he: N(0, 2/fan_in) (He et al., "Delving deep
  /// into rectifiers", 2015). glorot: U(±√(6/(fan_in + fan_out))) (Glorot & Bengio 2010), of convolutions with
  /// PyTorch's fans: size(1) and size(0) of the weight, times its taps. Biases of he and glorot are 0.
  enum class Kind { fan_in, he, glorot };
  Kind kind = Kind::fan_in;
  double std = 0;  ///< > 0: N(0, std²) and a bias of 0 instead

  void describe(Fields& fields);
  Initializer weight(std::int64_t fan_in, std::int64_t fan_out) const;
  Initializer bias(std::int64_t fan_in) const;
};

}  // namespace lockstep
