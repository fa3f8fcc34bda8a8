// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/update_scalars.hpp"
#include "parameters/offloaded_states.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The tables that kernels of an optimizer's step work on (rules/step_kernel.hpp, rules/trust_ratio.hpp): the blocks of
/// the parameters that this rank owns, their groups and, window by window, their states.
class ParameterBlocks {
 public:
  struct Blocks {
    const ParameterBlock* blocks = nullptr;  ///< in device memory
    std::int64_t count = 0;
    std::int64_t all = 0;                          ///< number of blocks of all ranks
    const TrainedParameter* parameters = nullptr;  ///< in device memory; parameters of all ranks
    std::int64_t parameter_count = 0;
    double clip_value = 0;                  ///< infinite: no clipping
    Tensor nonfinite;                       ///< i32 [1], set by kernels
    const GroupSettings* groups = nullptr;  ///< copy of groups() in device memory
    std::byte* rules = nullptr;             ///< room for one rule for each group
  };
  static constexpr std::size_t largest_rules = 2048;  ///< bytes in `rules`

  /// `clip_value` and `ema_decay` are those of the deck.
  ParameterBlocks(ParameterGroups groups, const ParameterShard& owned, double clip_value, double ema_decay);

  const Blocks& blocks() const { return blocks_; }
  const std::vector<GroupSettings>& groups() const { return groups_; }
  const Tensor& nonfinite() const { return blocks_.nonfinite; }

  /// True if there is a moving average of the parameters; it is the last state.
  bool averages() const { return ema_decay_ > 0; }
  double ema_decay() const { return ema_decay_; }
  /// Updates the moving average, if there is one, with the new parameters of a window. Part of each step.
  void average(const ExecSpace& space, const ParameterBuffer& parameters, const UpdateScalars* step,
               const StateWindow& window) const;

  /// Sums f64 numbers in device memory over all ranks. Each number belongs to a block; it is 0 on all ranks but the
  /// block's owner. Collective.
  using SumOverOwners = std::function<void(const ExecSpace& space, const Tensor& numbers)>;
  /// Empty if this rank owns all parameters.
  const SumOverOwners& sum_over_owners() const { return sum_over_owners_; }
  void own_parts(SumOverOwners sum) { sum_over_owners_ = std::move(sum); }

  /// All blocks, with their states if these are in memory.
  const StateWindow& whole() const { return whole_; }
  /// What a pass over the blocks does with their states.
  enum class StateUse { none, read, change };
  /// Calls work(window) for windows that together contain all blocks; for a single one if all that it needs is in
  /// memory. Waits until the work of all windows is given to `space`.
  template <class Work>
  void for_windows(const ExecSpace& space, StateUse use, const Work& work) const {
    if (is_in_memory(use)) return work(whole_);
    begin_pass(use, WindowWork([&work](const ExecSpace&, const StateWindow& window) { work(window); }));
    pass_->await(space, 0);
  }
  /// Calls work(space, window) as for_windows does, with a copy of `work`. Must be the last part of a step, which
  /// changes the parameters. If steps stream, returns at once; OffloadedUpdate then calls the work.
  template <class Work>
  void for_windows_at_last(const ExecSpace& space, StateUse use, const Work& work) const {
    if (is_in_memory(use)) return work(space, whole_);
    begin_pass(passes_values_ ? StateUse::change : use, WindowWork(work));
    if (!streams_) pass_->await(space, 0);
  }

  // Called by the optimizer to say where the states are:
  void set_states(std::vector<Tensor> states);
  /// The states are offloaded; `values`: so are the parameters' values, which move with them. `pass` must outlive this
  /// object.
  void pass_over_states(OffloadedUpdate& pass, bool values);
  /// From now on, steps over offloaded states return before they are complete.
  void stream_steps() { streams_ = true; }
  bool streams() const { return streams_ && pass_ != nullptr; }
  /// Calls change(blocks) with a copy of the blocks, which then replaces them.
  void change_blocks(const std::function<void(std::vector<ParameterBlock>&)>& change);

 private:
  bool is_in_memory(StateUse use) const { return pass_ == nullptr || (use == StateUse::none && !passes_values_); }
  void begin_pass(StateUse use, const WindowWork& work) const;

  std::vector<GroupSettings> groups_;
  double ema_decay_;
  Buffer memory_, rules_;
  OwnedTensor nonfinite_;
  Blocks blocks_;
  std::vector<Tensor> states_;
  StateWindow whole_;
  OffloadedUpdate* pass_ = nullptr;
  bool passes_values_ = false, streams_ = false;
  SumOverOwners sum_over_owners_;
};

// The moving average of the parameters is flat like an optimizer state, and of f32 or f64 like the parameters.

/// average ← parameters for `count` blocks, which lie in device memory.
void begin_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                   const Tensor& average);

/// average ← decay·average + (1 − decay)·parameters for `count` blocks, which lie in device memory. After the first
/// step, average ← parameters. Does nothing if the step is left out.
void update_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, double decay,
                    const UpdateScalars* step, const Tensor& parameters, const Tensor& average);

/// Exchanges parameters and average.
void swap_average(const ExecSpace& space, const ParameterBlock* blocks, std::int64_t count, const Tensor& parameters,
                  const Tensor& average);
/// update_average and swap_average of flat arrays.
void update_average(const ExecSpace& space, double decay, const UpdateScalars* step, const Tensor& values,
                    const Tensor& average);
void swap_average(const ExecSpace& space, const Tensor& values, const Tensor& average);

}  // namespace lockstep
