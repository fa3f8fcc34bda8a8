// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/unshard_plan.hpp"

#include <algorithm>

#include "core/element_range.hpp"

namespace lockstep {

void UnshardPlan::Use::include(int time) {
  first = std::min(first, time);
  last = std::max(last, time);
}

std::size_t UnshardPlan::unit_of(std::int64_t element) const {
  const auto after = std::ranges::upper_bound(units, element, {}, &ElementRange::first);
  return static_cast<std::size_t>(after - units.begin()) - 1;
}

std::int64_t UnshardPlan::place(std::int64_t element, const Places& places) const {
  if (places.of_units.empty()) return element;
  const std::int64_t trained = units.back().first + units.back().count;
  if (element >= trained) return places.count + element - trained;
  const std::size_t unit = unit_of(element);
  return places.of_units[unit] + element - units[unit].first;
}

void UnitsInWindows::enter(int time, const std::function<void(std::size_t unit)>& bring) {
  const UnshardPlan::Pass& pass = pass_of(time);
  const auto after = std::ranges::upper_bound(pass.order, time, {},
                                              [&](std::size_t unit) { return pass.uses[unit].first; });
  const std::ptrdiff_t needed = after - pass.order.begin();
  const std::ptrdiff_t wanted = std::min(std::ssize(pass.order),
                                         needed + static_cast<std::ptrdiff_t>(windows_.division.prefetch));
  const std::vector<std::int64_t>& places = windows_.value_places.of_units;
  for (std::ptrdiff_t i = 0; i < wanted; ++i) {
    const std::size_t unit = pass.order[static_cast<std::size_t>(i)];
    if (here_[unit] || pass.uses[unit].last < time) continue;
    for (std::size_t other = 0; other < here_.size(); ++other)
      if (places[other] == places[unit]) here_[other] = false;
    here_[unit] = true;
    bring(unit);
  }
}

}  // namespace lockstep
