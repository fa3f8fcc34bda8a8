// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/resilience/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <new>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "comm/surviving_ranks.hpp"
#include "run/resilience/signals.hpp"
#include "train/phase_clock.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto turn = std::chrono::milliseconds(250);
/// Most seconds that a turn counts: one that took longer was suspended, with all that it watches.
constexpr double longest_turn = 1;
/// Seconds for which a rank's watchdog may stand still before the rank is looked at more closely; before it counts as
/// stopped itself.
constexpr double suspicious_after = 0.5;
constexpr double stopped_after = 2;
/// Seconds that a rank that is to blame has to report itself, which it can do better than others.
constexpr double own_report = 3;
constexpr double least_timeout = 30, median_steps = 10;
/// File systems may stand still for minutes while one of their servers takes over from another.
constexpr double least_file_timeout = 300;
/// Factor for phases that take long: set-up reads files, checkpoints write them, and the first step sets up what all
/// others find.
constexpr double patience = 10;
/// `courtesy`: seconds for which a rank lets those that can name the late rank report first. `elsewhere`: factor on the
/// limit if the late rank is on another node, where it may show signs of life.
constexpr double courtesy = 2, elsewhere = 2;

bool is_gone(int process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

std::string listed(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

/// What a rank shows to its node.
struct Watchdog::RankStatus {
  Heartbeat heart;
  std::atomic<std::uint64_t> turns{0};  ///< turns of its watchdog
  std::atomic<double> median{0};        ///< median seconds of its steps
  std::atomic<bool> patient{false};
  std::atomic<bool> idle{true};       ///< nothing is expected of it but that its process goes on
  std::atomic<bool> left{false};      ///< it is done, or has said itself what is wrong
  std::atomic<bool> reported{false};  ///< it has reported a fault: all leave
  std::atomic<int> asked_by{0};       ///< the signal that asks it to stop; 0: none has come
  int rank = 0, process = 0;          ///< rank: among all ranks
  std::int64_t group = 0;             ///< lowest rank of its group
  std::uint64_t process_namespace = 0;

  RunPhase phase() const { return static_cast<RunPhase>(heart.phase.load(std::memory_order_relaxed)); }
};

/// What a watchdog knows of a rank of its node.
struct Watchdog::PeerView {
  RankStatus* status = nullptr;
  std::uint64_t beats = 0, turns = 0;  ///< as last seen
  double still = 0, stopped = 0;       ///< seconds since beats, and turns, have changed
  bool idle = false, waits = false, uses_files = false, died = false;
};

Watchdog::Watchdog(const Communicator& ranks, const Communicator& group, std::optional<double> timeout)
    : ranks_(ranks),
      group_(group),
      sees_group_(group.size() == 1),
      sees_all_(ranks.size() == 1),
      timeout_(timeout),
      host_(host_name()) {
  allow_stack_trace();
  const Communicator machine = ranks.on_this_node();
  if (machine.size() > 1) memory_ = NodeMemory::make(machine, sizeof(RankStatus));
  if (memory_) {
    sees_all_ = machine.size() == ranks.size();
    me_ = static_cast<std::size_t>(machine.rank());
    for (int peer = 0; peer < machine.size(); ++peer)
      peers_.push_back({.status = reinterpret_cast<RankStatus*>(memory_->part(peer))});
    new (peers_[me_].status) RankStatus;
  } else {
    own_ = std::make_unique<RankStatus>();
    peers_.push_back({.status = own_.get()});
  }
  RankStatus& mine = *peers_[me_].status;
  mine.rank = ranks.rank();
  mine.process = ::getpid();
  mine.process_namespace = lockstep::process_namespace();
  mine.group = group.all_reduce_min(std::int64_t{ranks.rank()});
  if (memory_) machine.barrier();
  sees_group_ = std::ranges::count_if(peers_, [this](const PeerView& peer) { return is_of_group(peer); }) ==
                group.size();
  before_ = &heartbeat();
  thread_ = std::thread([this] { watch(); });
  move_heartbeat(&mine.heart);  // last: nothing that may fail follows
}

Watchdog::~Watchdog() {
  peers_[me_].status->left = true;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (&heartbeat() == &peers_[me_].status->heart) move_heartbeat(before_);
}

Watchdog::Run::Run(Watchdog* shared, const Communicator& ranks, std::optional<double> timeout)
    : own_(shared ? nullptr : std::make_unique<Watchdog>(ranks, ranks, timeout)), watchdog_(shared ? *shared : *own_) {
  RankStatus& mine = *watchdog_.peers_[watchdog_.me_].status;
  mine.heart.step = 0;
  mine.heart.bucket = -1;
  mine.median = 0;
  mine.patient = false;
  mine.heart.enter(static_cast<std::int32_t>(RunPhase::set_up));
  mine.idle = false;
}

Watchdog::Run::~Run() {
  watchdog_.set_idle(true);
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.node_liveness_.reset();
}

void Watchdog::set_shared_folder(const std::filesystem::path& folder) {
  if (sees_group_) return;
  const auto first = std::ranges::find_if(peers_, [this](const PeerView& peer) { return is_of_group(peer); });
  std::optional<NodeLiveness> made = NodeLiveness::make(group_, ranks_.rank(), first->status->rank, folder);
  const std::lock_guard lock(mutex_);
  node_liveness_ = std::move(made);
}

void Watchdog::median_step(double seconds) { peers_[me_].status->median = seconds; }
void Watchdog::set_idle(bool idle) { peers_[me_].status->idle = idle; }
void Watchdog::set_patient(bool patient) { peers_[me_].status->patient = patient; }

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  for (auto before = Clock::now();;) {
    if (changed_.wait_for(lock, turn, [this] { return done_; })) return;
    const auto now = Clock::now();
    try {
      look(std::min(std::chrono::duration<double>(now - before).count(), longest_turn));
    } catch (const std::exception& error) {  // a hang may come with a lack of memory
      write_unbuffered("a rank hangs or has died, and its report failed:");
      write_unbuffered(error.what());
      end_all();
    }
    before = now;
  }
}

void Watchdog::look(double seconds) {
  RankStatus& mine = *peers_[me_].status;
  mine.turns.fetch_add(1, std::memory_order_relaxed);
  mine.asked_by = StopRequest::signal_number();
  acknowledge_signal();
  for (PeerView& peer : peers_) {
    const RankStatus& status = *peer.status;
    if (status.reported) std::_Exit(static_cast<int>(ExitStatus::rank_lost));
    if (const int signal = status.heart.ends_by) end_by_signal(signal);
    // Read before the beats, because a rank beats before its wait is over: a rank that is not seen to wait has been
    // seen to beat.
    peer.idle = status.idle;
    peer.waits = status.heart.waits.load(std::memory_order_acquire) > 0;
    peer.uses_files = status.heart.files.load(std::memory_order_acquire) > 0;
    const std::uint64_t beats = status.heart.beats.load(std::memory_order_acquire), turns = status.turns;
    peer.still = beats == peer.beats && !peer.idle ? peer.still + seconds : 0;
    peer.stopped = turns == peer.turns ? peer.stopped + seconds : 0;
    peer.beats = beats, peer.turns = turns;
    const bool visible = mine.process_namespace != 0 && status.process_namespace == mine.process_namespace;
    peer.died = visible && !status.left &&
                (peer.stopped >= suspicious_after ? process_has_ended(status.process) : is_gone(status.process));
  }
  Finding finding = judge();
  since_finding_ = finding.fault == Fault::none ? 0 : since_finding_ + seconds;
  const bool reports = finding.fault != Fault::none && is_reporter(finding);
  if (node_liveness_) node_liveness_->waits(all_wait() && is_reporter({Fault::waits_for_others, me_}));
  if (!reports || (finding.fault == Fault::waits_for_others && !sees_group_ && !gives_up(finding))) return;
  write_unbuffered(report(finding));
  if (finding.fault != Fault::died && peers_[finding.peer].status->heart.beats != peers_[finding.peer].beats) {
    write_unbuffered("… but it continues now, and so does the run");
    return;
  }
  end_all();
}

/// A step may take minutes, and whoever sends a signal wants to know that it has come. A run's rank 0 speaks for its
/// node.
void Watchdog::acknowledge_signal() {
  if (has_acknowledged_ || !group_.is_root() || peers_[me_].status->idle) return;
  const auto asked = std::ranges::find_if(
      peers_, [this](const PeerView& peer) { return is_of_group(peer) && peer.status->asked_by != 0; });
  if (asked == peers_.end()) return;
  has_acknowledged_ = true;
  log("{} at rank {}: the run stops at a checkpoint after this step; a second signal ends it at once, without one",
      StopRequest::name_of(asked->status->asked_by), asked->status->rank);
}

void Watchdog::end_all() {
  peers_[me_].status->reported = true;
  std::this_thread::sleep_for(2 * turn);  // the others leave first, or they would take this rank for dead
  if (!sees_all_) {
    // If MPI_Abort hangs, this process leaves all the same, upon which the launcher ends the ranks of other nodes.
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::duration<double>(courtesy));
      std::_Exit(static_cast<int>(ExitStatus::rank_lost));
    }).detach();
    ranks_.abort(ExitStatus::rank_lost);
  }
  std::_Exit(static_cast<int>(ExitStatus::rank_lost));
}

bool Watchdog::is_of_group(const PeerView& peer) const { return peer.status->group == peers_[me_].status->group; }

bool Watchdog::takes_long(const PeerView& peer) const {
  const RankStatus& status = *peer.status;
  const RunPhase phase = status.phase();
  return phase == RunPhase::set_up || phase == RunPhase::checkpoint || status.median == 0 || status.patient;
}

double Watchdog::plain_limit(const PeerView& peer) const {
  if (peer.idle) return std::max(timeout_.value_or(least_timeout), stopped_after);
  const RunPhase phase = peer.status->phase();
  const bool uses_files = phase == RunPhase::data || phase == RunPhase::evaluation || peer.uses_files;
  const double least = uses_files ? least_file_timeout : least_timeout;
  return timeout_.value_or(std::max(least, median_steps * peer.status->median));
}

double Watchdog::limit(const PeerView& peer) const { return plain_limit(peer) * (takes_long(peer) ? patience : 1); }

bool Watchdog::all_wait() const {
  bool found = false;
  for (const PeerView& peer : peers_) {
    if (peer.status->left || peer.idle || peer.died || !is_of_group(peer)) continue;
    if (!peer.waits || peer.stopped >= stopped_after || peer.still <= plain_limit(peer)) return false;
    found = true;
  }
  return found && timeout_ != 0;
}

bool Watchdog::gives_up(Finding& finding) const {
  const PeerView& peer = peers_[finding.peer];
  // Ranks of other nodes may wait for a file system, which cannot be seen from here.
  const double least = timeout_ ? 0 : least_file_timeout;
  const double most = std::max(least, limit(peer) * (node_liveness_ && !takes_long(peer) ? elsewhere : patience)) +
                      courtesy;
  if (peer.still <= most) return false;
  const bool in_any_case = peer.still > most + own_report;
  const std::optional<NodeLiveness::Answer> answer = node_liveness_ ? node_liveness_->ask(in_any_case) : std::nullopt;
  if (answer) finding.missed = answer->silent;
  return !answer || answer->speaks || in_any_case;
}

Watchdog::Finding Watchdog::judge() const {
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].died && !ranks_survive()) return {Fault::died, i};
  if (timeout_ && *timeout_ == 0) return {};

  Finding blamed, waiting;
  bool all_wait = true;  // of the group's ranks of which something is expected
  const auto step = [&](std::size_t i) { return peers_[i].status->heart.step.load(std::memory_order_relaxed); };
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const PeerView& peer = peers_[i];
    if (peer.status->left || peer.died) continue;
    if (peer.idle) {  // its main thread may do anything, but its watchdog takes its turns
      if (peer.stopped > plain_limit(peer) && blamed.fault == Fault::none) blamed = {Fault::stands_still, i};
      continue;
    }
    const double most = limit(peer);
    if (!peer.waits || peer.stopped >= stopped_after) {
      if (is_of_group(peer)) all_wait = false;
      // Of several that stand still, the one in the earliest step is blamed.
      if (peer.still > most && (blamed.fault == Fault::none || step(i) < step(blamed.peer)))
        blamed = {Fault::stands_still, i};
    } else if (!is_of_group(peer)) {
      continue;
    } else if (peer.still > most + courtesy) {
      if (waiting.fault == Fault::none || peer.still > peers_[waiting.peer].still)
        waiting = {Fault::waits_for_others, i};
    } else {
      all_wait = false;
    }
  }
  if (blamed.fault != Fault::none) return blamed;
  return all_wait ? waiting : Finding{};
}

/// The rank that is to blame reports, if it can, because it knows most about itself; else the first rank that can.
bool Watchdog::is_reporter(const Finding& finding) const {
  const PeerView& blamed = peers_[finding.peer];
  if (finding.fault == Fault::stands_still) {
    if (finding.peer == me_) return true;
    if (blamed.stopped < stopped_after && since_finding_ < own_report) return false;
  }
  for (std::size_t i = 0; i < me_; ++i) {
    const PeerView& peer = peers_[i];
    if (finding.fault == Fault::waits_for_others && !is_of_group(peer)) continue;
    const bool is_still = finding.fault == Fault::stands_still && i == finding.peer;
    if (!peer.died && !peer.status->left && peer.stopped < stopped_after && !is_still) return false;
  }
  return true;
}

std::string Watchdog::report(const Finding& finding) const {
  const auto doing = [](const RankStatus& status) {
    if (status.idle) return std::string("between two runs");
    const auto phase = static_cast<std::size_t>(status.phase());
    const std::int64_t step = status.heart.step;
    const std::int32_t bucket = status.heart.bucket;
    return fmt::format("in '{}'{}{}", phase_names[phase], step > 0 ? fmt::format(" of step {}", step) : "",
                       bucket >= 0 ? fmt::format(", bucket {} of the gradients", bucket) : "");
  };
  const auto since = [](const RankStatus& status) {
    const std::chrono::nanoseconds beat(status.heart.since_ns.load(std::memory_order_relaxed));
    return std::chrono::duration<double>(Clock::now().time_since_epoch() - beat).count();
  };
  const PeerView& peer = peers_[finding.peer];
  const RankStatus& status = *peer.status;
  const std::string who = fmt::format("rank {} on {} (process {})", status.rank, host_, status.process);

  std::map<std::string, std::vector<int>> waiting;
  for (std::size_t i = 0; i < peers_.size(); ++i)
    if (i != finding.peer && !peers_[i].status->left)
      waiting[doing(*peers_[i].status)].push_back(peers_[i].status->rank);
  std::vector<std::string> others;
  for (const auto& [where, ranks] : waiting) others.push_back(fmt::format("{} {}", listed(ranks), where));
  const std::string waits = others.empty() ? "" : fmt::format("; meanwhile {}", fmt::join(others, ", "));
  constexpr const char* advice = "start again: the run continues from its last checkpoint";

  switch (finding.fault) {
    case Fault::died:
      return fmt::format("{} has died {}{}; look for its last output above, and {}", who, doing(status), waits, advice);
    case Fault::waits_for_others: {
      std::vector<std::string> missed;
      for (const auto& [host, ranks] : finding.missed.value_or(std::vector<NodeLiveness::Node>()))
        missed.push_back(fmt::format("{} on {}", listed(ranks), host));
      const std::string whom =
          !missed.empty() ? fmt::format(
                                "no sign of life from {} (stopped, cut off, or busy for longer than run.hang_timeout "
                                "allows)",
                                fmt::join(missed, ", "))
          : sees_group_ || finding.missed ? "all ranks wait for each other"
                                          : "the rank that they wait for cannot be seen from here";
      return fmt::format("{} has waited for {} {}{}: {}; {}", who, duration_text(since(status)), doing(status), waits,
                         whom, advice);
    }
    default: break;
  }
  const bool idle = peer.idle;
  const std::string what = idle ? "silent " + doing(status) : doing(status);
  const double seconds = idle ? peer.stopped : since(status);
  const std::string state = process_field(status.process, 3);
  const bool stopped = finding.peer != me_ && (state == "T" || state == "t");
  const std::string stack = finding.peer == me_ ? stack_trace() : "";
  return fmt::format("{} has been {} for {}, longer than run.hang_timeout allows{}{}; {}{}", who, what,
                     duration_text(seconds), stopped ? " (stopped by SIGSTOP or a debugger)" : "", waits, advice,
                     stack.empty() ? "" : fmt::format("\nstack of rank {}:\n{}", status.rank, stack));
}

}  // namespace lockstep
