// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "nn/parameter_arrival.hpp"
#include "optim/offloaded_states.hpp"

namespace lockstep {

/// A copy of a callable work(space, window), stored without heap memory.
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

/// A pass of an optimizer's kernels over offloaded states. The pass of a step may overlap with the network's passes:
/// with the backward pass, which makes gradients final from the beginning of the flat buffer on, and with the next
/// forward pass, which needs parameters from the buffer's end on. It advances whenever it is queried, as far as blocks
/// have arrived. On a device, new parameters are visible to kernels that are given to the same space later.
class OffloadedUpdate final : public ParameterArrival {
 public:
  /// `nonfinite`: the flag that each of the kernels overwrites (Optimizer::nonfinite); after the pass it is that of all
  /// kernels.
  OffloadedUpdate(OffloadedStates& states, const Tensor& nonfinite);

  void begin(StreamedBlocks::Pass kind, const WindowWork& work);
  /// The next pass begins before all gradients are final. Until `turn`, it advances only in advance_before.
  void begin_early() { is_early_ = true; }
  /// Gradients before element `end` of the flat buffer are final. Processes the blocks that are ready, without waiting.
  void advance_before(const ExecSpace& space, std::int64_t end);
  /// All gradients are final. From now on, the blocks that a forward pass needs first are processed first.
  void turn();
  bool have_arrived(const ExecSpace& space, std::int64_t first) override;
  void await(const ExecSpace& space, std::int64_t first) override;

 private:
  bool is_passing() const { return states_.blocks().is_passing(); }
  void work(const ExecSpace& space);

  OffloadedStates& states_;
  Tensor nonfinite_;       ///< i32 [1]
  OwnedTensor found_;      ///< i32 [1]: the flag of the windows before
  bool is_first_ = false;  ///< true if no window came before
  bool is_early_ = false;
  WindowWork work_;
};

}  // namespace lockstep
