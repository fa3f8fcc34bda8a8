// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace lockstep {
namespace {

Permutation numbered(std::int64_t n, std::uint64_t number) { return {n, {1, RandomPurpose::shuffle, number}}; }

std::vector<std::int64_t> elements_of(const Permutation& permutation) {
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < permutation.size(); ++i) elements.push_back(permutation(i));
  return elements;
}

/// The number of standard deviations by which χ² exceeds its mean.
double deviations(double chi_squared, double degrees) { return (chi_squared - degrees) / std::sqrt(2 * degrees); }

/// Σ (count − expected)² / expected.
double chi_squared(const std::vector<double>& counts, double expected) {
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

constexpr double unlikely = 4;  // exceeded by chance in fewer than one of a thousand tests

TEST(Permutation, HasEachNumberOnce) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 100, 255, 256, 257, 1000, 65536, 99991}) {
    std::vector<int> seen(static_cast<std::size_t>(n), 0);
    for (const std::int64_t element : elements_of(numbered(n, static_cast<std::uint64_t>(n)))) {
      ASSERT_TRUE(element >= 0 && element < n) << n;
      ++seen[static_cast<std::size_t>(element)];
    }
    for (const int count : seen) ASSERT_EQ(count, 1) << n;
  }
}

TEST(Permutation, DependsOnItsStream) {
  EXPECT_EQ(elements_of(numbered(1000, 3)), elements_of(numbered(1000, 3)));
  EXPECT_NE(elements_of(numbered(1000, 3)), elements_of(numbered(1000, 4)));
  EXPECT_NE(elements_of(numbered(1000, 3)), elements_of({1000, {2, RandomPurpose::shuffle, 3}}));
}

TEST(Permutation, AllOrdersOfAFewAreEquallyLikely) {
  double orders = 1;
  for (std::int64_t n = 2; n <= 7; ++n) {
    orders *= static_cast<double>(n);
    const double each = 60;
    std::map<std::vector<std::int64_t>, double> found;
    for (std::uint64_t number = 0; number < static_cast<std::uint64_t>(each * orders); ++number)
      ++found[elements_of(numbered(n, number))];
    ASSERT_EQ(static_cast<double>(found.size()), orders) << n;
    std::vector<double> counts;
    for (const auto& [order, count] : found) counts.push_back(count);
    EXPECT_LT(std::abs(deviations(chi_squared(counts, each), orders - 1)), unlikely) << n;
  }
}

/// Every number is equally likely in every place, and every pair beside each other.
TEST(Permutation, PlacesAndNeighboursAreEquallyLikely) {
  for (const std::int64_t n : {10, 63, 64, 100, 131}) {
    const auto size = static_cast<std::size_t>(n);
    constexpr int tries = 10000;
    std::vector<double> places(size * size), neighbours(size * size);
    for (std::uint64_t number = 0; number < tries; ++number) {
      const auto elements = elements_of(numbered(n, number));
      for (std::size_t i = 0; i < size; ++i) {
        ++places[i * size + static_cast<std::size_t>(elements[i])];
        ++neighbours[static_cast<std::size_t>(elements[i] * n + elements[(i + 1) % size])];
      }
    }
    const double count = static_cast<double>(n);
    // Each row and column of a permutation has exactly one entry, so that χ² is n / (n − 1) times as large.
    EXPECT_LT(std::abs(deviations((count - 1) / count * chi_squared(places, tries / count), (count - 1) * (count - 1))),
              unlikely)
        << n;
    std::vector<double> pairs;
    for (std::size_t i = 0; i < size * size; ++i)
      if (i / size != i % size) pairs.push_back(neighbours[i]);
    EXPECT_LT(std::abs(deviations(chi_squared(pairs, tries / (count - 1)), count * (count - 2))), unlikely) << n;
  }
}

/// In a large set, numbers at a fixed distance are uncorrelated: neighbours, places a row of the network's pairs apart,
/// and places at other distances.
TEST(Permutation, LargeSetsShowNoPattern) {
  for (const std::int64_t n : {std::int64_t{1} << 20, std::int64_t{1000000007}, std::int64_t{1} << 40}) {
    const auto row = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
    for (const std::int64_t distance : {std::int64_t{1}, std::int64_t{2}, row, row + 1, row + 2, n / 2}) {
      const Permutation permutation = numbered(n, 9);
      constexpr int tries = 50000;
      double sum = 0;
      for (std::int64_t i = 0; i < tries; ++i) {
        const auto at = [&](std::int64_t place) {
          return static_cast<double>(permutation(place)) / static_cast<double>(n) - 0.5;
        };
        sum += at(i * 7) * at((i * 7 + distance) % n);
      }
      EXPECT_LT(std::abs(12 * sum / std::sqrt(static_cast<double>(tries))), unlikely) << n << " " << distance;
    }
  }
}

}  // namespace
}  // namespace lockstep
