// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/decision_queue.hpp"

#include <utility>

namespace lockstep {

void DecisionQueue::begin(const ExecSpace& space, std::int64_t step) {
  if (std::exchange(is_changed_, false))
    copy_from_host(space, &last_, memory_.tensor(0, DType::u8, {sizeof(StepDecision)}));
  if (untaken() == 0) taken_ = step - 1;
  decided_ = step - 1;
}

std::int64_t DecisionQueue::decided(const ExecSpace& space) {
  ++decided_;
  copy_of(decided_).start(space, on_device());
  return decided_;
}

std::int64_t DecisionQueue::take() {
  ++taken_;
  last_ = copy_of(taken_).take();
  return taken_;
}

void DecisionQueue::drop_later() {
  for (; untaken() > 0; ++taken_) static_cast<void>(copy_of(taken_ + 1).take());
  change_last().halted = 0;
}

void DecisionQueue::agree(const ExecSpace& space, const Communicator& comm, bool scales) {
  const Tensor memory = memory_.tensor(0, DType::u8, {sizeof(StepDecision)});
  StepDecision decision;
  copy_to_host(space, memory, &decision);
  decision.loss_was_nonfinite = comm.any_rank(decision.loss_was_nonfinite != 0) ? 1 : 0;
  if (scales) {
    LossScaleRule::State& scaler = decision.scaler;
    scaler.scale = static_cast<float>(comm.all_reduce_min(double{scaler.scale}));
    scaler.good_steps = comm.all_reduce_min(scaler.good_steps);
    scaler.hysteresis_left = comm.all_reduce_min(scaler.hysteresis_left);
  }
  copy_from_host(space, &decision, memory);
  if (untaken() > 0) return copy_of(decided_).start(space, on_device());
  last_.scaler = decision.scaler;
  last_.loss_was_nonfinite = decision.loss_was_nonfinite;
}

}  // namespace lockstep
