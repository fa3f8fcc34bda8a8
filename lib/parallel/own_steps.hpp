// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/host_copy.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// The steps that the states of an optimizer come of, counted by ranks that leave out some of the run's, or begin anew
/// in between: what it divides by a function of that number (Adam's bias correction) is of these alone.
class OwnSteps {
 public:
  /// `ranks`: that do these steps together.
  explicit OwnSteps(const Communicator& ranks);

  const Communicator& ranks() const { return ranks_; }
  /// The run begins, or goes on: with what the first of `alike`, whose states are the same, has from a checkpoint. One
  /// that knows nothing of it has states of `steps` steps; where several numbers were averaged, as the states were, the
  /// number becomes a whole one. Collective over `alike`.
  void begin(const ExecSpace& space, const Communicator& alike, std::int64_t steps);

  /// The optimizer does a step, or leaves it out where `left_out`, in the step's memory, is not 0.
  void add(const ExecSpace& space, const std::int32_t* left_out) const;
  /// All that were added are on their way to the host.
  void look(const ExecSpace& space);
  /// Steps that are done, as of the last look. Waits for it.
  std::int64_t done();

  /// The states are averages over `all` ranks, with these weights, whose sum is 1. Collective over these.
  void average(const ExecSpace& space, const Communicator& all, double weight);
  /// The states begin anew.
  void forget(const ExecSpace& space) { set(space, 1); }

  /// What a checkpoint holds of it, of this replica; none: of all. `own`: of who holds it; null: somebody else does.
  static void add_sharded_states(const OwnSteps* own, std::optional<ShardedState::Replica> replica,
                                 std::vector<ShardedState>& all);

 private:
  void set(const ExecSpace& space, double next);

  Communicator ranks_;
  OwnedTensor next_;  ///< the number of the next step, from 1 on; 0: not known; f64 [1]
  HostCopy<double> copy_;
  double seen_ = 0;  ///< of it, by the host
  bool is_on_its_way_ = false;
};

}  // namespace lockstep
