// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/random.hpp"

#include <cassert>
#include <cmath>

namespace lockstep {
namespace {

/// Small sets need more rounds before all permutations are equally likely (tests/unit/core/permutation_test.cpp).
constexpr std::uint64_t small = 64, rounds_of_small = 24, usual_rounds = 10;

/// Returns the smallest even number that is at least √n; even, so that odd permutations occur as well as even ones.
std::uint64_t even_root(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  return root + root % 2;
}

}  // namespace

Permutation::Permutation(std::int64_t n, const RandomStream& random)
    : n_(static_cast<std::uint64_t>(n)),
      a_(even_root(n_)),
      b_((n_ + a_ - 1) / a_),
      rounds_(n_ < small ? rounds_of_small : usual_rounds),
      random_(random) {
  assert(n >= 1);
}

std::uint64_t Permutation::once(std::uint64_t value) const {
  std::uint64_t left = value % a_, right = value / a_;
  for (std::uint64_t round = 0; round < rounds_; round += 2) {
    left = (left + random_.below(a_, (round << 56) | right)) % a_;
    right = (right + random_.below(b_, ((round + 1) << 56) | left)) % b_;
  }
  return right * a_ + left;
}

std::int64_t Permutation::operator()(std::int64_t i) const {
  std::uint64_t value = once(static_cast<std::uint64_t>(i));
  while (value >= n_) value = once(value);
  return static_cast<std::int64_t>(value);
}

}  // namespace lockstep
