// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/step_decisions.hpp"

#include <bit>
#include <utility>

namespace lockstep {

void StepDecisions::begin(const ExecSpace& space, std::int64_t step) {
  if (std::exchange(is_changed_, false))
    copy_from_host(space, &last_, memory_.tensor(0, DType::u8, {sizeof(StepDecision)}));
  if (untaken() == 0) taken_ = step - 1;
  decided_ = step - 1;
}

std::int64_t StepDecisions::decided(const ExecSpace& space) {
  ++decided_;
  copy_of(decided_).start(space, on_device());
  return decided_;
}

std::int64_t StepDecisions::take() {
  ++taken_;
  last_ = copy_of(taken_).take();
  return taken_;
}

void StepDecisions::drop_later() {
  for (; untaken() > 0; ++taken_) static_cast<void>(copy_of(taken_ + 1).take());
  change_last().halted = 0;
}

void StepDecisions::agree(const ExecSpace& space, const Communicator& comm, bool scales) {
  const Tensor memory = memory_.tensor(0, DType::u8, {sizeof(StepDecision)});
  StepDecision decision;
  copy_to_host(space, memory, &decision);
  decision.loss_was_nonfinite = static_cast<std::int32_t>(comm.all_reduce_max(decision.loss_was_nonfinite));
  if (scales) {
    const auto smallest = [&](std::int64_t value) { return -comm.all_reduce_max(-value); };
    LossScaleRule::State& scaler = decision.scaler;
    // The bits of positive numbers are ordered as the numbers are.
    scaler.scale = std::bit_cast<float>(static_cast<std::int32_t>(smallest(std::bit_cast<std::int32_t>(scaler.scale))));
    scaler.good_steps = smallest(scaler.good_steps);
    scaler.hysteresis_left = smallest(scaler.hysteresis_left);
  }
  copy_from_host(space, &decision, memory);
  if (untaken() > 0) return copy_of(decided_).start(space, on_device());
  last_.scaler = decision.scaler;
  last_.loss_was_nonfinite = decision.loss_was_nonfinite;
}

}  // namespace lockstep
