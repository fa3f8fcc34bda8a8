// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Thrown in every thread that waits for other ranks, or sends to them, after one of them has died, until
/// SurvivingRanks::drop_lost. Not a std::exception, so that handlers of ordinary errors let it pass to the code
/// that restarts the run.
struct RankLost {};

/// True if ranks survive the loss of others: a SurvivingRanks exists.
bool ranks_survive();
/// True if a rank was ever lost; then MPI cannot be finalized.
bool ranks_were_lost();
/// Throws RankLost if a rank has died. For loops that wait: asks MPI only every few milliseconds, and costs nothing
/// unless ranks survive.
void look_for_losses();

/// Ranks that survive the loss of others. When one dies, all communicators derived from `ranks()` throw RankLost on all
/// living ranks, once all of these know of it. They then release everything derived from it and continue without the
/// dead rank. One object at a time.
class SurvivingRanks {
 public:
  /// Explains why the death of one rank would end all; empty if it would not.
  static std::string hindrance();

  /// Requires that there is no hindrance. Collective.
  explicit SurvivingRanks(const Communicator& all);
  SurvivingRanks(const SurvivingRanks&) = delete;
  SurvivingRanks& operator=(const SurvivingRanks&) = delete;
  ~SurvivingRanks();

  const Communicator& ranks() const { return ranks_; }
  /// Returns whether all ranks are alive and passed done = true; the same answer on all. `done` must be false exactly
  /// after a RankLost. Collective, even if only some of the ranks had a RankLost.
  bool all_are_done(bool done);

  struct Lost {
    int rank = 0;  ///< rank number at the start of the run
    std::string host;
  };
  /// Reduces `ranks()` to those alive, in their order, and returns those lost since the last call. Collective over the
  /// living ranks.
  std::vector<Lost> drop_lost();

 private:
  void watch();
  void stop_watching();
  std::vector<int> first_ranks(const Communicator& ranks) const;

  Communicator first_, ranks_;
  std::vector<std::string> hosts_;  ///< hosts of the ranks at the start
};

}  // namespace lockstep
