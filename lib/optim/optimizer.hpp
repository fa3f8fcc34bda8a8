// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"
#include "optim/parameter_blocks.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/update_scalars.hpp"
#include "parameters/offloaded_states.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The learning rate and number of a step.
struct RateOfStep {
  double learning_rate = 0;
  double learning_rate_before = 0;  ///< of the previous step; in the first step its own
  std::int64_t number = 1;          ///< counts the steps that the optimizer has applied, this one included
};

/// Keys that every optimizer has.
struct OptimizerOptions : Config {
  double learning_rate = 0.1;
  double clip_norm = 0;  ///< 0: off
  double clip_value = 0;
  double weight_decay = 0;
  bool exclude_bias_and_norm = false;
  double ema_decay = 0;
  std::vector<GroupOptions> groups;

  void describe(Fields& fields) override;
  virtual std::string_view weight_decay_help() const = 0;
  /// Names of the rule's states. The first state has elements for all parameters.
  virtual std::vector<std::string> state_names() const = 0;
  /// The shapes and positions, within a state, of what it keeps for each trained parameter.
  virtual std::vector<Parameter> state_layout(std::string_view /*state*/, const std::vector<Parameter>& trained) const {
    return trained;
  }
  ParameterGroups groups_of(const ParameterLayout& layout) const {
    return {layout, groups, {.weight_decay = weight_decay}, exclude_bias_and_norm};
  }
  /// True if ranks may divide the states among themselves.
  virtual bool divides() const { return true; }
  /// True if a step needs all gradients before it changes any parameter.
  virtual bool needs_all_gradients() const { return false; }
  /// True if a step is along the gradient, or along averages of gradients.
  virtual bool steps_along_gradient() const { return false; }
  /// How often a step reads and writes offloaded states. `values`: true if the parameters' values are offloaded too.
  struct StatePasses {
    int reads = 1, writes = 1;
  };
  virtual StatePasses state_passes(bool /*values*/) const { return {}; }
  /// True if the states are only meaningful together with the number of steps taken.
  virtual bool counts_steps() const { return false; }
  virtual std::unique_ptr<class Optimizer> make(const ParameterBuffer& parameters) const = 0;
};

/// Turns summed gradients into new parameters, and into their 16-bit copy if there is one. States lie in flat buffers.
/// A state that is laid out like the parameters holds the ranges that this rank owns (ParameterLayout::owned) one after
/// the other, so a step is one kernel. If a rank owns everything, a checkpoint treats such states like parameters.
class Optimizer {
 public:
  struct State {
    std::string name;               ///< "velocity"
    SharedLayout layout;            ///< OptimizerOptions::state_layout
    Tensor values;                  ///< flat; laid out like the parameters: [ParameterLayout::owned_count()]
    OffloadedState offloaded = {};  ///< if set, where the elements are; `values` then has no data
  };

  Optimizer(const OptimizerOptions& options, const ParameterBuffer& parameters);
  virtual ~Optimizer() = default;

  virtual StepCoefficients coefficients(const RateOfStep& rate) const = 0;
  /// True if a step overwrites the gradients.
  virtual bool overwrites_gradients() const { return false; }
  /// In the order of OptimizerConfig::state_names; initially zero.
  const std::vector<State>& states() const { return states_; }

  /// True if there is a moving average of the parameters, ema ← d·ema + (1 − d)·p after each step, which evaluations
  /// use. After the first step it equals the parameters. The layers' statistics have one, too, on ranks that update
  /// them: those of the parameters as they are do not fit averaged ones (timm averages both alike).
  bool averages() const { return tables_.averages(); }
  /// The moving average of the statistics: [ParameterLayout::statistics().count]; empty if there is none.
  const Tensor& average_of_statistics() const { return statistics_average_.get(); }
  /// Sets the moving average to the parameters that this rank owns, before the first step.
  void begin_average(const ExecSpace& space, const ParameterBuffer& parameters);
  /// Exchanges the parameters that this rank owns, and the statistics that it updates, with their moving average.
  void swap_average(const ExecSpace& space, ParameterBuffer& parameters);
  /// Updates the layers' statistics (ParameterBuffer::update_statistics), unless `step` is left out, and their moving
  /// average. Call after `step`.
  void update_statistics(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step, double scale);

  /// True if the last step has made a parameter that this rank owns infinite or NaN. Waits for the device.
  bool left_nonfinite(const ExecSpace& space) const;
  /// The flag that left_nonfinite reads, i32 [1] in device memory.
  const Tensor& nonfinite() const { return tables_.nonfinite(); }
  /// Clears the flag, after the parameters have been replaced.
  void forget_nonfinite(const ExecSpace& space) { fill_zero(space, tables_.nonfinite()); }

  /// If ranks own parts of the parameters: sets how they sum numbers that concern whole parameters.
  void own_parts(ParameterBlocks::SumOverOwners sum) { tables_.own_parts(std::move(sum)); }

  /// From now on, steps over offloaded states return before they are complete. Whoever reads parameters must wait for
  /// the returned pass; it is null if states are in memory.
  OffloadedUpdate* stream_steps();
  /// True if a step may begin before all gradients are final. Always false on devices, where the host would have to
  /// wait for kernels to know that gradients are final.
  bool begins_early() const { return !memory_is_separate && tables_.streams() && !needs_all_gradients_; }
  /// Begins such a step. Parameters before element `end` may change when gradients_are_final(end) is called.
  void begin_step(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step);
  void gradients_are_final(const ExecSpace& space, std::int64_t end) { pass_->advance_before(space, end); }
  /// Called when all gradients are final: takes a step, or completes the one that begin_step has begun. Updates the
  /// parameters and their moving average, if there is one. `step` lies in device memory.
  void step(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step);
  /// The parameters' values if they are offloaded with the states, else null.
  OffloadedValues* offloaded_values() const { return offloaded_values_.get(); }

 protected:
  /// Applies the formula of a step to all parameters, and updates their moving average if there is one.
  virtual void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const UpdateScalars* step) = 0;
  const ParameterBlocks& tables() const { return tables_; }

 private:
  friend struct OptimizerConfig;
  /// Allocates the states, initially zero, or offloads them. Must be called once, right after construction.
  void place_states(const StateOffload& offload, const ParameterLayout& layout);

  bool needs_all_gradients_, has_begun_ = false;
  ParameterBlocks tables_;
  Buffer state_memory_;
  std::unique_ptr<OffloadedStates> offloaded_;  ///< replaces state_memory_
  std::unique_ptr<OffloadedValues> offloaded_values_;
  std::unique_ptr<OffloadedUpdate> pass_;  ///< over `offloaded_`
  std::vector<State> states_;
  OwnedTensor statistics_average_;
};

/// The name of the state that holds the parameters' moving average; it follows the rule's states.
inline constexpr const char* ema_state = "ema";

/// The values of optimizer.type, whose configurations are OptimizerOptions.
std::span<const Alternative> optimizer_types();

/// The deck's `optimizer` section.
struct OptimizerConfig : Config {
  std::string type = "sgd";
  std::shared_ptr<Config> options;

  OptimizerConfig();
  void describe(Fields& fields) override;
  const OptimizerOptions& rule() const;  ///< keys and properties of the chosen type
  bool averages() const;                 ///< true if there is a moving average of the parameters
  bool offloads() const;                 ///< true if there are states, and they can be offloaded
  /// Names of all states, in the order of Optimizer::states.
  std::vector<std::string> state_names() const;
  /// The shapes and positions, within a state, of what it keeps for the trained ones of `parameters`.
  std::vector<Parameter> state_layout(std::string_view state, const std::vector<Parameter>& parameters) const;
  /// Throws KeyError if the deck's groups do not suit the parameters.
  ParameterGroups groups(const ParameterLayout& layout) const;
  /// Throws what OffloadedStates throws.
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters, const StateOffload& offload = {}) const;
};

}  // namespace lockstep
