// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/halton.hpp"

#include <numeric>

#include "core/random.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t left_out = 100;

std::int64_t prime_after(std::int64_t number) {
  for (std::int64_t n = number + 1;; ++n) {
    bool divides = false;
    for (std::int64_t d = 2; d * d <= n && !divides; ++d) divides = n % d == 0;
    if (!divides) return n;
  }
}

}  // namespace

double radical_inverse(std::int64_t index, std::span<const int> digits) {
  const auto base = static_cast<std::int64_t>(digits.size());
  double value = 0, place = 1;
  for (; index > 0; index /= base) {
    place /= static_cast<double>(base);
    value += place * digits[static_cast<std::size_t>(index % base)];
  }
  return value;
}

HaltonSequence::HaltonSequence(std::size_t dimensions, std::uint64_t seed, std::uint64_t stream) {
  std::int64_t prime = 1;
  for (std::size_t axis = 0; axis < dimensions; ++axis) {
    prime = prime_after(prime);
    const RandomStream random(seed, RandomPurpose::search, (stream << 16) + axis);
    std::vector<int> digits(static_cast<std::size_t>(prime));
    std::iota(digits.begin(), digits.end(), 0);
    for (std::size_t i = digits.size() - 1; i > 1; --i)  // the digit 0 stays
      std::swap(digits[i], digits[1 + random.below(i, i)]);
    axes_.push_back({std::move(digits), random.uniform(0)});
  }
}

std::vector<double> HaltonSequence::point(std::int64_t i) const {
  std::vector<double> place;
  for (const Axis& axis : axes_) {
    const double shifted = radical_inverse(left_out + i, axis.digits) + axis.shift;
    place.push_back(shifted >= 1 ? shifted - 1 : shifted);
  }
  return place;
}

}  // namespace lockstep
