// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/loss_scaler.hpp"

#include <algorithm>
#include <limits>

namespace lockstep {

void LossScaleConfig::describe(Fields& fields) {
  static constexpr Range above_one{1, std::numeric_limits<double>::infinity(), true}, between{0, 1, true, true};
  static constexpr Range scales{0, 3e38, true};
  fields.number("initial", initial, scales, "loss scale at the start of the run");
  fields.number("growth", growth, above_one,
                "factor that the scale is multiplied by after interval steps without overflow");
  fields.number("backoff", backoff, between, "factor that the scale is multiplied by after an overflow");
  fields.integer("interval", interval, at_least_one,
                 "number of steps in a row without overflow after which the scale grows");
  fields.integer("hysteresis", hysteresis, at_least_one,
                 "number of overflows after which the scale is reduced; it is then reduced at each further one, and "
                 "the count starts anew when the scale grows");
  fields.number("floor", floor, scales,
                "smallest value of the scale; an overflow that would take it below ends the run");
  fields.check(initial >= floor, "initial",
               "is below floor (the scale never goes below it); give a larger value, or a lower floor");
}

LossScaler::LossScaler(const LossScaleConfig& config)
    : rule_{.growth = config.growth,
            .backoff = config.backoff,
            .floor = config.floor,
            .interval = config.interval,
            .hysteresis = config.hysteresis},
      state_{.scale = static_cast<float>(config.initial), .hysteresis_left = config.hysteresis} {}

void LossScaler::describe_state(StateFields& fields) {
  fields.section("loss_scale", [this](StateFields& section) {
    double scale = state_.scale;
    section.real("scale", scale);
    section.integer("good_steps", state_.good_steps);
    section.integer("hysteresis_left", state_.hysteresis_left);
    state_.scale = std::max(static_cast<float>(scale), static_cast<float>(rule_.floor));
    state_.hysteresis_left = std::clamp<std::int64_t>(state_.hysteresis_left, 0, rule_.hysteresis);
  });
}

}  // namespace lockstep
