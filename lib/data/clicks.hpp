// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace lockstep {

/// Who clicks on what, in a world whose law is known. An example is `dense` values x, nearly N(0, 1), and the number of
/// a row in each of some tables, row r of which comes as often as 1/(r + 1) says (Zipf's law). Its click has the logit
/// −1 + w·x + Σ eₖ + Σ vⱼ·vₖ over the tables and their pairs j < k, where eₖ and vₖ (four numbers) belong to the row.
/// All of these are uniform around 0, such that each of the three sums has a standard deviation of about 1 over rows
/// drawn evenly.
class ClickWorld {
 public:
  /// `vocabularies`: rows of each table. The law is made of the numbers of `law`.
  ClickWorld(std::int64_t dense, const std::vector<std::int64_t>& vocabularies, const RandomStream& law);

  /// Draws an example's dense values and row numbers, by the numbers of `random`.
  void draw(const RandomStream& random, float* example) const;
  /// How likely an example is clicked on: the best that a network can say.
  double probability(const float* example) const;

 private:
  std::vector<double> dense_;               // w
  std::vector<std::vector<double>> until_;  // of each table: Σ 1/(r + 1) over the rows up to each
  std::vector<std::uint64_t> first_;        // of each table: where in law_ the numbers of its rows begin
  RandomStream law_;
};

}  // namespace lockstep
