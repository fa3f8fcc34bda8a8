// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/initializer.hpp"

#include <cmath>

#include "core/random.hpp"

namespace lockstep {
namespace {

template <class T>
void fill(const ExecSpace& space, Initializer::Kind kind, double value, const RandomStream& random, std::int64_t begin,
          std::int64_t end, T* parameter) {
  using Kind = Initializer::Kind;
  Kokkos::parallel_for(
      "lockstep::initialize::fill", RangePolicy(space, begin, end), KOKKOS_LAMBDA(const std::int64_t i) {
        const auto element = static_cast<std::uint64_t>(i);
        double start = value;
        if (kind == Kind::uniform) start = value * (2.0 * random.uniform(element) - 1.0);
        if (kind == Kind::normal) start = value * random.normal(element);
        parameter[i] = static_cast<T>(start);
      });
}

}  // namespace

Initializer Initializer::fan_in(std::int64_t fan_in) {
  return {Kind::uniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

void initialize(const ExecSpace& space, const Initializer& initializer, std::uint64_t seed, std::uint64_t number,
                const Tensor& parameter) {
  dispatch_master(parameter.dtype, [&]<class T>(T) {
    const RandomStream random(seed, RandomPurpose::parameters, number);
    if (initializer.parts.empty())
      fill<T>(space, initializer.kind, initializer.value, random, 0, parameter.count(), parameter.as<T>());
    std::int64_t begin = 0;
    for (const auto& part : initializer.parts) {
      fill<T>(space, initializer.kind, part.value, random, begin, begin + part.count, parameter.as<T>());
      begin += part.count;
    }
  });
}

}  // namespace lockstep
