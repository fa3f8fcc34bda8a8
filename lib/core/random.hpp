// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <cstdint>

namespace lockstep {

/// 128 random bits of Philox4x32-10, a function of key and counter (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", SC'11). There is no state: a number depends only on its use (seed, purpose, step, element), never on
/// ranks, threads or order, so a resumed run needs only the seed and the step.
struct RandomBits {
  std::uint32_t word[4];
};

KOKKOS_INLINE_FUNCTION RandomBits philox(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  RandomBits x{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
                static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x.word[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x.word[2];
    x = {{static_cast<std::uint32_t>(p1 >> 32) ^ x.word[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ x.word[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

/// Purpose of a random stream; part of the counter, so that purposes never share numbers.
enum class RandomPurpose : std::uint32_t {
  parameters = 1,
  shuffle = 2,
  dropout = 3,
  dataset = 4,
  augment = 5,
  generation = 6,
  sampling = 7,
  search = 8,
  compression = 9,
  sketch = 10,
  delays = 11
};

/// A random stream, whose elements can be computed in any order.
class RandomStream {
 public:
  KOKKOS_FUNCTION RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index = 0)
      : key_(seed), high_((static_cast<std::uint64_t>(purpose) << 56) ^ index) {}

  KOKKOS_FUNCTION RandomBits bits(std::uint64_t i) const { return philox(key_, high_, i); }
  /// Stores the words of elements i, …, i + count − 1, four per element; CPUs vectorize this.
  template <int count>
  KOKKOS_FUNCTION void bits(std::uint64_t i, std::uint32_t* words) const {
    for (int element = 0; element < count; ++element) {
      const RandomBits drawn = bits(i + static_cast<std::uint64_t>(element));
      for (int w = 0; w < 4; ++w) words[4 * element + w] = drawn.word[w];
    }
  }

  /// Uniform in [0, 1) with 53 random bits; exact arithmetic, so the same on every machine.
  KOKKOS_FUNCTION double uniform(std::uint64_t i) const {
    const RandomBits b = bits(i);
    const std::uint64_t mantissa = ((static_cast<std::uint64_t>(b.word[0]) << 32) | b.word[1]) >> 11;
    return static_cast<double>(mantissa) * (1.0 / 9007199254740992.0);
  }

  /// Normal, N(0, 1), from two uniform numbers of 53 random bits each (Box & Muller, "A note on the generation of
  /// random normal deviates", 1958).
  KOKKOS_FUNCTION double normal(std::uint64_t i) const {
    const RandomBits b = bits(i);
    const auto in_unit = [](std::uint32_t high, std::uint32_t low) {  // in (0, 1]
      const std::uint64_t mantissa = ((static_cast<std::uint64_t>(high) << 32) | low) >> 11;
      return static_cast<double>(mantissa + 1) * (1.0 / 9007199254740992.0);
    };
    constexpr double two_pi = 6.283185307179586477;
    return Kokkos::sqrt(-2.0 * Kokkos::log(in_unit(b.word[0], b.word[1]))) *
           Kokkos::cos(two_pi * in_unit(b.word[2], b.word[3]));
  }

  /// A whole number in [0, n), n > 0, with a bias below n / 2^64.
  KOKKOS_FUNCTION std::uint64_t below(std::uint64_t n, std::uint64_t i) const {
    const RandomBits b = bits(i);
    const std::uint64_t value = (static_cast<std::uint64_t>(b.word[0]) << 32) | b.word[1];
    // The high half of value · n in 32-bit pieces, because devices have no 128-bit integers.
    const std::uint64_t low = (value & 0xFFFFFFFFu) * (n & 0xFFFFFFFFu);
    const std::uint64_t mid1 = (value >> 32) * (n & 0xFFFFFFFFu) + (low >> 32);
    const std::uint64_t mid2 = (value & 0xFFFFFFFFu) * (n >> 32) + (mid1 & 0xFFFFFFFFu);
    return (value >> 32) * (n >> 32) + (mid1 >> 32) + (mid2 >> 32);
  }

 private:
  std::uint64_t key_;
  std::uint64_t high_;
};

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
