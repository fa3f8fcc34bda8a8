// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/fields.hpp"

namespace lockstep {

/// The scale on which a deck's key is searched.
class Dimension {
 public:
  void describe(Fields& fields);

  /// Returns the value at a place in [0, 1), as text for a deck. `budget`: steps of the trial, of which a value with
  /// `of_budget` is a share.
  std::string value_at(double place, std::int64_t budget) const;
  /// Whether a place lies in the first or last twentieth of the scale. Values without an order have no border.
  bool is_at_border(double place) const;

 private:
  double number_at(double place) const;

  // Texts, so that those that are not given leave no trace in the resolved study.
  std::vector<std::string> linear_, log_, reverse_log_, integer_, discrete_;
  bool of_budget_ = false;
};

/// The keys that are searched and their scales, in the study's order.
struct SearchSpace {
  std::vector<std::string> keys;
  std::vector<Dimension> dimensions;

  void describe(Fields& fields, std::string_view key);
};

}  // namespace lockstep
