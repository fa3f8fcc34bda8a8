// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/clicks.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/nearly_normal.hpp"

namespace lockstep {
namespace {

constexpr std::size_t hidden = 4;                     // size of a row's vector v
constexpr std::uint64_t numbers_of_row = hidden + 1;  // the row's effect e, then its vector v

/// A uniform random number of mean 0 and this variance.
double spread(const RandomStream& random, std::uint64_t i, double variance) {
  return std::sqrt(3 * variance) * (2 * random.uniform(i) - 1);
}

}  // namespace

ClickWorld::ClickWorld(std::int64_t dense, const std::vector<std::int64_t>& vocabularies, const RandomStream& law)
    : law_(law) {
  std::uint64_t first = 0;
  for (; first < static_cast<std::uint64_t>(dense); ++first)
    dense_.push_back(spread(law_, first, 1 / static_cast<double>(dense)));
  for (const std::int64_t vocabulary : vocabularies) {
    first_.push_back(first);
    first += numbers_of_row * static_cast<std::uint64_t>(vocabulary);
    double sum = 0;
    auto& until = until_.emplace_back();
    for (std::int64_t r = 0; r < vocabulary; ++r) until.push_back(sum += 1 / static_cast<double>(r + 1));
  }
}

void ClickWorld::draw(const RandomStream& random, float* example) const {
  std::uint64_t next = 0;
  for (std::size_t j = 0; j < dense_.size(); ++j, next += 12)
    *example++ = static_cast<float>(nearly_normal(random, next));
  for (const auto& until : until_) {
    const auto row = std::ranges::upper_bound(until, random.uniform(next++) * until.back());
    *example++ = static_cast<float>(std::min(row, until.end() - 1) - until.begin());
  }
}

double ClickWorld::probability(const float* example) const {
  const auto tables = static_cast<double>(first_.size());
  const double pairs = std::max(tables * (tables - 1) / 2, 1.0);
  double logit = -1, squares = 0;
  for (const double w : dense_) logit += w * static_cast<double>(*example++);
  std::array<double, hidden> sum{};
  for (const std::uint64_t first : first_) {
    const std::uint64_t row = first + numbers_of_row * static_cast<std::uint64_t>(*example++);
    logit += spread(law_, row, 1 / tables);
    for (std::size_t h = 0; h < hidden; ++h) {
      const double v = spread(law_, row + 1 + h, 1 / std::sqrt(pairs * hidden));
      sum[h] += v;
      squares += v * v;
    }
  }
  for (const double s : sum) logit += s * s / 2;  // Σ vⱼ·vₖ over pairs is half of |Σ v|² − Σ |v|²
  return 1 / (1 + std::exp(squares / 2 - logit));
}

}  // namespace lockstep
