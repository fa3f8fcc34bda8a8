// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {

/// Length of training, or a point in a run measured from its beginning.
struct TrainingSpan {
  enum class Unit { steps, epochs, examples };
  double count = 0;
  Unit unit = Unit::steps;
};

/// Pattern of a span in decks.
inline constexpr std::string_view span_pattern = R"(0|[0-9]+(\.[0-9]+)?(e[0-9]{1,2})? (steps?|epochs?|examples?))";
inline constexpr std::string_view span_words =
    "a length with its unit, as \"500 steps\", \"5 epochs\" or \"1e6 examples\"";

/// Parses a text that matches `span_pattern`.
TrainingSpan training_span_of(std::string_view text);

/// Position of a run between two steps.
struct RunPoint {
  std::int64_t step = 0;      ///< steps completed
  std::int64_t epoch = 0;     ///< epochs completed
  std::int64_t next = 0;      ///< examples of the current epoch that were taken
  std::int64_t examples = 0;  ///< examples of all completed steps
};

/// Converts between the steps, epochs and examples of a run. The global batch may change during the run.
class RunLength {
 public:
  /// From `begin` on, each step takes `batch` examples (global batch).
  struct Stage {
    TrainingSpan begin;
    std::int64_t batch = 0;
  };

  /// `examples`: examples per epoch. `stages`: in order of `begin`; the first begins at 0. The last batch of an epoch
  /// is smaller if examples do not divide evenly, or is left out with `drop_last`. The run ends after `epochs` epochs
  /// or `steps` steps, whichever comes first.
  RunLength(std::int64_t examples, bool drop_last, const std::vector<Stage>& stages, std::optional<std::int64_t> epochs,
            std::optional<std::int64_t> steps);

  std::int64_t steps() const { return steps_; }
  /// Returns the first point between two steps that is at or after `span`.
  RunPoint point_of(const TrainingSpan& span) const;
  std::int64_t step_of(const TrainingSpan& span) const { return point_of(span).step; }
  /// Returns the first step that is at least `span` after step `begin`.
  std::int64_t step_after(std::int64_t begin, const TrainingSpan& span) const;
  /// Returns the first step from which at most `span` remains until step `end`; empty if `span` is longer than the run
  /// up to `end`.
  std::optional<std::int64_t> step_before(std::int64_t end, const TrainingSpan& span) const;
  /// Returns how many steps, epochs or examples precede step `step`.
  double count_at(std::int64_t step, TrainingSpan::Unit unit) const;
  /// The batch that the deck gives for the step that begins at example `next` of epoch `epoch`; it may be larger than
  /// an epoch.
  std::int64_t batch_at(std::int64_t epoch, std::int64_t next) const;
  /// Examples of a step: at most all of an epoch. The last step of an epoch may take fewer.
  std::int64_t batch_at_step(std::int64_t step) const;

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
