// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/pruner.hpp"

#include <algorithm>
#include <cmath>

#include "base/median.hpp"

namespace lockstep {
namespace {

class Exact final : public Pruner {
 public:
  explicit Exact(std::int64_t seeds) : seeds_(static_cast<std::size_t>(seeds)) {}

  bool ends(std::span<const TrialCurve* const> before, TrialCurve& own) const override {
    const std::int64_t step = own.reports.back().step;
    for (std::size_t other = before.size() % seeds_; other < before.size(); other += seeds_)
      if (const auto& goal_step = before[other]->goal_step; goal_step && *goal_step <= step) return true;
    return false;
  }

 private:
  std::size_t seeds_;
};

class Asha final : public Pruner {
 public:
  Asha(Order order, std::int64_t min_resource, std::int64_t factor, std::int64_t rate)
      : order_(order), min_resource_(min_resource), factor_(factor), rate_(rate) {}

  bool ends(std::span<const TrialCurve* const> before, TrialCurve& own) const override {
    const TrialReport& report = own.reports.back();
    for (;;) {
      const std::size_t rung = own.rungs.size();
      if (static_cast<double>(report.step) < step_of(rung)) return false;
      own.rungs.push_back(*report.value);
      if (!survives(before, rung, *report.value)) return true;
    }
  }

 private:
  double step_of(std::size_t rung) const {
    return static_cast<double>(min_resource_) *
           std::pow(static_cast<double>(factor_), static_cast<double>(rate_) + static_cast<double>(rung));
  }
  bool survives(std::span<const TrialCurve* const> before, std::size_t rung, double value) const {
    std::vector<double> values{value};
    for (const TrialCurve* other : before)
      if (other->rungs.size() > rung) values.push_back(other->rungs[rung]);
    std::ranges::sort(values);
    if (order_ == Order::more_is_better) std::ranges::reverse(values);
    const std::size_t promoted = std::max<std::size_t>(1, values.size() / static_cast<std::size_t>(factor_));
    const double last = values[promoted - 1];
    return order_ == Order::more_is_better ? value >= last : value <= last;
  }

  Order order_;
  std::int64_t min_resource_, factor_, rate_;
};

class Median final : public Pruner {
 public:
  Median(Order order, std::int64_t startup_trials, std::int64_t warmup_steps)
      : order_(order), startup_trials_(startup_trials), warmup_steps_(warmup_steps) {}

  bool ends(std::span<const TrialCurve* const> before, TrialCurve& own) const override {
    const std::int64_t step = own.reports.back().step;
    std::vector<double> values;
    std::int64_t complete = 0;
    for (const TrialCurve* other : before) {
      if (!other->complete) continue;
      ++complete;
      const auto at = std::ranges::find(other->reports, step, &TrialReport::step);
      if (at != other->reports.end() && at->value) values.push_back(*at->value);
    }
    if (complete == 0 || complete < startup_trials_ || step < warmup_steps_ || values.empty()) return false;
    const double best = best_of(own), middle = median(std::move(values));
    return order_ == Order::more_is_better ? best < middle : best > middle;
  }
  bool needs_their_ends() const override { return true; }

 private:
  double best_of(const TrialCurve& own) const {
    std::vector<double> values;
    for (const TrialReport& report : own.reports)
      if (report.value) values.push_back(*report.value);
    return order_ == Order::more_is_better ? std::ranges::max(values) : std::ranges::min(values);
  }

  Order order_;
  std::int64_t startup_trials_, warmup_steps_;
};

class None final : public Pruner {
 public:
  bool ends(std::span<const TrialCurve* const>, TrialCurve&) const override { return false; }
};

}  // namespace

std::unique_ptr<Pruner> exact_pruner(std::int64_t seeds) { return std::make_unique<Exact>(seeds); }
std::unique_ptr<Pruner> asha_pruner(Order order, std::int64_t min_resource, std::int64_t factor, std::int64_t rate) {
  return std::make_unique<Asha>(order, min_resource, factor, rate);
}
std::unique_ptr<Pruner> median_pruner(Order order, std::int64_t startup_trials, std::int64_t warmup_steps) {
  return std::make_unique<Median>(order, startup_trials, warmup_steps);
}
std::unique_ptr<Pruner> no_pruner() { return std::make_unique<None>(); }

void PruneOptions::describe(Fields& fields, bool has_goal_value, bool is_ensemble) {
  static constexpr std::string_view kinds[] = {"exact", "asha", "median", "none"};
  Kind chosen = kind.value_or(has_goal_value && !is_ensemble ? Kind::exact : Kind::none);
  fields.choice("prune", chosen, kinds,
                "which trials end early: exact (once another trial of the same seed has reached the goal in as few "
                "steps), asha (those that are not among the best at growing numbers of steps), median (those worse "
                "than the median of complete trials) or none");
  kind = chosen;
  fields.check(chosen == Kind::none || !is_ensemble, "prune",
               "ends trials early, but without a space they are the members of an ensemble, which are all needed; "
               "remove it, or give a space");
  fields.check(chosen != Kind::exact || has_goal_value, "prune",
               "exact needs a step at which the goal is reached; give goal.value, or use asha, median or none");
  fields.section(
      "asha",
      [this](Fields& f) {
        f.integer("min_resource", min_resource, at_least_one,
                  "number of steps before the first decision (when not given: a 64th of the budget)");
        f.integer("reduction_factor", reduction_factor, {2, 1e6},
                  "one of this many trials continues after each decision");
        f.integer("min_early_stopping_rate", min_early_stopping_rate, {0, 60},
                  "number of decisions that are left out at the start");
      },
      "Options of prune: asha, named as in Optuna's SuccessiveHalvingPruner");
  fields.section(
      "median",
      [this](Fields& f) {
        f.integer("startup_trials", startup_trials, not_negative,
                  "number of complete trials before the first decision");
        f.integer("warmup_steps", warmup_steps, not_negative,
                  "number of steps of a trial before which it is not ended");
      },
      "Options of prune: median, named as in Optuna's MedianPruner");
}

std::unique_ptr<Pruner> PruneOptions::make(Order order, std::int64_t budget, std::int64_t seeds) const {
  switch (kind.value_or(Kind::none)) {
    case Kind::exact: return exact_pruner(seeds);
    case Kind::asha:
      return asha_pruner(order, min_resource.value_or(std::max<std::int64_t>(1, budget / 64)), reduction_factor,
                         min_early_stopping_rate);
    case Kind::median: return median_pruner(order, startup_trials, warmup_steps);
    case Kind::none: break;
  }
  return no_pruner();
}

}  // namespace lockstep
