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

/// The ranks of one worker of asynchronous training, neighbours among all. They compute a gradient together, each of
/// them a piece, and sum in the tree of DeterministicReducer. The parameters are as many fractions, one of each rank.
class WorkerGroup {
 public:
  /// Of `all` ranks, `group` are those of this one's worker; all groups have as many. Collective.
  WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters);

  const Communicator& ranks() const { return ranks_; }
  /// Of its ranks, among all.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  int size() const { return ranks_.size(); }
  /// The number of this group, and how many there are.
  int number() const { return static_cast<int>(numbers_.front()) / size(); }
  int count() const { return count_; }
  /// Of what is trained, this rank's.
  ParameterRange fraction() const;

  /// The buffer has the gradient of this rank's piece, which may be overwritten.
  void piece_done(const ExecSpace& space);
  /// Waits until it has the sum of all pieces. `meanwhile` is called again and again, and does not wait. Collective.
  void sum(const ExecSpace& space, const std::function<void()>& meanwhile);

  /// Each rank's values of its fraction begin their way to all. They stay as they are until `gathered` says that this
  /// rank has all, and has sent its own.
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
  std::unique_ptr<Collective> gather_;       ///< null: likewise
};

}  // namespace lockstep
