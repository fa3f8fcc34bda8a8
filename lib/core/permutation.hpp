// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace lockstep {

/// An order of the numbers 0 … n−1 that looks random, and is a function of the random stream alone: each element is computed by
/// itself, in no memory and without set-up, in whatever order they are asked for.
///
/// A Feistel network over pairs of numbers below a and b, a·b ≥ n, which walks on until it is below n (Black & Rogaway,
/// "Ciphers with arbitrary finite domains", CT-RSA 2002): as a·b exceeds n by no more than a, that is hardly ever needed for
/// large n. It has as many rounds as NIST's FF1 (SP 800-38G), for small n more, and Philox as its round function.
class Permutation {
 public:
  /// `n` ≥ 1.
  Permutation(std::int64_t n, const RandomStream& random);

  std::int64_t size() const { return static_cast<std::int64_t>(n_); }
  /// Element number i, 0 ≤ i < n.
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t once(std::uint64_t value) const;

  std::uint64_t n_;
  std::uint64_t a_, b_;
  std::uint64_t rounds_;
  RandomStream random_;
};

}  // namespace lockstep
