// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "nn/parameter_arrival.hpp"
#include "optim/offloaded_states.hpp"

namespace lockstep {

/// A copy of something that is called as work(space, window), which takes no memory of the heap.
class WindowWork {
 public:
  WindowWork() = default;
  template <class Work>
  explicit WindowWork(const Work& work)
      : call_([](const std::byte* bytes, const ExecSpace& space, const StateWindow& window) {
          (*std::launder(reinterpret_cast<const Work*>(bytes)))(space, window);
        }) {
    static_assert(std::is_trivially_copyable_v<Work> && sizeof(Work) <= sizeof(bytes_));
    ::new (static_cast<void*>(bytes_)) Work(work);
  }
  void operator()(const ExecSpace& space, const StateWindow& window) const { call_(bytes_, space, window); }

 private:
  alignas(std::max_align_t) std::byte bytes_[96] = {};
  void (*call_)(const std::byte*, const ExecSpace&, const StateWindow&) = nullptr;
};

/// A pass of an optimizer's kernels over states that are not in the step's memory. That of a step may go on beside the
/// passes of the network: while the backward pass makes gradients, from the beginning of the flat buffer on, and while
/// the next forward pass needs parameters, from its end on. It goes on whenever it is asked how far it is, as far as
/// blocks are there. On a device, parameters are new for kernels that are given to the same space.
class StatePass final : public ParameterArrival {
 public:
  /// `nonfinite`: what kernels leave of what they have found (Optimizer::nonfinite), each of them anew; of the whole
  /// pass, in the end.
  StatePass(OffloadedStates& states, const Tensor& nonfinite);

  void begin(PassingBlocks::Pass kind, const WindowWork& work);
  /// The next pass begins before all gradients are final: until `turn` it does what it is told to do.
  void begin_early() { is_early_ = true; }
  /// Gradients before element `end` of the flat buffer are final. Does what can be done now.
  void advance_before(const ExecSpace& space, std::int64_t end);
  /// All gradients are final: what a forward pass needs first comes first.
  void turn();
  bool have_arrived(const ExecSpace& space, std::int64_t first) override;
  void await(const ExecSpace& space, std::int64_t first) override;

 private:
  bool is_passing() const { return states_.blocks().is_passing(); }
  void work(const ExecSpace& space);

  OffloadedStates& states_;
  Tensor nonfinite_;       ///< i32 [1]
  OwnedTensor found_;      ///< i32 [1]: of the windows before
  bool is_first_ = false;  ///< whether there are none
  bool is_early_ = false;
  WindowWork work_;
};

}  // namespace lockstep
