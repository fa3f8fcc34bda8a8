// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/weight_init.hpp"

#include <cmath>

namespace lockstep {

void WeightInit::describe(Fields& fields) {
  static constexpr std::string_view kinds[] = {"fan_in", "he", "glorot"};
  fields.choice(
      "initializer", kind, kinds,
      "initial weight: fan_in (uniform in ±1/√fan_in, the bias too, as in PyTorch), he (N(0, 2/fan_in), for use before "
      "relu) or glorot (uniform in ±√(6/(fan_in + fan_out)), before tanh); he and glorot set the bias to 0");
  fields.number("initial_std", std, {0, 1e6},
                "standard deviation of the initial weight, N(0, initial_std²) with a bias of 0, in place of "
                "initializer (0: as initializer says)");
  fields.check(std == 0 || kind == Kind::fan_in, "initial_std",
               "cannot be combined with initializer (both set the initial weight); remove one of them");
}

Initializer WeightInit::weight(std::int64_t fan_in, std::int64_t fan_out) const {
  if (std > 0) return Initializer::normal(std);
  switch (kind) {
    case Kind::fan_in: return Initializer::fan_in(fan_in);
    case Kind::he: return Initializer::normal(::std::sqrt(2.0 / static_cast<double>(fan_in)));
    case Kind::glorot: return Initializer::uniform(::std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
  }
  return {};
}

Initializer WeightInit::bias(std::int64_t fan_in) const {
  return std > 0 || kind != Kind::fan_in ? Initializer::constant(0) : Initializer::fan_in(fan_in);
}

}  // namespace lockstep
