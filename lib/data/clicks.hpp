// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace lockstep {

/// A known law of who clicks on what. An example is `dense` values x, nearly N(0, 1), and a row number for each of some
/// tables, where row r is drawn with a probability proportional to 1/(r + 1) (Zipf's law). The logit of a click is −1 +
/// w·x + Σ eₖ + Σ vⱼ·vₖ over the tables and their pairs j < k, where eₖ and vₖ (four numbers) belong to the row of
/// table k. All of w, e and v are uniform around 0, scaled such that each of the three sums has a standard deviation of
/// about 1 over evenly drawn rows.
class ClickWorld {
 public:
  /// `vocabularies`: number of rows of each table. `law`: gives w, e and v.
  ClickWorld(std::int64_t dense, const std::vector<std::int64_t>& vocabularies, const RandomStream& law);

  /// Draws an example's dense values and row numbers from `random`.
  void draw(const RandomStream& random, float* example) const;
  /// Probability of a click on the example: the best that a network can predict.
  double probability(const float* example) const;

 private:
  std::vector<double> dense_;               // w
  std::vector<std::vector<double>> until_;  // of each table: Σ 1/(r + 1) over the rows up to each row
  std::vector<std::uint64_t> first_;        // of each table: the first number in law_ of its rows
  RandomStream law_;
};

}  // namespace lockstep
