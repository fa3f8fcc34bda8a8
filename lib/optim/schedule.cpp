// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/run_length.hpp"
#include "config/fields.hpp"

namespace lockstep {
namespace {

/// The course of the learning rate after the warm-up.
struct Course : Config {
  /// The factor as a function of the step, from 0, for a run of this length whose first `warmup` steps are the warm-up.
  /// Throws KeyError if the course does not fit the run.
  virtual std::function<double(std::int64_t step)> over(const RunLength& length, std::int64_t warmup) const = 0;
  /// True if the course includes a warm-up of its own.
  virtual bool warms_up() const { return false; }
};

using Factor = std::function<double(std::int64_t step)>;

constexpr TextForm span_form{.pattern = span_pattern, .words = span_words};

/// Half a cosine, which falls from 1 to 0 as `done` goes from 0 to 1.
double half_cosine(double done) { return (1 + std::cos(std::numbers::pi * done)) / 2; }

/// Interpolates linearly: 1 for `left` = 1, `end` for `left` = 0.
double between(double end, double left) { return end + (1 - end) * left; }

/// The share, from 0 to 1, of the steps from `begin` to `end` that are done before `step`.
double share_done(std::int64_t step, std::int64_t begin, std::int64_t end) {
  if (step <= begin) return 0;
  return std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(std::max<std::int64_t>(1, end - begin)));
}

/// Number of `span`s from the run's beginning to `step`. Slightly rounded up, so that whole numbers do not fall short.
double spans_before(const RunLength& length, std::int64_t step, const TrainingSpan& span) {
  return length.count_at(step, span.unit) / span.count + 1e-11;
}

void check_span(Fields& fields, std::string_view key, const std::string& span) {
  fields.check(training_span_of(span).count > 0, key, "is of length 0; give a length above 0");
}

struct Constant final : Course {
  void describe(Fields&) override {}
  Factor over(const RunLength&, std::int64_t) const override {
    return [](std::int64_t) { return 1.0; };
  }
};

/// The schedule of He et al., "Deep residual learning", 2016: PyTorch's StepLR.
struct StepDecay final : Course {
  std::string every = "30 epochs";
  double factor = 0.1;

  void describe(Fields& fields) override {
    fields.text("every", every,
                "interval, counted from the start of the run, at the end of which the learning rate is multiplied by "
                "factor once more",
                Presence::optional, span_form);
    fields.number("factor", factor, positive, "factor that the learning rate is multiplied by each time");
    check_span(fields, "every", every);
  }
  Factor over(const RunLength& length, std::int64_t) const override {
    return [length, span = training_span_of(every), factor = factor](std::int64_t step) {
      return std::pow(factor, std::floor(spans_before(length, step, span)));
    };
  }
};

/// PyTorch's MultiStepLR.
struct MultiStep final : Course {
  std::vector<std::string> milestones;
  double factor = 0.1;

  void describe(Fields& fields) override {
    fields.texts("milestones", milestones,
                 "points counted from the start of the run, as [30 epochs, 60 epochs], at each of which the learning "
                 "rate is multiplied by factor once more",
                 span_form);
    fields.number("factor", factor, positive, "factor that the learning rate is multiplied by each time");
    fields.check(!milestones.empty(), "milestones",
                 "is missing, or empty; give points, such as [30 epochs, 60 epochs]");
  }
  Factor over(const RunLength& length, std::int64_t) const override {
    std::vector<std::int64_t> steps;
    for (const std::string& milestone : milestones) steps.push_back(length.step_of(training_span_of(milestone)));
    return [steps, factor = factor](std::int64_t step) {
      return std::pow(factor, static_cast<double>(std::ranges::count_if(steps, [&](auto at) { return at <= step; })));
    };
  }
};

/// A continuous decay. It agrees with PyTorch's ExponentialLR if that is stepped once in each `every`.
struct Exponential final : Course {
  std::string every = "1 epoch";
  double factor = 0.95;

  void describe(Fields& fields) override {
    fields.text("every", every, "interval in which the learning rate falls by factor, continuously", Presence::optional,
                span_form);
    fields.number("factor", factor, positive, "factor that the learning rate is multiplied by in each interval");
    check_span(fields, "every", every);
  }
  Factor over(const RunLength& length, std::int64_t warmup) const override {
    const TrainingSpan span = training_span_of(every);
    return [length, span, factor = factor, before = spans_before(length, warmup, span)](std::int64_t step) {
      return std::pow(factor, spans_before(length, step, span) - before);
    };
  }
};

/// Falls from 1 to final_fraction over `decay`, or until the run ends.
struct Decay : Course {
  double final_fraction = 0;
  std::string decay;  ///< empty: until the run ends

  void describe(Fields& fields) override {
    fields.number("final_fraction", final_fraction, fraction, "fraction of the learning rate at the end of the decay");
    fields.text("decay", decay,
                "length of the decay, which starts after the warm-up; the learning rate then stays constant (when not "
                "given: to the end of the run)",
                Presence::optional, span_form);
    if (!decay.empty()) check_span(fields, "decay", decay);
  }
  Factor over(const RunLength& length, std::int64_t warmup) const override {
    const std::int64_t end = decay.empty() ? length.steps() : length.step_after(warmup, training_span_of(decay));
    return [this_form = form(), warmup, end, last = final_fraction](std::int64_t step) {
      return between(last, this_form(share_done(step, warmup, end)));
    };
  }
  /// A function that falls from 1 to 0 as its argument goes from 0 to 1.
  virtual std::function<double(double)> form() const = 0;
};

/// With decay and final_fraction, the schedule of Shallue et al., "Measuring the effects of data parallelism", 2019.
struct Linear final : Decay {
  std::function<double(double)> form() const override {
    return [](double done) { return 1 - done; };
  }
};

/// With power 2, the schedule of LARS (You et al., 2017).
struct Polynomial final : Decay {
  double power = 2;

  void describe(Fields& fields) override {
    Decay::describe(fields);
    fields.number("power", power, positive, "exponent of the remaining share of the decay");
  }
  std::function<double(double)> form() const override {
    return [power = power](double done) { return std::pow(1 - done, power); };
  }
};

/// Loshchilov & Hutter, "SGDR", 2017; with restarts, PyTorch's CosineAnnealingWarmRestarts.
struct Cosine final : Course {
  double final_fraction = 0;
  std::string period;  ///< empty: until the run ends
  std::int64_t period_factor = 1;

  void describe(Fields& fields) override {
    fields.number("final_fraction", final_fraction, fraction,
                  "fraction of the learning rate at the end of each period");
    fields.text("period", period,
                "length of the first period, which starts after the warm-up; each further one starts at the full "
                "learning rate again (when not given: one period, to the end of the run)",
                Presence::optional, span_form);
    fields.integer("period_factor", period_factor, {1, 1e6},
                   "factor by which each period is longer than the one before");
    if (!period.empty()) check_span(fields, "period", period);
    fields.check(!period.empty() || period_factor == 1, "period_factor",
                 "has no effect without period; give period, or remove it");
  }
  Factor over(const RunLength& length, std::int64_t warmup) const override {
    if (period.empty())
      return [warmup, end = length.steps(), last = final_fraction](std::int64_t step) {
        return between(last, half_cosine(share_done(step, warmup, end)));
      };
    return [length, warmup, span = training_span_of(period), factor = static_cast<double>(period_factor),
            last = final_fraction](std::int64_t step) {
      const auto begin_of = [&](double periods) {
        return length.step_after(warmup, {periods * span.count, span.unit});
      };
      // Length of all periods before the current one, and of the current one, in units of the first period.
      double before = 0, these = 1;
      if (factor == 1 && span.count > 0)
        before = std::max(
            0.0, std::floor((length.count_at(step, span.unit) - length.count_at(warmup, span.unit)) / span.count) - 1);
      for (; begin_of(before + these) <= step; these *= factor) before += these;
      return between(last, half_cosine(share_done(step, begin_of(before), begin_of(before + these))));
    };
  }
};

/// Vaswani et al., "Attention is all you need", 2017, scaled to 1 at the end of the warm-up. Steps are counted from 1,
/// as in the warm-up, so that only the warm-up's last step has the value 1.
struct InverseSqrt final : Course {
  void describe(Fields&) override {}
  Factor over(const RunLength&, std::int64_t warmup) const override {
    validate_key(warmup > 0, "schedule.warmup", "is missing (type: inverse_sqrt decays in units of it); give it");
    return [warmup](std::int64_t step) {
      return std::sqrt(static_cast<double>(warmup) / static_cast<double>(std::max(step + 1, warmup)));
    };
  }
};

/// Smith & Topin, "Super-convergence", 2018, in the form of PyTorch's OneCycleLR.
struct OneCycle final : Course {
  double rise = 0.3, start_fraction = 0.04, final_fraction = 4e-6;

  void describe(Fields& fields) override {
    fields.number("rise", rise, {0, 1, true, true},
                  "share of the run in which the learning rate rises to its full value");
    fields.number("start_fraction", start_fraction, fraction, "fraction of the learning rate at the first step");
    fields.number("final_fraction", final_fraction, fraction, "fraction of the learning rate at the last step");
  }
  bool warms_up() const override { return true; }
  Factor over(const RunLength& length, std::int64_t) const override {
    const double last = static_cast<double>(std::max<std::int64_t>(1, length.steps() - 1));
    const double top = std::max(rise * static_cast<double>(length.steps()) - 1, 0.0);
    return [=, start = start_fraction, end = final_fraction](std::int64_t step) {
      const double at = std::min(static_cast<double>(step), last);
      return at <= top && top > 0 ? between(start, half_cosine(1 - at / top))
                                  : between(end, half_cosine(last > top ? (at - top) / (last - top) : 1));
    };
  }
};

/// Hu et al., "MiniCPM", 2024; the forms of the final decay are from Hägele et al., "Scaling laws beyond fixed training
/// durations", 2024.
struct WarmupStableDecay final : Course {
  enum class Form { linear, sqrt };
  static constexpr std::string_view forms[] = {"linear", "sqrt"};
  std::string decay;
  double final_fraction = 0;
  Form form = Form::linear;

  void describe(Fields& fields) override {
    fields.text("decay", decay, "length of the decay at the end of the run", Presence::required, span_form);
    fields.number("final_fraction", final_fraction, fraction, "fraction of the learning rate at the end of the decay");
    fields.choice("form", form, forms,
                  "form of the decay: linear, or sqrt (1 − the square root of the share that is done)");
    if (!decay.empty()) check_span(fields, "decay", decay);
  }
  Factor over(const RunLength& length, std::int64_t warmup) const override {
    const std::optional<std::int64_t> fall = length.step_before(length.steps(), training_span_of(decay));
    validate_key(fall && *fall >= warmup, "schedule.decay",
                 "{} and the warm-up together are longer than the run ({} steps); make them shorter", decay,
                 length.steps());
    return [begin = *fall, end = length.steps(), last = final_fraction, form = form](std::int64_t step) {
      const double done = share_done(step, begin, end);
      return between(last, 1 - (form == Form::linear ? done : std::sqrt(done)));
    };
  }
};

/// Linear interpolation between points.
struct Points final : Course {
  std::vector<std::pair<std::string, double>> points;

  void describe(Fields& fields) override {
    fields.points("points", points, span_form, not_negative,
                  "points counted from the start of the run, each with the factor of the learning rate there, as [[0, "
                  "0.1], [5 epochs, 1], [20 epochs, 0]], with straight lines between them");
    fields.check(points.size() > 1 && training_span_of(points.front().first).count == 0, "points",
                 "must be two or more points, the first at 0; write them like [[0, 0.1], [5 epochs, 1]]");
  }
  bool warms_up() const override { return true; }
  Factor over(const RunLength& length, std::int64_t) const override {
    std::vector<std::pair<std::int64_t, double>> known;
    for (const auto& [span, factor] : points) {
      const std::int64_t step = length.step_of(training_span_of(span));
      validate_key(known.empty() || known.back().first < step, "schedule.points",
                   "{} is not after the point before it; put the points in order", span);
      known.emplace_back(step, factor);
    }
    validate_key(known.back().first >= length.steps(), "schedule.points",
                 "ends at {}, before the end of the run ({} steps); give a point there", points.back().first,
                 length.steps());
    return [known](std::int64_t step) {
      const auto next = std::ranges::upper_bound(known, step, {}, [](const auto& point) { return point.first; });
      if (next == known.end()) return known.back().second;
      const auto& [begin, from] = *(next - 1);
      return from + (next->second - from) * share_done(step, begin, next->first);
    };
  }
};

constexpr Alternative table[] = {
    {"constant", "Keeps the learning rate constant", make_config<Constant>},
    {"step", "Multiplies the learning rate by a factor at regular intervals", make_config<StepDecay>},
    {"multistep", "Multiplies the learning rate by a factor at given points", make_config<MultiStep>},
    {"exponential", "Lowers the learning rate exponentially and continuously, by a factor in each interval",
     make_config<Exponential>},
    {"linear", "Lowers the learning rate linearly to a fraction, where it stays", make_config<Linear>},
    {"polynomial", "Lowers the learning rate to a fraction by a power of the remaining share of the decay",
     make_config<Polynomial>},
    {"cosine", "Lowers the learning rate along half a cosine, once or in periods", make_config<Cosine>},
    {"inverse_sqrt", "Lowers the learning rate by the square root of warm-up / step; needs a warm-up",
     make_config<InverseSqrt>},
    {"one_cycle",
     "Raises the learning rate from a small fraction to its full value and lowers it to nearly 0, along cosines, in "
     "place of a warm-up",
     make_config<OneCycle>},
    {"warmup_stable_decay", "Keeps the learning rate constant, and lowers it at the end of the run",
     make_config<WarmupStableDecay>},
    {"points", "Interpolates linearly between given points, in place of a warm-up", make_config<Points>},
};

/// The table of courses.
std::span<const Alternative> courses() { return table; }

const Course& course_of(const ScheduleConfig& config) { return dynamic_cast<const Course&>(*config.course); }

}  // namespace

ScheduleConfig::ScheduleConfig() : course(courses().front().make()) {}

void ScheduleConfig::describe(Fields& fields) {
  fields.one_of("type", type, course, courses(), "course of the learning rate after the warm-up");
  fields.text("warmup", warmup,
              "length of the warm-up, in which the learning rate rises linearly to its full value (0: no warm-up)",
              Presence::optional, {.pattern = span_pattern, .words = span_words});
  fields.number("warmup_start", warmup_start, fraction, "fraction of the learning rate that the warm-up starts from");
  fields.choice("scale_rule", scale_rule, scale_rule_names,
                "how the learning rate scales with the global batch: none; linear: by batch / reference_batch; sqrt: "
                "by the square root of that");
  fields.integer("reference_batch", reference_batch, at_least_one,
                 "global batch size that optimizer.learning_rate is meant for, with scale_rule");
  fields.check(!course || !course_of(*this).warms_up() || warmup == "0", "warmup",
               fmt::format("cannot be combined with type: {} (it has its own warm-up); remove it", type));
  fields.check(warmup != "0" || warmup_start == 0, "warmup_start",
               "has no effect without warmup; give warmup, or remove it");
  fields.check(
      (scale_rule == ScaleRule::none) == !reference_batch, "scale_rule",
      "must be given together with reference_batch, the batch that the learning rate is meant for; give both, or "
      "neither");
}

double BatchRule::factor(double batch) const {
  if (rule == ScaleRule::none) return 1;
  const double ratio = batch / reference_batch;
  return rule == ScaleRule::linear ? ratio : std::sqrt(ratio);
}

LearningRateSchedule::LearningRateSchedule(const ScheduleConfig& config, const RunLength& length)
    : length_(length),
      warmup_(length.step_of(training_span_of(config.warmup))),
      warmup_start_(config.warmup_start),
      course_(course_of(config).over(length, warmup_)),
      rule_(config.batch_rule()) {}

double LearningRateSchedule::course_factor(std::int64_t applied) const {
  const double risen = static_cast<double>(applied + 1) / static_cast<double>(warmup_);
  return applied < warmup_ ? warmup_start_ + (1 - warmup_start_) * risen : course_(applied);
}

double LearningRateSchedule::batch_factor(std::int64_t done) const {
  return rule_.factor(static_cast<double>(length_.batch_at_step(done)));
}

}  // namespace lockstep
