// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "optim/optimizer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// The parameters, or a state of an optimizer, as ranks give them to a checkpoint and take them from one: each number
/// is given by one rank. All ranks name the same states, in the same order.
struct ShardedState {
  std::string state;  ///< name of the state; empty: the parameters
  /// What a state belongs to; parameters belong to none of these.
  enum class Kind { optimizer, strategy, compression } kind = Kind::optimizer;
  SharedLayout layout;             ///< what the numbers are, and where in a flat buffer
  std::vector<ElementRange> held;  ///< ranges of that buffer that this rank gives and takes, in rising order
  Tensor values;                   ///< numbers of these ranges, one after the other, in device memory
  /// If replicas are not alike: which of how many the numbers belong to.
  struct Replica {
    int number, count;
  };
  std::optional<Replica> replica = std::nullopt;
  /// Whether this replica is a simulated asynchronous worker, and the numbers are what it has read, or remembers of its
  /// gradients. A replica with parameters of its own cannot go on with these, nor the reverse.
  bool of_simulated_worker = false;
  bool is_optional = false;       ///< zeros if a checkpoint has none
  OffloadedState offloaded = {};  ///< where the numbers are instead, if anywhere: `values` then has no data
  /// For what compression has left over: one of several parts, whose sum is what counts. A checkpoint may have another
  /// number of parts.
  struct Part {
    int number, of;
  };
  std::optional<Part> part = std::nullopt;

  /// Number of elements of the whole buffer, up to the last one that is used.
  std::int64_t size() const { return layout.elements(); }
};

/// Names in checkpoints of strategies' numbers besides the optimizer's states: the number of the next step of ranks
/// that count their own (OptimizerStepCount), and a worker's mean square of gradients (SimulatedGradients).
inline constexpr const char *next_step_state = "next_step", *next_step_array = "number",
                            *mean_square_state = "mean_square";

/// Returns a state of the optimizer, or the parameters (""), that one rank has as a whole; other ranks give and take
/// nothing.
ShardedState state_of_one_rank(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool has_them, const OffloadedState& offloaded = {});
/// Returns a state of the strategy, of whose numbers a rank has the ranges `held`, or gives and takes nothing.
ShardedState state_of_strategy(const std::string& state, const SharedLayout& layout, std::vector<ElementRange> held,
                               const Tensor& values, bool has_them);
/// Returns a state of the strategy that rank 0 has as a whole; other ranks give and take nothing.
ShardedState state_of_strategy(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool is_root);
/// Returns the parameters of ranks that each have all of them; rank 0 gives them.
ShardedState replicated_parameters(const ParameterBuffer& parameters, bool is_root);
/// Returns the parameters and states of ranks that each have all of them; rank 0 gives them.
std::vector<ShardedState> replicated_states(const ParameterBuffer& parameters, const Optimizer& optimizer,
                                            bool is_root);
/// Returns the states of ranks that each have those of the parameters that they own (ParameterLayout::owned), and the
/// values of all parameters, or of the owned ones. If several groups of ranks have the same, the first group gives
/// them.
std::vector<ShardedState> owned_states(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root,
                                       bool of_first_group);

/// Gives `ranks`, which have the same parts, the optimizer's states of the first of them, and the parameters' values
/// that are with these (OffloadedValues). Collective; a rank whose file of offloaded states fails throws io_error when
/// all have come to the end.
void share_states(const ExecSpace& space, const Communicator& ranks, const Optimizer& optimizer);

}  // namespace lockstep
