// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "parameters/parameter_layout.hpp"

namespace lockstep {

/// Tells which data of the trained parameters (values, gradients) ranks divide among themselves, so that no rank holds
/// all of them. A single rank owns everything.
struct ParameterDivision {
  bool gradients = false, values = false;
  bool values_elsewhere = false;  ///< true if the rank's own values are in an OwnedValueStore
  double unit_mb = 25;            ///< target size of a unit: see ParameterLayout::units
  std::int64_t prefetch = 1;      ///< number of units that arrive ahead of the one in use
};

/// Where layers see parameters that no rank has as a whole. Units (ParameterLayout::units) take turns in windows of
/// memory: a unit has its window while layers need it, and then another unit has it. Units with parameters that several
/// layers share have memory of their own. Times number the segments of a step: those of the forward pass, then the last
/// layer with the loss, then those of the backward pass.
struct UnshardPlan {
  /// The times between which layers use a unit.
  struct Use {
    int first = std::numeric_limits<int>::max(), last = -1;
    bool none() const { return last < 0; }
    void include(int time);
  };
  /// The units of one pass, and the order in which they are first used.
  struct Pass {
    std::vector<Use> uses;           ///< for each unit
    std::vector<std::size_t> order;  ///< without units that are not used
  };

  /// Where units begin in memory, in elements.
  struct Places {
    std::vector<std::int64_t> of_units;  ///< empty: nothing is divided; each unit is at its place in the flat buffer
    std::int64_t count = 0;              ///< total of all units
  };

  ParameterDivision division;
  int loss_time = 0;  ///< earlier times are the forward pass, later ones the backward pass
  int times = 0;      ///< number of times in a micro-batch
  std::vector<ElementRange> units;
  std::vector<bool> stays;  ///< for each unit: true if it has memory of its own
  Pass forward, backward;   ///< when values are used
  /// For each unit: when its gradients are computed. Those of unit i are final before those of unit i + 1.
  std::vector<Use> gradients;
  Places value_places, gradient_places;

  /// The unit that contains an element of the trained parameters.
  std::size_t unit_of(std::int64_t element) const;
  // Where layers see an element of the flat buffer. Elements that are not trained come after all units.
  std::int64_t value_place(std::int64_t element) const { return place(element, value_places); }
  std::int64_t gradient_place(std::int64_t element) const { return place(element, gradient_places); }
  // Number of elements that layers need memory for, including those that are not trained.
  std::int64_t value_count(const ParameterLayout& layout) const { return value_place(layout.size()); }
  std::int64_t gradient_count(const ParameterLayout& layout) const { return gradient_place(layout.summed_size()); }

 private:
  std::int64_t place(std::int64_t element, const Places& places) const;
};

/// Tracks which units have their values in windows as a pass advances. It follows the plan alone, so all ranks agree.
class UnitsInWindows {
 public:
  /// `windows` must divide values, and outlive this object.
  explicit UnitsInWindows(const UnshardPlan& windows) : windows_(windows), here_(windows.units.size(), false) {}

  /// Called before layers of `time` run: calls `bring` for each absent unit that these layers need or that is within
  /// `prefetch` units of them, in the order in which units travel. The unit counts as present from then on.
  void enter(int time, const std::function<void(std::size_t unit)>& bring);
  /// True if layers of this time, or of an earlier time of its pass, use the unit.
  bool is_needed(std::size_t unit, int time) const { return pass_of(time).uses[unit].first <= time; }
  /// Marks all units as absent, because the values have changed.
  void forget() { here_.assign(here_.size(), false); }

 private:
  const UnshardPlan::Pass& pass_of(int time) const {
    return time <= windows_.loss_time ? windows_.forward : windows_.backward;
  }

  const UnshardPlan& windows_;
  std::vector<bool> here_;  ///< present or on their way
};

/// Brings units into their windows and removes them.
class WindowTraffic {
 public:
  virtual ~WindowTraffic() = default;
  /// Called before layers of `time` run: returns when the units that they use are in their windows, with their values.
  /// Times ascend within each step, and all ranks pass the same times. Collective.
  virtual void enter(const ExecSpace& space, int time) = 0;
};

}  // namespace lockstep
