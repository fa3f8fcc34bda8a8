// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/run_length.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

/// Tolerance, in epochs: fractions of an epoch, and their sums, are not exact in binary. Spans closer than this are the
/// same point.
constexpr double rounding = 1e-11;

/// Distance of a point from the beginning of the run, in the unit of a span.
double progress(const RunPoint& point, TrainingSpan::Unit unit, std::int64_t examples_of_epoch) {
  switch (unit) {
    case TrainingSpan::Unit::steps: return static_cast<double>(point.step);
    case TrainingSpan::Unit::examples: return static_cast<double>(point.examples);
    case TrainingSpan::Unit::epochs: break;
  }
  return static_cast<double>(point.epoch) + static_cast<double>(point.next) / static_cast<double>(examples_of_epoch);
}

}  // namespace

TrainingSpan training_span_of(std::string_view text) {
  TrainingSpan span;
  std::from_chars(text.data(), text.data() + text.size(), span.count);
  if (text.find("epoch") != std::string_view::npos) span.unit = TrainingSpan::Unit::epochs;
  if (text.find("example") != std::string_view::npos) span.unit = TrainingSpan::Unit::examples;
  return span;
}

RunLength::RunLength(std::int64_t examples, bool drop_last, const std::vector<Stage>& stages,
                     std::optional<std::int64_t> epochs, std::optional<std::int64_t> steps)
    : examples_(examples), drop_last_(drop_last) {
  stages_.push_back({{}, stages.front().batch});
  for (std::size_t i = 1; i < stages.size(); ++i) stages_.push_back({point_of(stages[i].begin), stages[i].batch});
  steps_ = steps.value_or(endless);
  if (epochs) steps_ = std::min(steps_, step_of({static_cast<double>(*epochs), TrainingSpan::Unit::epochs}));
}

/// Returns the first point at or after `to`, counting from the beginning of `stage` as if no other stage followed.
RunPoint RunLength::walk(const BegunStage& stage, const TrainingSpan& to) const {
  RunPoint point = stage.begin;
  const std::int64_t batch = std::min(stage.batch, examples_);
  const auto steps_left = [&](std::int64_t taken) {
    return drop_last_ ? (examples_ - taken) / batch : (examples_ - taken + batch - 1) / batch;
  };
  const double count = to.unit == TrainingSpan::Unit::epochs ? to.count - rounding : to.count;
  const auto left = [&] { return count - progress(point, to.unit, examples_); };
  const auto take = [&](std::int64_t steps) {
    const std::int64_t examples = std::min(steps * batch, examples_ - point.next);
    point.step += steps;
    point.next += examples;
    point.examples += examples;
    if (steps_left(point.next) > 0) return;
    ++point.epoch;
    point.next = 0;
  };
  const auto finish_epoch = [&] {
    const std::int64_t steps = steps_left(point.next);
    double most = 0;  // steps from here until `to`
    switch (to.unit) {
      case TrainingSpan::Unit::steps: most = left(); break;
      case TrainingSpan::Unit::examples: most = left() / static_cast<double>(batch); break;
      case TrainingSpan::Unit::epochs:
        most = left() * static_cast<double>(examples_) / static_cast<double>(batch);
        break;
    }
    take(most < static_cast<double>(steps) ? static_cast<std::int64_t>(std::ceil(most)) : steps);
  };
  take(0);  // with drop_last, fewer examples than the stage's batch may be left in its first epoch
  if (left() > 0) finish_epoch();
  if (left() <= 0) return point;
  // Skip all remaining whole epochs at once.
  const std::int64_t steps = steps_left(0), taken = std::min(steps * batch, examples_);
  const double epochs = to.unit == TrainingSpan::Unit::epochs  ? left()
                        : to.unit == TrainingSpan::Unit::steps ? left() / static_cast<double>(steps)
                                                               : left() / static_cast<double>(taken);
  constexpr double farthest = 1e18;  // steps or examples; beyond any real run, and well within int64
  const double most = std::floor(farthest / static_cast<double>(std::max(steps, taken)));
  const auto whole = static_cast<std::int64_t>(std::min(epochs, most));
  point.epoch += whole;
  point.step += whole * steps;
  point.examples += whole * taken;
  if (epochs < most)
    while (left() > 0) finish_epoch();
  return point;
}

RunPoint RunLength::point_of(const TrainingSpan& span) const {
  auto stage = stages_.begin();
  while (stage + 1 != stages_.end() && progress((stage + 1)->begin, span.unit, examples_) <= span.count) ++stage;
  return walk(*stage, span);
}

std::int64_t RunLength::step_after(std::int64_t begin, const TrainingSpan& span) const {
  return step_of({count_at(begin, span.unit) + span.count, span.unit});
}

std::optional<std::int64_t> RunLength::step_before(std::int64_t end, const TrainingSpan& span) const {
  const double count = count_at(end, span.unit) - span.count;
  if (count < -rounding) return std::nullopt;
  return step_of({std::max(count, 0.0), span.unit});
}

double RunLength::count_at(std::int64_t step, TrainingSpan::Unit unit) const {
  return progress(point_of({static_cast<double>(step), TrainingSpan::Unit::steps}), unit, examples_);
}

std::int64_t RunLength::batch_at(std::int64_t epoch, std::int64_t next) const {
  auto stage = stages_.end() - 1;
  while (stage != stages_.begin() &&
         (epoch < stage->begin.epoch || (epoch == stage->begin.epoch && next < stage->begin.next)))
    --stage;
  return stage->batch;
}

std::int64_t RunLength::batch_at_step(std::int64_t step) const {
  auto stage = stages_.end() - 1;
  while (step < stage->begin.step) --stage;
  return std::min(stage->batch, examples_);
}

}  // namespace lockstep
