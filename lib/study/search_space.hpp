// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// A deck's key that is searched over, and on which scale.
class Dimension {
 public:
  void describe(Fields& fields);

  /// The value at a place in [0, 1), as a deck has it. `budget`: steps of the trial, of which an `of_budget` value is a
  /// share.
  std::string value_at(double place, std::int64_t budget) const;
  /// Whether a place is within a twentieth of the scale next to one of its ends; values without an order have none.
  bool is_at_border(double place) const;

 private:
  double number_at(double place) const;

  // As texts, of which those that are not given leave no trace in the resolved study.
  std::vector<std::string> linear_, log_, reverse_log_, integer_, discrete_;
  bool of_budget_ = false;
};

/// Keys with the ways in which they vary, in the study's order.
struct SearchSpace {
  std::vector<std::string> keys;
  std::vector<Dimension> dimensions;

  void describe(Fields& fields, std::string_view key);
};

}  // namespace lockstep
