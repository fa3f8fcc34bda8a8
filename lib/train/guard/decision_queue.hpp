// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstddef>

#include "comm/communicator.hpp"
#include "core/host_copy.hpp"
#include "train/guard/step_decision.hpp"

namespace lockstep {

/// The decision about the current step in device memory, where kernels make it, and the decisions that are on their
/// way to the host, which takes them at once or, on devices, a step late.
class DecisionQueue {
 public:
  DecisionQueue() : memory_("lockstep::step_decision", sizeof(StepDecision)) {}

  /// The decision about the current step, for kernels.
  StepDecision* on_device() const { return reinterpret_cast<StepDecision*>(memory_.data()); }
  /// Number of steps before the current one, for kernels.
  StepNumber steps_before() const { return StepNumber(&on_device()->steps_before); }
  /// Factor of the current step's loss, for kernels.
  GradientFactor loss_factor() const { return GradientFactor(&on_device()->loss_factor); }
  /// Factor of the current step's loss, as f64 [1] in device memory.
  Tensor loss_factor_tensor() const { return memory_.tensor(offsetof(StepDecision, loss_factor), DType::f64, {1}); }
  /// Scalars of the current step's update, in device memory.
  const UpdateScalars* scalars() const { return &on_device()->scalars; }

  /// Begins step number `step`, from what the host has changed, if it has.
  void begin(const ExecSpace& space, std::int64_t step);
  /// Call when the kernels that decide about the step have been started: starts the copy to the host. Returns the
  /// step's number.
  std::int64_t decided(const ExecSpace& space);

  /// Number of steps that are decided, and whose decision has not been taken.
  std::int64_t untaken() const { return decided_ - taken_; }
  /// Takes the oldest such decision, which becomes last(). Waits for the device. Returns the step's number.
  std::int64_t take();
  /// Takes the other decisions without regard, since the step of last() cannot be done: the device, which has left out
  /// all steps begun after it, goes on from there.
  void drop_later();
  /// The last decision that was taken, and what the host has changed since.
  const StepDecision& last() const { return last_; }
  /// For changes by the host, of which the device learns as the next step begins.
  StepDecision& change_last() {
    is_changed_ = true;
    return last_;
  }

  /// Makes the ranks go on with the smallest loss scale of any, if losses are scaled, and with the same memory of a
  /// loss that was not finite. Waits for the device. Collective.
  void agree(const ExecSpace& space, const Communicator& comm, bool scales);

 private:
  HostCopy<StepDecision>& copy_of(std::int64_t step) { return copies_[static_cast<std::size_t>(step % 2)]; }

  Buffer memory_;  ///< a StepDecision
  StepDecision last_;
  bool is_changed_ = true;                        ///< the host has changed `last_`, and the device does not know yet
  std::array<HostCopy<StepDecision>, 2> copies_;  ///< of the last even and the last odd step
  std::int64_t decided_ = 0, taken_ = 0;          ///< numbers of the last step decided and of the last one taken
};

}  // namespace lockstep
