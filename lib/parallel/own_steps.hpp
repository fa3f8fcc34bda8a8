// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "core/execution.hpp"
#include "core/host_memory.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// sum += count, unless the step is left out, which the host may learn later. Pointers are into device memory.
void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum);

/// Adds what a checkpoint holds of the steps behind the optimizer states of this replica; no replica: of those of all
/// ranks. `next`, f64 [1], is the number of the next step on the rank that `has_it`.
void add_next_step(const Tensor& next, bool has_it, std::optional<ShardedState::Replica> replica,
                   std::vector<ShardedState>& all);

/// Counts the steps that the states of an optimizer result from, for ranks that leave out some of the run's steps. What
/// the optimizer divides by a function of that number (Adam's bias correction) follows this count.
class OwnSteps {
 public:
  /// `ranks` are those that do these steps together.
  explicit OwnSteps(const Communicator& ranks);

  const Communicator& ranks() const { return ranks_; }
  /// Call when the run begins, or goes on. Takes the count that the first rank of `alike`, whose states are the same,
  /// has from a checkpoint; if it has none, its states are those of `steps` steps. An average of several counts, made
  /// as the states were averaged, is rounded to a whole number. Collective over `alike`.
  void begin(const ExecSpace& space, const Communicator& alike, std::int64_t steps);

  /// Counts a step of the optimizer, unless `left_out`, in device memory, is not 0.
  void add(const ExecSpace& space, const std::int32_t* left_out) const;
  /// Starts the copy of the count to the host.
  void look(const ExecSpace& space);
  /// Number of steps done, as of the last look. Waits for its copy.
  std::int64_t done();

  /// f64 [1]: number of the next step, from 1 on; 0: not known.
  const Tensor& next() const { return next_.get(); }

 private:
  void set(const ExecSpace& space, double next);

  Communicator ranks_;
  OwnedTensor next_;
  HostCopy<double> copy_;
  double seen_ = 0;  ///< next_, as the host has seen it last
  bool is_on_its_way_ = false;
};

}  // namespace lockstep
