// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/monitor/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/duration.hpp"
#include "base/log.hpp"
#include "run/monitor/summary.hpp"

namespace lockstep {
namespace {

/// Milliseconds a step of each phase, by the names of summary.json's phases_ms.
std::vector<std::pair<std::string, double>> phase_milliseconds(const PhaseClock& clock, double reduce_seconds,
                                                               double steps) {
  const double each = 1e3 / steps;
  // Passes wait for parameters, and for buckets of gradients. That time belongs to the exchange, not to the pass.
  const auto phase_ms = [&](RunPhase phase) { return each * (clock.seconds(phase) - clock.waited(phase)); };
  return {{"data", phase_ms(RunPhase::data)},           {"forward", phase_ms(RunPhase::forward)},
          {"backward", phase_ms(RunPhase::backward)},   {"reduce_exposed", each * reduce_seconds},
          {"optimizer", phase_ms(RunPhase::optimizer)}, {"checkpoint", phase_ms(RunPhase::checkpoint)}};
}

}  // namespace

void Progress::steps_done(std::int64_t steps, double seconds, const Trainer::ExposedSeconds& exposed,
                          std::int64_t examples) {
  for (std::int64_t i = 0; i < steps; ++i) times_.add(seconds / static_cast<double>(steps));
  now_.seconds += seconds;
  now_.reduce_seconds += exposed.gradients;
  if (exposed.statistics) statistics_seconds_ = statistics_seconds_.value_or(0) + *exposed.statistics;
  now_.examples += examples;
  now_.sent_bytes += scheduled_bytes_sent() - std::exchange(sent_before_, scheduled_bytes_sent());
  now_.steps += steps;
}

void Progress::log(const Row& step) {
  const std::int64_t steps = now_.steps - logged_.steps;
  // Times of this process; an earlier process may have done the step.
  std::optional<double> rate, step_ms, exposed_ms;
  if (steps > 0) {
    rate = static_cast<double>(now_.examples - logged_.examples) / (now_.seconds - logged_.seconds);
    step_ms = 1e3 * times_.quantile(0.5, steps);
    if (ranks_ > 1) exposed_ms = 1e3 * (now_.reduce_seconds - logged_.reduce_seconds) / static_cast<double>(steps);
  }
  const double mean_seconds = now_.steps > 0 ? now_.seconds / static_cast<double>(now_.steps) : 0;
  if (file_)
    file_->write({.step = step.number,
                  .epoch = step.epoch,
                  .split = "train",
                  .loss = step.numbers.metrics.loss,
                  .accuracy = step.numbers.metrics.accuracy,
                  .learning_rate = step.scales.learning_rate,
                  .loss_scale = step.scales.loss_scale,
                  .grad_norm = step.skipped ? std::nullopt : std::optional(step.numbers.gradient_norm),
                  .examples_per_s = rate,
                  .step_ms = step_ms,
                  .noise_scale = step.scales.noise_scale,
                  .reduce_exposed_ms = exposed_ms});
  lockstep::log("step {:>7}  epoch {:>4}  loss {:<10.6g}{}{}  lr {:<8.4g}{}{}  {} left", step.number, step.epoch,
                step.numbers.metrics.loss,
                step.numbers.metrics.accuracy ? fmt::format("  accuracy {:.4f}", *step.numbers.metrics.accuracy) : "",
                step.skipped ? "" : fmt::format("  |g| {:<9.4g}", step.numbers.gradient_norm),
                step.scales.learning_rate, rate ? fmt::format("  {:>9.1f} examples/s", *rate) : "",
                exposed_ms ? fmt::format("  sums {} ms", milliseconds_text(1e-3 * *exposed_ms, 3)) : "",
                duration_text(static_cast<double>(step.left) * mean_seconds));
  logged_ = now_;
}

void Progress::log_evaluation(const std::string& split, std::int64_t step, std::int64_t epoch, const Metrics& metrics,
                              bool row) {
  if (file_ && row)
    file_->write({.step = step,
                  .epoch = epoch,
                  .split = split,
                  .loss = metrics.loss,
                  .accuracy = metrics.accuracy,
                  .others = metrics.others});
  std::string others;
  for (const MetricValue& other : metrics.others) others += fmt::format("  {} {:.4f}", other.name, other.value);
  lockstep::log("step {:>7}  epoch {:>4}  {}{} loss {:<10.6g}{}{}", step, epoch, split, evaluated_, metrics.loss,
                metrics.accuracy ? fmt::format("  accuracy {:.4f}", *metrics.accuracy) : "", others);
}

MeasuredSteps Progress::measured(const Communicator& ranks, PhaseClock& clock) const {
  clock.catch_up();
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, times_.count()));
  MeasuredSteps measured{.examples = now_.examples,
                         .seconds = times_.total(),
                         .median = times_.quantile(0.5),
                         .p99 = times_.quantile(0.99),
                         .phases = phase_milliseconds(clock, now_.reduce_seconds, steps),
                         .sent_bytes = static_cast<double>(now_.sent_bytes) / steps};
  for (const auto& [phase, milliseconds] : measured.phases)
    measured.spreads.push_back(spread_over_ranks(ranks, phase, milliseconds));
  // These waits are part of forward and backward. A rank that is alone in its group has none, although other groups do.
  if (ranks.any_rank(statistics_seconds_.has_value()))
    measured.spreads.push_back(
        spread_over_ranks(ranks, "batch_norm_exposed", 1e3 * statistics_seconds_.value_or(0) / steps));
  ranks.all_reduce_sum(std::span(&measured.sent_bytes, 1));
  return measured;
}

}  // namespace lockstep
