// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "core/execution.hpp"

namespace lockstep {
namespace {

std::vector<std::uint32_t> words(const RandomBits& bits) { return {bits.word, bits.word + 4}; }

// Known answers of Random123's kat_vectors for philox 4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(words(philox(0, 0, 0)), (std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(words(philox(ones, ones, ones)),
            (std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0, lowest word first.
  EXPECT_EQ(words(philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u)),
            (std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// A function of its own, since nvcc allows no kernels in private functions such as TestBody.
Kokkos::View<double*, MemorySpace> uniform_numbers(const RandomStream& random, int count) {
  const Kokkos::View<double*, MemorySpace> made("made", static_cast<std::size_t>(count));
  Kokkos::parallel_for(
      "lockstep::test", Kokkos::RangePolicy<ExecSpace>(0, count),
      KOKKOS_LAMBDA(const int i) { made(i) = random.uniform(static_cast<std::uint64_t>(i)); });
  return made;
}

TEST(RandomStream, DeviceAgreesWithHost) {
  const RandomStream random(42, RandomPurpose::dataset, 7);
  const int count = 1000;
  const auto made = uniform_numbers(random, count);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), made);
  for (int i = 0; i < count; ++i) EXPECT_EQ(host(i), random.uniform(static_cast<std::uint64_t>(i)));
}

TEST(RandomStream, SeveralElementsAtOnceAreThose) {
  const RandomStream random(5, RandomPurpose::dropout, 6);
  const std::uint64_t first = (std::uint64_t{1} << 32) - 3;  // so that the counters exceed 32 bits
  std::uint32_t several[32];
  random.bits<8>(first, several);
  for (std::uint64_t i = 0; i < 8; ++i)
    EXPECT_EQ(words(random.bits(first + i)), std::vector<std::uint32_t>(several + 4 * i, several + 4 * i + 4));
}

TEST(RandomStream, UniformIsUniform) {
  const RandomStream random(1, RandomPurpose::dataset);
  const int count = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.005);
}

TEST(RandomStream, BelowIsTheHighHalfOfAProduct) {
  const RandomStream random(3, RandomPurpose::dataset);
  for (const std::uint64_t n :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{1} << 33, ~std::uint64_t{0}})
    for (std::uint64_t i = 0; i < 200; ++i) {
      const RandomBits bits = random.bits(i);
      const unsigned __int128 value = (static_cast<unsigned __int128>(bits.word[0]) << 32) | bits.word[1];
      EXPECT_EQ(random.below(n, i), static_cast<std::uint64_t>((value * n) >> 64));
    }
}

TEST(RandomStream, PurposesAndIndicesShareNothing) {
  std::set<std::uint64_t> seen;
  int made = 0;
  for (std::uint64_t seed : {0, 1})
    for (const auto purpose :
         {RandomPurpose::parameters, RandomPurpose::shuffle, RandomPurpose::dropout, RandomPurpose::dataset})
      for (std::uint64_t index = 0; index < 5; ++index)
        for (std::uint64_t i = 0; i < 50; ++i, ++made) {
          const RandomBits bits = RandomStream(seed, purpose, index).bits(i);
          seen.insert((std::uint64_t{bits.word[0]} << 32) | bits.word[1]);
        }
  EXPECT_EQ(static_cast<int>(seen.size()), made);
}

}  // namespace
}  // namespace lockstep
