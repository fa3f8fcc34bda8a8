// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "nn/parameters/parameter_layout.hpp"
#include "nn/plan/step_plan.hpp"

namespace lockstep {

/// What ranks divide among them, so that none has the gradients, or the values, of all trained parameters in its
/// memory. One rank by itself owns all.
struct ParameterDivision {
  bool gradients = false, values = false;
  bool values_elsewhere = false;  ///< whether those that a rank owns are not in the step's memory (OwnedValueStore)
  double unit_mb = 25;            ///< see ParameterLayout::units
  std::int64_t prefetch = 1;      ///< units that arrive beside the one that is used
};

/// Where layers see numbers that no rank has as a whole: unit after unit comes into a window of memory, which it has
/// for as long as layers need it, and then another one. Units of parameters that several layers have in common have
/// memory of their own. Times number a step's segments: those of the forward pass, the last layer with the loss, and
/// those of the backward pass.
struct ParameterWindows {
  /// When layers use a unit.
  struct Use {
    int first = std::numeric_limits<int>::max(), last = -1;
    bool none() const { return last < 0; }
    void include(int time);
  };
  /// Units of one pass, in the order of their first use, and when that is.
  struct Pass {
    std::vector<Use> uses;           ///< of each unit
    std::vector<std::size_t> order;  ///< without those that are not used
  };

  /// Where units begin in memory, in elements.
  struct Places {
    std::vector<std::int64_t> of_units;  ///< empty: nothing is divided, and all are in their places
    std::int64_t count = 0;              ///< that all units take
  };

  ParameterDivision division;
  int loss_time = 0;  ///< before it is the forward pass, after it the backward pass
  int times = 0;      ///< of a step's micro-batch
  std::vector<ParameterRange> units;
  std::vector<bool> stays;     ///< of each: whether its memory is its own
  Pass forward, backward;      ///< of the parameters
  std::vector<Use> gradients;  ///< of each; those of one unit are final after those of the one before
  Places value_places, gradient_places;

  /// The unit that an element of what is trained is in.
  std::size_t unit_of(std::int64_t element) const;
  // Where layers see an element of the flat buffer; what is not trained comes after all units.
  std::int64_t value_place(std::int64_t element) const { return place(element, value_places); }
  std::int64_t gradient_place(std::int64_t element) const { return place(element, gradient_places); }
  // Elements of memory for layers, with what is not trained.
  std::int64_t value_count(const ParameterLayout& layout) const { return value_place(layout.size()); }
  std::int64_t gradient_count(const ParameterLayout& layout) const { return gradient_place(layout.summed_size()); }

 private:
  std::int64_t place(std::int64_t element, const Places& places) const;
};

/// As few windows as suffice, so that each unit is there before it is used, with `prefetch` others after it, and so
/// that gradients can be summed while those of the next unit are computed.
ParameterWindows plan_windows(const Graph& graph, const ParameterLayout& layout, const StepPlan& plan,
                              const ParameterDivision& division);

/// Which units have their values in windows while layers go on: by the plan alone, so that all ranks find the same.
class UnitsInWindows {
 public:
  /// `windows`, which outlive it, divide values.
  explicit UnitsInWindows(const ParameterWindows& windows) : windows_(windows), here_(windows.units.size(), false) {}

  /// Layers of this time are next: calls `bring` for each unit that they need, or that is ahead of them (`prefetch`),
  /// and is not there, in the order in which units travel. It counts as there from now on.
  void enter(int time, const std::function<void(std::size_t unit)>& bring);
  /// Whether layers of this time, or earlier ones of its pass, use the unit.
  bool is_needed(std::size_t unit, int time) const { return pass_of(time).uses[unit].first <= time; }
  /// The values have changed.
  void forget() { here_.assign(here_.size(), false); }

 private:
  const ParameterWindows::Pass& pass_of(int time) const {
    return time <= windows_.loss_time ? windows_.forward : windows_.backward;
  }

  const ParameterWindows& windows_;
  std::vector<bool> here_;  ///< or on its way
};

/// Brings units into their windows, and takes them out.
class WindowTraffic {
 public:
  virtual ~WindowTraffic() = default;
  /// Layers of this time are next: returns when the units that they use have their windows, with their values. Times
  /// rise in each step; all ranks have the same ones. Collective.
  virtual void enter(const ExecSpace& space, int time) = 0;
};

}  // namespace lockstep
