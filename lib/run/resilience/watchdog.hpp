// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/heartbeat.hpp"
#include "comm/communicator.hpp"
#include "comm/node_memory.hpp"
#include "run/resilience/node_liveness.hpp"

namespace lockstep {

/// Ends a run that hangs, and says why. A thread of each rank looks at the heartbeats of all ranks of its node, which
/// are in shared memory. If a rank stands still for longer than it may, or has died, one rank reports which rank that
/// is, what it was doing and which ranks wait for it, and all leave with ExitStatus::rank_lost.
///
/// Ranks that wait for others are not to blame, unless all ranks of a node wait. Then the rank that they wait for is on
/// another node: the watchdogs there name it or, if that node stands still as a whole, the nodes that wait name the
/// node (NodeLiveness). Time is counted in turns of the watching thread, so that a job that is suspended and goes on
/// later is not ended.
///
/// The ranks may train in groups, each of which has runs of its own and waits for nobody else. Between two runs nothing
/// is expected of a rank but that its process goes on: one that is stopped for longer than the limit is to blame.
///
/// The watchdog of a run's rank 0 also logs that a signal has come that asks a rank of its node to stop (StopRequest),
/// at once and not only when the run looks for it.
class Watchdog {
 public:
  /// `ranks`: all that end together. `group`: those of them that share this rank's runs. `timeout` is in seconds. None:
  /// the larger of 30 s (300 s while a rank waits for data, evaluates, or uses files) and 10 median steps. 0: only
  /// deaths are looked for. The limit is ten times as long in set-up, in the first step, and around checkpoints.
  /// Collective.
  Watchdog(const Communicator& ranks, const Communicator& group, std::optional<double> timeout);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Says that this rank is done, so that the others need not miss it.
  ~Watchdog();

  /// A run of this rank, which is watched, from its set-up on, while this exists.
  class Run {
   public:
    /// `shared` watches this rank between runs, too; null: the run has a watchdog of its own, over `ranks`, with this
    /// `timeout`. Collective.
    Run(Watchdog* shared, const Communicator& ranks, std::optional<double> timeout);
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run();

    Watchdog* operator->() { return &watchdog_; }

   private:
    std::unique_ptr<Watchdog> own_;
    Watchdog& watchdog_;
  };

  /// Sets the folder in which the nodes of a run may leave word for each other. It need not be there yet, but its
  /// parent, which the run has made, must. Collective over the group.
  void set_shared_folder(const std::filesystem::path& folder);
  /// Sets the median seconds of this rank's steps, on which it depends how long the rank may stand still.
  void median_step(double seconds);
  /// Says whether nothing is expected of this rank for a while, because its owner does something else.
  void set_idle(bool idle);
  /// Says whether something is under way for which all ranks may have to wait for long (a checkpoint).
  void set_patient(bool patient);

 private:
  struct RankStatus;
  struct PeerView;
  enum class Fault { none, died, stands_still, waits_for_others };
  struct Finding {
    Fault fault = Fault::none;
    /// Index of the rank that is to blame or, with waits_for_others, of the one that has waited longest.
    std::size_t peer = 0;
    std::optional<std::vector<NodeLiveness::Node>> missed = {};  ///< by waits_for_others; none: not known
  };

  void watch();
  void look(double seconds);
  void acknowledge_signal();
  Finding judge() const;
  double limit(const PeerView& peer) const;
  bool is_of_group(const PeerView& peer) const;
  bool takes_long(const PeerView& peer) const;
  /// Seconds that the rank may stand still, without the factor for phases that take long.
  double plain_limit(const PeerView& peer) const;
  /// Whether all ranks of the group on this node wait for others, for longer than plain_limit.
  bool all_wait() const;
  /// Whether this node must end a run that waits for ranks of other nodes; if so, `finding` tells which.
  bool gives_up(Finding& finding) const;
  bool is_reporter(const Finding& finding) const;
  std::string report(const Finding& finding) const;
  /// Ends this rank, those of its node, and those that it cannot see.
  [[noreturn]] void end_all();

  Communicator ranks_, group_;
  bool sees_group_, sees_all_;  ///< this rank sees every rank of the group; every rank
  std::optional<double> timeout_;
  std::string host_;
  std::optional<NodeMemory> memory_;  ///< of RankStatus objects, if this node's ranks can share memory
  std::unique_ptr<RankStatus> own_;   ///< if they cannot
  std::vector<PeerView> peers_;       ///< ranks of this node that can be seen, this one included
  std::size_t me_ = 0;
  Heartbeat* before_ = nullptr;  ///< the process's heartbeat before this object
  double since_finding_ = 0;     ///< seconds since there is something to report
  bool has_acknowledged_ = false;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<NodeLiveness> node_liveness_;  ///< of a run on several nodes
  std::thread thread_;                         // last member: starts when the others are there
};

}  // namespace lockstep
