// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/loss_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

/// Fewest losses whose standard deviation means something.
constexpr std::int64_t fewest = 20;
/// The smallest standard deviation that is believed, as a fraction of the mean: equal losses do not make the next one a
/// jump.
constexpr double least_deviation = 1e-3;

}  // namespace

void LossWatchConfig::describe(Fields& fields) {
  static constexpr std::string_view actions[] = {"stop", "skip", "rollback"};
  fields.choice("on_anomaly", on_anomaly, actions,
                "stop: end the run with exit status 70, at a checkpoint of the step before; skip: leave the step's "
                "update out (an evaluation is only reported); rollback: go back to the last checkpoint and continue "
                "from there with the examples in another order");
  fields.number("z_score", z_score, {1, 1e6},
                "a loss more than this many standard deviations above the mean of the window is an anomaly, and so is "
                "one that is not finite");
  fields.integer("window", window, {static_cast<double>(fewest), 100000},
                 "number of latest steps (for validation losses: evaluations) that a loss is compared with");
  fields.integer("at_most", at_most, not_negative,
                 "number of anomalies that are skipped or rolled back; the next one ends the run");
}

void LossWatch::describe_state(StateFields& fields) {
  fields.integer("anomalies", anomalies_);
  fields.reals("losses", losses_);
  fields.reals("validation_losses", validation_losses_);
}

std::string LossWatch::inspect(const char* what, const char* before, double loss, std::vector<double>& losses) {
  if (!std::isfinite(loss)) return fmt::format("{} is {}", what, loss);
  const auto count = static_cast<double>(losses.size());
  if (losses.size() >= static_cast<std::size_t>(fewest)) {
    const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / count;
    const double square = std::accumulate(losses.begin(), losses.end(), 0.0, [&](double sum, double value) {
      return sum + (value - mean) * (value - mean);
    });
    const double deviation = std::max(std::sqrt(square / count), least_deviation * std::abs(mean));
    const double z = (loss - mean) / deviation;
    if (z > config_.z_score)
      return fmt::format("{} is {:.6g}, {:.3g} standard deviations above {:.6g}, the mean of the {} {} before", what,
                         loss, z, mean, losses.size(), before);
  }
  losses.push_back(loss);
  const std::ptrdiff_t beyond = std::ssize(losses) - config_.window;  // more than 1 if the window was larger before
  if (beyond > 0) losses.erase(losses.begin(), losses.begin() + beyond);
  return "";
}

}  // namespace lockstep
