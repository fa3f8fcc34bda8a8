// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>
#include <string>

#include "core/element_range.hpp"
#include "nn/plan/execution_plan.hpp"

namespace lockstep {
namespace {

using Use = UnshardPlan::Use;

/// Positions of units when unit i of `order` uses window i modulo `windows`.
UnshardPlan::Places places_of(const UnshardPlan& plan, const std::vector<std::size_t>& order, std::size_t windows) {
  UnshardPlan::Places places{.of_units = std::vector<std::int64_t>(plan.units.size(), 0)};
  std::int64_t largest = 0;
  for (const std::size_t unit : order) largest = std::max(largest, plan.units[unit].count);
  largest = array_blocks(largest) * array_block;
  for (std::size_t i = 0; i < order.size(); ++i)
    places.of_units[order[i]] = static_cast<std::int64_t>(i % windows) * largest;
  places.count = static_cast<std::int64_t>(std::min(windows, order.size())) * largest;
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit) {
    if (!plan.stays[unit]) continue;
    places.of_units[unit] = places.count;
    places.count += array_blocks(plan.units[unit].count) * array_block;
  }
  return places;
}

/// True if this number of windows suffices: no two units whose times [taken[i], left[i]] overlap share the window
/// window[i] modulo `windows`.
bool suffice(std::size_t windows, const std::vector<int>& taken, const std::vector<int>& left,
             const std::vector<std::size_t>& window) {
  for (std::size_t i = 0; i < taken.size(); ++i)
    for (std::size_t j = i + 1; j < taken.size(); ++j)
      if (window[i] % windows == window[j] % windows && left[i] >= taken[j] && left[j] >= taken[i]) return false;
  return true;
}

class WindowPlanner {
 public:
  WindowPlanner(const Graph& graph, const ParameterLayout& layout, const ExecutionPlan& plan,
                const ParameterDivision& division)
      : graph_(graph), layout_(layout), plan_(plan) {
    windows_.division = division;
    windows_.units = layout.units(division.unit_mb);
    const std::size_t units = windows_.units.size();
    windows_.stays.assign(units, false);
    windows_.forward.uses.assign(units, {});
    windows_.backward.uses.assign(units, {});
    windows_.gradients.assign(units, {});
  }

  UnshardPlan plan() {
    find_uses();
    sort(windows_.forward);
    sort(windows_.backward);
    if (windows_.division.values) place_values();
    if (windows_.division.gradients) place_gradients();
    return std::move(windows_);
  }

 private:
  void find_uses() {
    std::map<std::string, std::size_t> unit_of;  // by the names of trained parameters
    for (const Parameter& parameter : layout_.parameters())
      if (parameter.kind == ParameterSpec::Kind::trained)
        unit_of[parameter.name] = windows_.unit_of(parameter.range.first);
    std::vector<std::vector<std::size_t>> units_of(graph_.nodes().size());
    for (std::size_t node = 0; node < units_of.size(); ++node)
      for (const ParameterSpec& spec : graph_.nodes()[node].parameters) {
        const auto found = unit_of.find(parameter_name(graph_.nodes()[node], spec));
        if (found == unit_of.end()) continue;
        units_of[node].push_back(found->second);
        if (!spec.tied_to.empty()) windows_.stays[found->second] = true;
      }
    const auto include = [&](std::vector<Use>& uses, int node, int time) {
      for (const std::size_t unit : units_of[static_cast<std::size_t>(node)]) uses[unit].include(time);
    };
    int time = 0;
    for (const Segment& segment : plan_.forward) {
      for (const Task& task : segment.tasks) include(windows_.forward.uses, task.node, time);
      ++time;
    }
    if (const int last = static_cast<int>(graph_.nodes().size()) - 1; plan_.tile_rows > 0) {
      include(windows_.forward.uses, last, time);
      include(windows_.gradients, last, time);
    }
    windows_.loss_time = time++;
    for (const Segment& segment : plan_.backward) {
      for (const Task& task : segment.tasks) {
        include(windows_.backward.uses, task.node, time);
        if (task.kind != Task::Kind::recompute) include(windows_.gradients, task.node, time);
      }
      ++time;
    }
    windows_.times = time;
  }

  static void sort(UnshardPlan::Pass& pass) {
    for (std::size_t unit = pass.uses.size(); unit-- > 0;)
      if (!pass.uses[unit].none()) pass.order.push_back(unit);
    std::ranges::stable_sort(pass.order, {}, [&](std::size_t unit) { return pass.uses[unit].first; });
  }

  std::vector<std::size_t> without_those_that_stay(const std::vector<std::size_t>& order) const {
    std::vector<std::size_t> others;
    std::ranges::copy_if(order, std::back_inserter(others), [&](std::size_t unit) { return !windows_.stays[unit]; });
    return others;
  }

  void place_values() {
    const std::vector<std::size_t> order = without_those_that_stay(windows_.forward.order);
    std::vector<std::size_t> number(windows_.units.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = i;
    const auto prefetch = static_cast<std::size_t>(windows_.division.prefetch);
    const auto enough = [&](std::size_t windows) {
      for (const UnshardPlan::Pass* pass : {&windows_.forward, &windows_.backward}) {
        const std::vector<std::size_t> units = without_those_that_stay(pass->order);
        std::vector<int> taken, left;
        std::vector<std::size_t> window;
        for (std::size_t i = 0; i < units.size(); ++i) {
          taken.push_back(pass->uses[units[i < prefetch ? 0 : i - prefetch]].first);
          left.push_back(pass->uses[units[i]].last);
          window.push_back(number[units[i]]);
        }
        if (!suffice(windows, taken, left, window)) return false;
      }
      return true;
    };
    windows_.value_places = places_of(windows_, order, fewest(1, enough));
  }

  void place_gradients() {
    std::vector<std::size_t> order;
    for (std::size_t unit = 0; unit < windows_.units.size(); ++unit)
      if (!windows_.stays[unit] && !windows_.gradients[unit].none()) order.push_back(unit);
    std::vector<int> taken, left;
    std::vector<std::size_t> window;
    int before = -1;  // last time at which gradients of units up to this one are computed
    for (std::size_t i = 0; i < order.size(); ++i) {
      before = std::max(before, windows_.gradients[order[i]].last);
      taken.push_back(windows_.gradients[order[i]].first);
      left.push_back(before);
      window.push_back(i);
    }
    const auto enough = [&](std::size_t windows) { return suffice(windows, taken, left, window); };
    windows_.gradient_places = places_of(windows_, order, fewest(2, enough));
  }

  template <class Enough>
  std::size_t fewest(std::size_t from, const Enough& enough) const {
    while (from < windows_.units.size() && !enough(from)) ++from;
    return from;
  }

  const Graph& graph_;
  const ParameterLayout& layout_;
  const ExecutionPlan& plan_;
  UnshardPlan windows_;
};

}  // namespace

UnshardPlan plan_windows(const Graph& graph, const ParameterLayout& layout, const ExecutionPlan& plan,
                         const ParameterDivision& division) {
  return WindowPlanner(graph, layout, plan, division).plan();
}

}  // namespace lockstep
