// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "config/fields.hpp"
#include "nn/initializer.hpp"

namespace lockstep {

/// The initialization of the weight and bias of a layer with fan_in inputs and fan_out outputs per element. Its members
/// are keys of linear and convolution layers.
struct WeightInit {
  /// fan_in: U(±1/√fan_in) for weight and bias (LeCun et al. 1998; PyTorch's default). he: N(0, 2/fan_in) (He et al.,
  /// "Delving deep into rectifiers", 2015). glorot: U(±√(6/(fan_in + fan_out))) (Glorot & Bengio 2010). Convolutions
  /// use PyTorch's fans: size(1) and size(0) of the weight, each times the number of taps. With he and glorot, biases
  /// start at 0.
  enum class Kind { fan_in, he, glorot };
  Kind kind = Kind::fan_in;
  double std = 0;  ///< if > 0, replaces `kind`: weights start as N(0, std²), biases as 0

  void describe(Fields& fields);
  Initializer weight(std::int64_t fan_in, std::int64_t fan_out) const;
  Initializer bias(std::int64_t fan_in) const;
};

}  // namespace lockstep
