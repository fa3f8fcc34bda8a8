// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Thrown where a rank waits for others, or sends to them, when one of them is gone, in every thread, until
/// SurvivingRanks::leave_lost_after. No std::exception: who deals with errors of files, or of one rank, must let it
/// pass to who can begin anew.
struct RankLost {};

/// Whether ranks are to outlive each other: there is a SurvivingRanks.
bool ranks_survive();
/// Whether one of this process's world has been lost: then MPI cannot be ended in the ordinary way.
bool ranks_were_lost();
/// Throws RankLost where one is gone. Asks MPI now and then, and costs nothing where ranks need not survive. For places
/// that wait.
void look_for_losses();

/// Ranks that outlive each other: all communicators that are made of `ranks()` throw RankLost where one of
/// them has died, on all that live, once all have heard of it. These let go of all that they have made of them, and go
/// on without it. One object at a time.
class SurvivingRanks {
 public:
  /// Why the death of one would end all; empty: it need not.
  static std::string hindrance();

  /// Where there is no hindrance. Collective.
  explicit SurvivingRanks(const Communicator& all);
  SurvivingRanks(const SurvivingRanks&) = delete;
  SurvivingRanks& operator=(const SurvivingRanks&) = delete;
  ~SurvivingRanks();

  const Communicator& ranks() const { return ranks_; }
  /// Whether all ranks are there and done, as each says of itself; the same answer on all. Collective, also over ranks
  /// of which one has had a RankLost and another has not.
  bool all_are_done(bool done);

  struct Lost {
    int rank = 0;  ///< of those that there were at first
    std::string host;
  };
  /// `ranks()` are those that live, in their order. Returns which have been lost since the last time. Collective.
  std::vector<Lost> leave_lost_after();

 private:
  void watch();
  void stop_watching();
  std::vector<int> first_ranks(const Communicator& ranks) const;

  Communicator first_, ranks_;
  std::vector<std::string> hosts_;  ///< of the first ranks
};

}  // namespace lockstep
