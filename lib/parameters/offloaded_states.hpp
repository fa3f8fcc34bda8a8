// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/tensor.hpp"
#include "parameters/parameter_buffer.hpp"
#include "parameters/streamed_blocks.hpp"

namespace lockstep {

/// Where an optimizer keeps its states.
struct StateOffload {
  enum class To { nowhere, host_memory, file } to = To::nowhere;  ///< nowhere: in device memory
  std::string folder;                                             ///< folder of the file
  double block_mb = 16;  ///< size of a block, over all states, that is read and written at once
  bool values = false;   ///< true if the parameters' values are offloaded too, after the states
};

/// Blocks of parameters whose states are in memory at the same time.
struct StateWindow {
  const ParameterBlock* blocks = nullptr;  ///< in device memory
  std::int64_t count = 0;
  std::span<const Tensor> states;  ///< indexed by ParameterBlock::state
  /// The parameters' values, indexed by ParameterBlock::first. Without data if they are in ParameterShard.
  Tensor values = {};
  /// The range of the flat buffer that the window covers; empty if all states are in memory.
  ElementRange range{};

  const Tensor& values_or(const ParameterShard& owned) const { return values ? values : owned.values(); }
};

/// States of an optimizer, laid out like the parameters that a rank owns. Three blocks of them are in device memory
/// (StreamedBlocks); the rest is in a file or, if steps run in a device's memory, in host memory. Kernels run
/// once for each block. A block holds the same range of all states, one after the other, so that it is moved at once.
/// The parameters' values may be offloaded with the states, as one more state.
class OffloadedStates {
 public:
  /// A division of states into blocks, each of which holds `elements` elements of every state.
  struct Division {
    std::int64_t elements = 0;
    std::size_t blocks = 0, block_bytes = 0;

    std::size_t bytes_in_memory() const { return StreamedBlocks::slots(blocks) * block_bytes; }
  };
  /// `states` counts states of `count` elements each, including the values if they are offloaded.
  static Division divide(double block_mb, DType dtype, std::size_t states, std::int64_t count);

  /// `owned`: the ranges that the rank owns (ParameterLayout::owned). `blocks`: their blocks, in the order of their
  /// states; their indices are changed to indices within windows. `states`: the number of states, without the values.
  /// `in_step`: where kernels will find the blocks. Throws what BlockFile and HostBlocks throw.
  OffloadedStates(const StateOffload& offload, DType dtype, std::size_t states, std::span<const ElementRange> owned,
                  std::span<ParameterBlock> blocks, const ParameterBlock* in_step);

  // A pass over all blocks, window by window. Returns the range of the next window:
  const ElementRange& next() const { return windows_[blocks_.next()].range; }
  /// The end, in the flat buffer, of the windows that are left.
  std::int64_t end_of_left() const { return windows_[blocks_.last_left()].range.end(); }
  /// Calls `work` for the next window once it has arrived; `work` must give its kernels to `space`.
  void work(const ExecSpace& space, const std::function<void(const StateWindow&)>& work);

  std::size_t number_of_values() const { return states_.size() - 1; }  ///< index of the values among the states

  using Version = StreamedBlocks::Version;
  // Copy elements [first, first + count) of a state from or to host memory; see StreamedBlocks.
  void read(Version version, std::size_t state, std::int64_t first, std::int64_t count, std::byte* to);
  void write(std::size_t state, std::int64_t first, std::int64_t count, const std::byte* from);
  /// Starts such a copy to host memory; see StreamedBlocks::start_fetch.
  void start_fetch(std::size_t state, std::int64_t first, std::int64_t count, std::byte* to);
  StreamedBlocks& blocks() { return blocks_; }

 private:
  template <class Visit>
  void for_pieces(std::size_t state, std::int64_t first, std::int64_t count, const Visit& visit) const;

  DType dtype_;
  bool has_values_;
  Division division_;
  StreamedBlocks blocks_;
  std::vector<StateWindow> windows_;  ///< without their states
  std::vector<Tensor> states_;        ///< of the window in memory, then its values if they are offloaded
};

/// A reference to one offloaded state, or to none.
struct OffloadedState {
  OffloadedStates* all = nullptr;
  std::size_t number = 0;

  explicit operator bool() const { return all != nullptr; }
  void read(StreamedBlocks::Version version, std::int64_t first, std::int64_t count, std::byte* to) const {
    all->read(version, number, first, count, to);
  }
  void write(std::int64_t first, std::int64_t count, const std::byte* from) const {
    all->write(number, first, count, from);
  }
};

/// The parameters' values among the offloaded states.
class OffloadedValues final : public OwnedValueStore {
 public:
  explicit OffloadedValues(OffloadedStates& all) : values_{&all, all.number_of_values()} {}

  const OffloadedState& as_state() const { return values_; }
  void start_fetch(std::int64_t first, std::int64_t count, std::byte* to) override {
    values_.all->start_fetch(values_.number, first, count, to);
  }
  bool has_fetched() override { return values_.all->blocks().has_fetched(); }
  void read(std::int64_t first, std::int64_t count, std::byte* to) const override {
    values_.read(StreamedBlocks::Version::present, first, count, to);
  }
  void write(std::int64_t first, std::int64_t count, const std::byte* from) const override {
    values_.write(first, count, from);
  }

 private:
  OffloadedState values_;
};

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
