// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/topology.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"

namespace lockstep {

/// The ranks of one worker of asynchronous training, which are neighbours among all ranks. They compute a gradient
/// together, each of them a piece, and sum in the tree of DeterministicReducer. Each rank has its fraction of the
/// parameters.
class WorkerGroup {
 public:
  /// `group` are the ranks of this rank's worker, out of `all`; all groups have equally many. Collective.
  WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters);

  const Communicator& ranks() const { return ranks_; }
  /// Numbers of its ranks among all ranks.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  int size() const { return ranks_.size(); }
  /// Number of this group, and number of groups.
  int number() const { return static_cast<int>(numbers_.front()) / size(); }
  int count() const { return count_; }
  /// This rank's part of the trained parameters.
  ElementRange fraction() const;

  /// Call when the buffer has the gradient of this rank's piece; the buffer may then be overwritten.
  void piece_done(const ExecSpace& space);
  /// Waits until the buffer has the sum of all pieces. `meanwhile` is called repeatedly and must not wait. Collective.
  void sum(const ExecSpace& space, const std::function<void()>& meanwhile);

  /// Begins to send each rank's values of its fraction to all ranks of the group. They must stay as they are until
  /// `gathered` returns true: then this rank has all values, and has sent its own.
  void gather();
  bool gathered() { return !gather_ || gather_->advance(); }

  /// Seconds that sums have waited since the last call.
  double take_exposed_seconds() { return sum_ ? sum_->take_exposed_seconds() : 0; }

 private:
  Communicator ranks_;
  int count_;
  std::vector<std::int64_t> numbers_;
  std::int64_t trained_;
  std::optional<DeterministicReducer> sum_;  ///< none: the rank is alone
  std::unique_ptr<Collective> gather_;       ///< null: the rank is alone
};

}  // namespace lockstep
