// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "nn/parameters/parameter_buffer.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/state_pass.hpp"
#include "optim/step_scalars.hpp"

namespace lockstep {

/// What the kernels of an optimizer's step go over (step_kernel.hpp, trust_ratio.hpp): the blocks of the parameters
/// that this rank owns, the groups whose rules these have, and their states, in windows.
class StepTables {
 public:
  struct Blocks {
    const ParameterBlock* blocks = nullptr;  ///< in the step's memory
    std::int64_t count = 0;
    std::int64_t all = 0;                          ///< blocks, of all ranks
    const TrainedParameter* parameters = nullptr;  ///< in the step's memory, those of all ranks
    std::int64_t parameter_count = 0;
    double clip_value = 0;                  ///< infinite: off
    Tensor nonfinite;                       ///< i32 [1], for kernels to set
    const GroupSettings* groups = nullptr;  ///< as groups(), in the step's memory
    std::byte* rules = nullptr;             ///< room for a rule of each group
  };
  static constexpr std::size_t largest_rules = 2048;  ///< bytes of `rules`

  /// `clip_value`, `ema_decay`: as the deck has them.
  StepTables(ParameterGroups groups, const OwnedParameters& owned, double clip_value, double ema_decay);

  const Blocks& blocks() const { return blocks_; }
  const std::vector<GroupSettings>& groups() const { return groups_; }
  const Tensor& nonfinite() const { return blocks_.nonfinite; }

  /// Whether there is a moving average of the parameters: the last state.
  bool averages() const { return ema_decay_ > 0; }
  /// Takes the new parameters of a window into their moving average, where there is one; a part of each step.
  void average(const ExecSpace& space, const ParameterBuffer& parameters, const StepScalars* step,
               const StateWindow& window) const;

  /// Sums f64 numbers, in the step's memory, over all ranks; each is of a block, whose owner alone has another than 0.
  using SumOverOwners = std::function<void(const ExecSpace& space, const Tensor& numbers)>;
  /// Empty: this rank owns all parameters.
  const SumOverOwners& sum_over_owners() const { return sum_over_owners_; }
  void own_parts(SumOverOwners sum) { sum_over_owners_ = std::move(sum); }

  /// All blocks; with their states, where these are in memory.
  const StateWindow& whole() const { return whole_; }
  /// What a pass over the blocks does with their states.
  enum class StateUse { none, read, change };
  /// Calls work(window) for windows that together are all blocks: for one where what it needs is in memory.
  template <class Work>
  void for_windows(const ExecSpace& space, StateUse use, const Work& work) const {
    if (is_in_memory(use)) return work(whole_);
    begin_pass(use, WindowWork([&work](const ExecSpace&, const StateWindow& window) { work(window); }));
    pass_->await(space, 0);
  }
  /// The last thing that a step does, which changes parameters: work(space, window), likewise, with a copy of `work`;
  /// where steps stream, when StatePass comes to it.
  template <class Work>
  void for_windows_at_last(const ExecSpace& space, StateUse use, const Work& work) const {
    if (is_in_memory(use)) return work(space, whole_);
    begin_pass(passes_values_ ? StateUse::change : use, WindowWork(work));
    if (!streams_) pass_->await(space, 0);
  }

  // Where the states are, is the optimizer's business:
  void set_states(std::vector<Tensor> states);
  /// They are not in memory; `values`: nor are those of the parameters, which come and go with them. `pass` outlives
  /// this.
  void pass_over_states(StatePass& pass, bool values);
  /// From here on, steps over such states return before they are done.
  void stream_steps() { streams_ = true; }
  bool streams() const { return streams_ && pass_ != nullptr; }
  /// change(blocks), of a copy, which becomes theirs.
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
  StatePass* pass_ = nullptr;
  bool passes_values_ = false, streams_ = false;
  SumOverOwners sum_over_owners_;
};

}  // namespace lockstep
