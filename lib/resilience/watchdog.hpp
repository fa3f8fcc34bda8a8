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
#include "resilience/node_liveness.hpp"

namespace lockstep {

/// Ends a run that hangs, and says why: a thread of each rank looks at the heartbeats of all ranks of its node, which
/// are in memory that they share. When a rank stands still for longer than it may, or has died, one rank reports who it
/// is, what it was doing and who waits for it, and all leave with ExitStatus::rank_lost.
///
/// Ranks that wait for others are not to blame, unless all of a node do: then the one that they wait for is on another
/// node, whose watchdogs name it, or the nodes that wait, when that one stands still as a whole (NodeLiveness). Time is
/// counted in turns of the watching thread, so that a job which is suspended and goes on later is not ended.
///
/// Rank 0's also says that a signal has come that asks a rank of its node to stop (StopRequest), at once and not as
/// late as the run looks for it.
class Watchdog {
 public:
  /// `timeout`: seconds; none: the larger of 30 s (300 s while it waits for data) and 10 median steps; 0: only deaths
  /// are looked for. Ten times that in set-up, in the first step, and around checkpoints. Collective.
  Watchdog(const Communicator& ranks, std::optional<double> timeout);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// This rank is done: the others need not miss it.
  ~Watchdog();

  /// Where nodes may leave word for each other: a folder to be, in one that the run has made. Collective.
  void set_shared_folder(const std::filesystem::path& folder);
  /// The median of this rank's steps, on which it depends how long "still" is.
  void median_step(double seconds);
  /// Nothing is expected of this rank for a while: its owner does something else.
  void set_idle(bool idle);
  /// The ranks know that something is under way for which all may have to wait for long (a checkpoint).
  void extend_timeout(bool patient);

 private:
  struct RankStatus;
  struct PeerView;
  enum class Fault { none, died, stands_still, waits_for_others };
  struct Finding {
    Fault fault = Fault::none;
    std::size_t peer = 0;  ///< that is to blame; of waits_for_others: that waits for longest
    std::optional<std::vector<NodeLiveness::Node>> missed = {};  ///< by waits_for_others; none: not known
  };

  void watch();
  void look(double seconds);
  void acknowledge_signal();
  Finding judge() const;
  double limit(const PeerView& peer) const;
  bool takes_long(const PeerView& peer) const;
  /// Seconds, whatever the rank is doing.
  double plain_limit(const PeerView& peer) const;
  /// Whether all of this node wait for others, for longer than that.
  bool all_wait() const;
  /// Whether this node is to end a run that waits for ranks of other nodes; then it knows of which.
  bool gives_up(Finding& finding) const;
  bool is_reporter(const Finding& finding) const;
  std::string report(const Finding& finding) const;
  /// This rank, those of its node, and those that it cannot see.
  [[noreturn]] void end_all();

  Communicator ranks_;
  bool sees_all_;  ///< every rank of the run
  std::optional<double> timeout_;
  std::string host_;
  std::optional<NodeMemory> memory_;  ///< of the posts, where this node's ranks can share any
  std::unique_ptr<RankStatus> own_;   ///< where they cannot
  std::vector<PeerView> peers_;       ///< this node's ranks that can be seen, this one among them
  std::size_t me_ = 0;
  Heartbeat* before_ = nullptr;  ///< that this one stands in for
  double since_finding_ = 0;     ///< seconds
  bool has_acknowledged_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<NodeLiveness> node_liveness_;  ///< of several nodes
  std::thread thread_;                         // last: starts when all else stands
};

}  // namespace lockstep
