// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

#include "config/fields.hpp"
#include "config/state_fields.hpp"
#include "core/dtype.hpp"

namespace lockstep {

/// precision.loss_scale: a factor of the loss that is large enough to keep gradients from vanishing in 16 bits, and
/// small enough to keep them from overflowing.
struct LossScaleConfig : Config {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t interval = 2000;
  std::int64_t hysteresis = 1;
  double floor = 1;

  void describe(Fields& fields) override;
};

/// Adapts the scale by the rule of torch.amp.GradScaler: an overflow reduces it, and `interval` steps without overflow
/// let it grow. Hysteresis and floor are those of Megatron-LM's DynamicGradScaler. Both the host and kernels apply this
/// rule.
struct LossScaleRule {
  double growth = 2, backoff = 0.5, floor = 1;
  std::int64_t interval = 2000, hysteresis = 1;

  struct State {
    float scale = 1;                   ///< f32, as in PyTorch; a scale that would overflow f32 does not grow
    std::int64_t good_steps = 0;       ///< steps without overflow since the last change
    std::int64_t hysteresis_left = 1;  ///< overflows until the scale is reduced
    friend bool operator==(const State&, const State&) = default;
  };

  /// True if another overflow must end the run, because the scale would have to fall below the floor.
  KOKKOS_INLINE_FUNCTION bool at_floor(const State& state) const {
    return state.scale <= static_cast<float>(floor) && state.hysteresis_left <= 1;
  }
  KOKKOS_INLINE_FUNCTION State after_overflow(State state) const {
    state.good_steps = 0;
    if (state.hysteresis_left > 0) --state.hysteresis_left;
    if (state.hysteresis_left > 0) return state;
    const double less = state.scale * backoff;
    state.scale = static_cast<float>(less < floor ? floor : less);
    return state;
  }
  KOKKOS_INLINE_FUNCTION State after_good_step(State state) const {
    if (++state.good_steps < interval) return state;
    state.good_steps = 0;
    state.hysteresis_left = hysteresis;
    const auto grown = static_cast<float>(state.scale * growth);
    if (!is_nonfinite(grown)) state.scale = grown;
    return state;
  }
};

/// The rule given in the deck, and its current state.
class LossScaler final : public Stateful {
 public:
  using State = LossScaleRule::State;

  explicit LossScaler(const LossScaleConfig& config);

  const LossScaleRule& rule() const { return rule_; }
  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }
  /// Limits a restored state to the ranges of the current deck, which may differ from the one it was saved with.
  void describe_state(StateFields& fields) override;

 private:
  LossScaleRule rule_;
  State state_;
};

}  // namespace lockstep
