// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Macros.hpp>
#include <Kokkos_MathematicalFunctions.hpp>
#include <cstdint>

namespace lockstep {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): a function
/// from (key, counter) to 128 random bits. Nothing has a state, so that a number depends only on
/// what it is for (seed, purpose, step, element), never on ranks, threads or order; a resumed run
/// needs nothing but the seed and the step.
struct RandomBits {
  std::uint32_t word[4];
};

/// Words of counter (high, low) and those behind it, `calls` in all, four each: loops over calls become vectors on
/// CPUs.
template <int calls>
KOKKOS_INLINE_FUNCTION void philox_words(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low,
                                         std::uint32_t* words) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t x[4][calls];
  for (int i = 0; i < calls; ++i) {
    const std::uint64_t low = counter_low + static_cast<std::uint64_t>(i);
    x[0][i] = static_cast<std::uint32_t>(low);
    x[1][i] = static_cast<std::uint32_t>(low >> 32);
    x[2][i] = static_cast<std::uint32_t>(counter_high);
    x[3][i] = static_cast<std::uint32_t>(counter_high >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < calls; ++i) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * x[0][i];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * x[2][i];
      x[0][i] = static_cast<std::uint32_t>(p1 >> 32) ^ x[1][i] ^ k0;
      x[1][i] = static_cast<std::uint32_t>(p1);
      x[2][i] = static_cast<std::uint32_t>(p0 >> 32) ^ x[3][i] ^ k1;
      x[3][i] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < calls; ++i)
    for (int w = 0; w < 4; ++w) words[4 * i + w] = x[w][i];
}

KOKKOS_INLINE_FUNCTION RandomBits philox(std::uint64_t key, std::uint64_t counter_high, std::uint64_t counter_low) {
  RandomBits bits;
  philox_words<1>(key, counter_high, counter_low, bits.word);
  return bits;
}

/// What a stream of random numbers is for; mixed into the key so that purposes never share numbers.
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

/// One stream: element i of it, for every i, in any order.
class RandomStream {
 public:
  KOKKOS_FUNCTION RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index = 0)
      : key_(seed), high_((static_cast<std::uint64_t>(purpose) << 56) ^ index) {}

  KOKKOS_FUNCTION RandomBits bits(std::uint64_t i) const { return philox(key_, high_, i); }
  /// Those of elements i, …, i + calls − 1.
  template <int calls>
  KOKKOS_FUNCTION void bits(std::uint64_t i, std::uint32_t* words) const {
    philox_words<calls>(key_, high_, i, words);
  }

  /// In [0, 1), 53 random bits; exact arithmetic, the same on every machine.
  KOKKOS_FUNCTION double uniform(std::uint64_t i) const {
    const RandomBits b = bits(i);
    const std::uint64_t mantissa = ((static_cast<std::uint64_t>(b.word[0]) << 32) | b.word[1]) >> 11;
    return static_cast<double>(mantissa) * (1.0 / 9007199254740992.0);
  }

  /// From N(0, 1): Box & Muller, "A note on the generation of random normal deviates", 1958, of 64 random bits each.
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

  /// A whole number in [0, n), n > 0. Its bias is below n / 2^64.
  KOKKOS_FUNCTION std::uint64_t below(std::uint64_t n, std::uint64_t i) const {
    const RandomBits b = bits(i);
    const std::uint64_t value = (static_cast<std::uint64_t>(b.word[0]) << 32) | b.word[1];
    // The high half of value · n, by 32-bit pieces (no 128-bit integers on devices).
    const std::uint64_t low = (value & 0xFFFFFFFFu) * (n & 0xFFFFFFFFu);
    const std::uint64_t mid1 = (value >> 32) * (n & 0xFFFFFFFFu) + (low >> 32);
    const std::uint64_t mid2 = (value & 0xFFFFFFFFu) * (n >> 32) + (mid1 & 0xFFFFFFFFu);
    return (value >> 32) * (n >> 32) + (mid1 >> 32) + (mid2 >> 32);
  }

 private:
  std::uint64_t key_;
  std::uint64_t high_;
};

}  // namespace lockstep
