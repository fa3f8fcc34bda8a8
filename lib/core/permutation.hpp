// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "core/random.hpp"

namespace lockstep {

/// A pseudorandom permutation of 0 … n−1 that depends only on the random stream. Each element is computed by itself,
/// without memory or set-up, so elements can be asked for in any order.
///
/// A Feistel network on pairs of numbers below a and b with a·b ≥ n, repeated until the result is below n ("cycle
/// walking": Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). As a·b exceeds n by less than a,
/// repetition is rare for large n. It has as many rounds as NIST's FF1 (SP 800-38G), more for small n; the round
/// function is Philox.
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
