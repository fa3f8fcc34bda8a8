// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/fields.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "optim/parameter_groups.hpp"
#include "optim/state_pass.hpp"
#include "optim/step_scalars.hpp"
#include "optim/step_tables.hpp"

namespace lockstep {

/// Where a step stands in the run's course.
struct StepRate {
  double learning_rate = 0;
  double learning_rate_before = 0;  ///< in the step before; in the first one its own
  std::int64_t number = 1;          ///< of the steps that the optimizer has taken, this one included
};

/// Velocities u ← factor·u + g, of which a step takes u, or Nesterov's g + factor·u.
struct Momentum {
  double factor = 0;  ///< 0: none
  bool nesterov = false;
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
  virtual std::vector<std::string> state_names() const = 0;  ///< of the rule's states; the first has all parameters
  /// What such a state keeps of the trained parameters, and where: parameters of other shapes and places.
  virtual std::vector<Parameter> state_layout(std::string_view /*state*/, const std::vector<Parameter>& trained) const {
    return trained;
  }
  ParameterGroups groups_of(const ParameterLayout& layout) const {
    return {layout, groups, {.weight_decay = weight_decay}, exclude_bias_and_norm};
  }
  /// Whether ranks may each have a part of the states.
  virtual bool divides() const { return true; }
  /// Of what the rule does with gradients, where it is no more than momentum, so that it may be done to parts of them.
  virtual Momentum gradient_momentum() const { return {}; }
  /// Whether a step needs all gradients before it changes any parameter.
  virtual bool needs_all_gradients() const { return false; }
  /// How often a step reads, and writes, states that are not in its memory; `values`: the parameters' are with them.
  struct StatePasses {
    int reads = 1, writes = 1;
  };
  virtual StatePasses state_passes(bool /*values*/) const { return {}; }
  /// Whether the states mean nothing without the number of steps that they come of.
  virtual bool counts_steps() const { return false; }
  virtual std::unique_ptr<class Optimizer> make(const ParameterBuffer& parameters) const = 0;
};

/// Turns summed gradients into new parameters, and into their 16-bit copy where there is one. Its
/// state lies in flat buffers. Those laid out like the parameters hold the ranges that this rank owns
/// (ParameterLayout::owned) one after the other: so a step is one kernel. Where a rank owns all that is trained, a
/// checkpoint treats state as it does parameters.
class Optimizer {
 public:
  struct State {
    std::string name;               ///< "velocity"
    SharedLayout layout;            ///< OptimizerOptions::state_layout
    Tensor values;                  ///< flat; laid out like the parameters: [ParameterLayout::owned_count()]
    OffloadedState offloaded = {};  ///< where its numbers are, if anywhere: `values` has no data then
  };

  Optimizer(const OptimizerOptions& options, const ParameterBuffer& parameters);
  virtual ~Optimizer() = default;

  virtual StepCoefficients coefficients(const StepRate& rate) const = 0;
  /// From here on OptimizerOptions::gradient_momentum is in the gradients: steps add none but to what is not of these,
  /// the weight decay.
  virtual void expect_momentum_in_gradients() {}
  /// Whether nobody finds the gradients after a step as they were before it.
  virtual bool overwrites_gradients() const { return false; }
  /// In the order of OptimizerConfig::state_names; zero at first.
  const std::vector<State>& states() const { return states_; }

  /// Whether there is a moving average of the parameters, ema ← d·ema + (1 − d)·p after each step, which evaluations
  /// look at. It begins as the parameters after the first step.
  bool averages() const { return tables_.averages(); }
  /// The parameters that this rank owns become the average, and the other way round.
  void swap_average(const ExecSpace& space, ParameterBuffer& parameters);

  /// Whether the last step has left a parameter of this rank's that is infinite or not a number. Waits for the device.
  bool left_nonfinite(const ExecSpace& space) const;
  /// Likewise, i32 [1] where kernels read it.
  const Tensor& nonfinite() const { return tables_.nonfinite(); }
  /// Takes back what left_nonfinite has found: parameters are others now.
  void forget_nonfinite(const ExecSpace& space) { fill_zero(space, tables_.nonfinite()); }

  /// Where ranks own parts of the parameters: how they put together what is said of whole ones.
  void own_parts(StepTables::SumOverOwners sum) { tables_.own_parts(std::move(sum)); }

  /// From here on, steps over offloaded states return before they are done: who reads parameters waits for this, which
  /// is null where states are in memory.
  StatePass* stream_steps();
  /// Whether a step may begin before all gradients are final. On devices, where the host would have to wait for
  /// kernels to know that, none does.
  bool begins_early() const { return !memory_is_separate && tables_.streams() && !needs_all_gradients_; }
  /// Begins one; its parameters change where gradients_are_final says so, of those before element `end`.
  void begin_step(const ExecSpace& space, ParameterBuffer& parameters, const StepScalars* step);
  void gradients_are_final(const ExecSpace& space, std::int64_t end) { pass_->advance_before(space, end); }
  /// All gradients are final: a step, or the rest of the one that was begun. New parameters, and their average, where
  /// there is one. `step`: in the step's memory.
  void step(const ExecSpace& space, ParameterBuffer& parameters, const StepScalars* step);
  /// The parameters' values, where they are with the states; else null.
  OffloadedValues* offloaded_values() const { return offloaded_values_.get(); }

 protected:
  /// The formula of a step, for all parameters; with their average, where there is one.
  virtual void apply_rule(const ExecSpace& space, ParameterBuffer& parameters, const StepScalars* step) = 0;
  const StepTables& tables() const { return tables_; }

 private:
  friend struct OptimizerConfig;
  /// Gives the states their place, where they are zero; the second part of making an optimizer.
  void place_states(const StateOffload& offload, const ParameterLayout& layout);

  bool needs_all_gradients_, has_begun_ = false;
  StepTables tables_;
  Buffer state_memory_;
  std::unique_ptr<OffloadedStates> offloaded_;  ///< in the place of state_memory_
  std::unique_ptr<OffloadedValues> offloaded_values_;
  std::unique_ptr<StatePass> pass_;  ///< over these
  std::vector<State> states_;
};

/// The state that is the average of the parameters, after the rule's states.
inline constexpr const char* ema_state = "ema";

/// The deck's `optimizer` section.
struct OptimizerConfig : Config {
  std::string type = "sgd";
  std::shared_ptr<Config> options;

  OptimizerConfig();
  void describe(Fields& fields) override;
  const OptimizerOptions& rule() const;  ///< keys and properties of this type
  bool clips() const;                    ///< by norm or by value
  bool averages() const;                 ///< whether it keeps a moving average of the parameters
  bool offloads() const;  ///< whether states may be elsewhere than in the step's memory, and there are such
  /// Names of the flat buffers that the optimizer keeps beside the parameters, as in Optimizer::states.
  std::vector<std::string> state_names() const;
  /// What one of them keeps of the trained ones among `parameters`, and where.
  std::vector<Parameter> state_layout(std::string_view state, const std::vector<Parameter>& parameters) const;
  /// Throws KeyError where the deck's groups do not suit the parameters.
  ParameterGroups groups(const ParameterLayout& layout) const;
  /// Throws what OffloadedStates throws.
  std::unique_ptr<Optimizer> make(const ParameterBuffer& parameters, const StateOffload& offload = {}) const;
};

}  // namespace lockstep
