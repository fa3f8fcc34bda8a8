// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// A length of training, or a point of a run, counted from its beginning.
struct TrainingSpan {
  enum class Unit { steps, epochs, examples };
  double count = 0;
  Unit unit = Unit::steps;
};

/// What a span looks like in decks.
inline constexpr std::string_view span_pattern = R"(0|[0-9]+(\.[0-9]+)?(e[0-9]{1,2})? (steps?|epochs?|examples?))";
inline constexpr std::string_view span_words =
    "a length with its unit, as \"500 steps\", \"5 epochs\" or \"1e6 examples\"";

/// The span that a text of that pattern means.
TrainingSpan training_span_of(std::string_view text);

/// Where a run stands between two steps.
struct RunPoint {
  std::int64_t step = 0;      ///< steps before it
  std::int64_t epoch = 0;     ///< whole epochs before it
  std::int64_t next = 0;      ///< examples of its epoch that are taken
  std::int64_t examples = 0;  ///< of all steps before it
};

/// How steps, epochs and examples of a run correspond. The global batch may change on the way.
class RunLength {
 public:
  /// From `begin` on, steps take `batch` examples.
  struct Stage {
    TrainingSpan begin;
    std::int64_t batch = 0;
  };

  /// `examples`: of an epoch. `stages`: the first begins at 0, each other one after the one before it. An epoch ends
  /// with a smaller batch, or with `drop_last` where less than a batch is left. The run ends after so many epochs or
  /// steps, whichever is first.
  RunLength(std::int64_t examples, bool drop_last, const std::vector<Stage>& stages, std::optional<std::int64_t> epochs,
            std::optional<std::int64_t> steps);

  std::int64_t steps() const { return steps_; }
  /// The first point between two steps that is not before `span`.
  RunPoint point_of(const TrainingSpan& span) const;
  std::int64_t step_of(const TrainingSpan& span) const { return point_of(span).step; }
  /// The first step that is not before `span` after step `begin`.
  std::int64_t step_after(std::int64_t begin, const TrainingSpan& span) const;
  /// The first step from which on no more than `span` is left to step `end`; none: the span is longer than what is
  /// before that.
  std::optional<std::int64_t> step_before(std::int64_t end, const TrainingSpan& span) const;
  /// Steps, epochs or examples before step `step`.
  double count_at(std::int64_t step, TrainingSpan::Unit unit) const;
  /// Examples of steps that begin there, but for the last ones of epochs.
  std::int64_t batch_at(std::int64_t epoch, std::int64_t next) const;
  std::int64_t batch_at_step(std::int64_t step) const;
  std::int64_t largest_batch() const;

 private:
  struct BegunStage {
    RunPoint begin;
    std::int64_t batch = 0;
  };
  RunPoint walk(const BegunStage& stage, const TrainingSpan& to) const;

  std::int64_t examples_;
  bool drop_last_;
  std::vector<BegunStage> stages_;
  std::int64_t steps_;
};

}  // namespace lockstep
