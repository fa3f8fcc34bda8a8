// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// The parameters, or a state of an optimizer, as ranks give them to a checkpoint and take them from one: of each
/// number, one rank does. All ranks name the same, in the same order.
struct ShardedState {
  std::string state;  ///< its name; empty: the parameters
  /// Whose a state is; the parameters are of none.
  enum class Kind { optimizer, strategy, compression } kind = Kind::optimizer;
  SharedLayout layout;               ///< what they are, and where in a flat buffer
  std::vector<ParameterRange> held;  ///< what this rank gives and takes of that buffer, in rising order
  Tensor values;                     ///< of these ranges, one after the other, in the step's memory
  /// Of replicas that are not alike, which of how many they belong to.
  struct Replica {
    int number, count;
  };
  std::optional<Replica> replica = std::nullopt;
  /// This replica is a simulated asynchronous worker, and these are what it has read, or remembers of its gradients:
  /// nothing that a replica with parameters of its own goes on with, nor the reverse.
  bool of_simulated_worker = false;
  bool is_optional = false;       ///< zeros where a checkpoint has none
  OffloadedState offloaded = {};  ///< where they are instead, if anywhere: `values` has no data then
  /// Of what compression has left over: the number of one of so many alike, whose sum is what counts. A checkpoint may
  /// have it in another number of parts.
  struct Part {
    int number, of;
  };
  std::optional<Part> part = std::nullopt;

  /// Elements of the whole buffer, up to the last that is something.
  std::int64_t size() const { return layout.elements(); }
};

/// What strategies name so in checkpoints, beside the optimizer's states: the number of the next step of who counts its
/// own (OwnSteps), and a worker's mean square of gradients (SimulatedGradients).
inline constexpr const char *next_step_state = "next_step", *next_step_array = "number",
                            *mean_square_state = "mean_square";

/// A state of the optimizer, or the parameters (""), of which one rank has all; others give and take nothing.
ShardedState state_of_one_rank(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool has_them, const OffloadedState& offloaded = {});
/// A state of the strategy, of which rank 0 has all, and others give and take nothing.
ShardedState state_of_strategy(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool is_root);
/// Of ranks that each have all: rank 0's.
std::vector<ShardedState> replicated_states(const ParameterBuffer& parameters, const Optimizer& optimizer,
                                            bool is_root);
/// Of ranks that each have the states of those parameters that they own (ParameterLayout::owned), and the values of
/// all, or of these; where several groups of ranks have the same, those of the first do.
std::vector<ShardedState> owned_states(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root,
                                       bool of_first_group);

/// Ranks that have the same parts get the optimizer's states of the first of them, and the parameters' values that are
/// with these (OffloadedValues). Collective; a rank whose file of offloaded states fails throws io_error when all have
/// come to the end.
void share_states(const ExecSpace& space, const Communicator& ranks, const Optimizer& optimizer);

}  // namespace lockstep
