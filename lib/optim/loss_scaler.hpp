// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "config/fields.hpp"
#include "config/state_fields.hpp"

namespace lockstep {

/// precision.loss_scale: the loss is multiplied by a number so large that its gradients do not
/// vanish in 16 bits, and so small that they do not overflow.
struct LossScaleConfig : Config {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t interval = 2000;
  std::int64_t hysteresis = 1;
  double floor = 1;

  void describe(Fields& fields) override;
};

/// Finds the scale as it goes, by the rule of torch.amp.GradScaler: an overflow takes the scale
/// back, `interval` steps without one let it grow. Hysteresis and floor are those of Megatron-LM's
/// DynamicGradScaler.
class LossScaler final : public Stateful {
 public:
  struct State {
    float scale = 1;                   ///< as PyTorch keeps it: what grows beyond f32 does not grow
    std::int64_t good_steps = 0;       ///< since the last change
    std::int64_t hysteresis_left = 1;  ///< overflows until the scale goes back
    friend bool operator==(const State&, const State&) = default;
  };

  explicit LossScaler(const LossScaleConfig& config);

  double scale() const { return state_.scale; }
  /// Whether an overflow now means that the run cannot go on: the scale would have to go below the floor.
  bool at_floor() const { return state_.scale <= static_cast<float>(config_.floor) && state_.hysteresis_left <= 1; }
  /// To be called after every step. `overflow`: its gradients were not finite, so that it was left out.
  void update(bool overflow);

  const State& state() const { return state_; }
  /// A state that is restored is brought within the limits of this deck, which may be others.
  void describe_state(StateFields& fields) override;

 private:
  LossScaleConfig config_;
  State state_;
};

}  // namespace lockstep
