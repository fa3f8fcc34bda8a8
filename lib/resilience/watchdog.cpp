// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "resilience/watchdog.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "base/stack_trace.hpp"
#include "train/phase_clock.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto turn = std::chrono::milliseconds(250);
/// What a turn counts at most: one that took longer was suspended, with all that it watches.
constexpr double longest_turn = 1;
/// A rank whose watchdog has stood still for so long is looked at more closely; for this long: is stopped itself.
constexpr double suspicious_after = 0.5;
constexpr double stopped_after = 2;
/// How long a rank that is to blame has to report itself, which it can do better than others.
constexpr double own_report = 3;
constexpr double least_timeout = 30, median_steps = 10;
/// File systems may stand still for minutes while one of their servers takes over from another.
constexpr double least_data_timeout = 300;
/// Set-up reads files, and checkpoints write them; the first step makes what all others find there.
constexpr double patience = 10;
/// Ranks that wait for somebody elsewhere leave it to those who can name him, and give him time: he may show signs of
/// life there.
constexpr double courtesy = 2, elsewhere = 2;

bool is_gone(int process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

std::string listed(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

/// What a rank shows its node.
struct Watchdog::Post {
  Heartbeat heart;
  std::atomic<std::uint64_t> turns{0};  ///< of its watchdog
  std::atomic<double> median{0};        ///< of its steps, seconds
  std::atomic<bool> patient{false};
  std::atomic<bool> idle{false};      ///< nothing is expected of it
  std::atomic<bool> left{false};      ///< it is done, or has said itself what is wrong
  std::atomic<bool> reported{false};  ///< a hang: all leave
  int rank = 0, process = 0;          ///< rank: of all
  std::uint64_t process_namespace = 0;

  StepPhase phase() const { return static_cast<StepPhase>(heart.phase.load(std::memory_order_relaxed)); }
};

/// What a watchdog knows of one of them.
struct Watchdog::Mate {
  Post* post = nullptr;
  std::uint64_t beats = 0, turns = 0;  ///< last seen
  double still = 0, stopped = 0;       ///< seconds since they have changed
  bool idle = false, waits = false, died = false;
};

Watchdog::Watchdog(const Communicator& ranks, std::optional<double> timeout)
    : ranks_(ranks), sees_all_(ranks.size() == 1), timeout_(timeout), host_(host_name()) {
  allow_stack_trace();
  const Communicator machine = ranks.on_this_node();
  if (machine.size() > 1) memory_ = NodeMemory::make(machine, sizeof(Post));
  if (memory_) {
    sees_all_ = machine.size() == ranks.size();
    me_ = static_cast<std::size_t>(machine.rank());
    for (int mate = 0; mate < machine.size(); ++mate)
      mates_.push_back({.post = reinterpret_cast<Post*>(memory_->part(mate))});
    new (mates_[me_].post) Post;
  } else {
    own_ = std::make_unique<Post>();
    mates_.push_back({.post = own_.get()});
  }
  Post& mine = *mates_[me_].post;
  mine.rank = ranks.rank();
  mine.process = ::getpid();
  mine.process_namespace = lockstep::process_namespace();
  if (memory_) machine.barrier();
  before_ = &heartbeat();
  move_heartbeat(&mine.heart);
  heartbeat().enter(static_cast<std::int32_t>(StepPhase::set_up));
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  mates_[me_].post->left = true;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (&heartbeat() == &mates_[me_].post->heart) move_heartbeat(before_);
}

void Watchdog::meet_in(const std::filesystem::path& folder) {
  if (sees_all_) return;
  std::optional<RollCall> made = RollCall::make(ranks_, mates_.front().post->rank, folder);
  const std::lock_guard lock(mutex_);
  roll_call_ = std::move(made);
}

void Watchdog::median_step(double seconds) { mates_[me_].post->median = seconds; }
void Watchdog::rest(bool idle) { mates_[me_].post->idle = idle; }
void Watchdog::be_patient(bool patient) { mates_[me_].post->patient = patient; }

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  for (auto before = Clock::now();;) {
    if (changed_.wait_for(lock, turn, [this] { return done_; })) return;
    const auto now = Clock::now();
    try {
      look(std::min(std::chrono::duration<double>(now - before).count(), longest_turn));
    } catch (const std::exception& error) {  // hangs and full memories go together
      last_words("a rank hangs or has died, and its report failed:");
      last_words(error.what());
      end_all();
    }
    before = now;
  }
}

void Watchdog::look(double seconds) {
  const Post& mine = *mates_[me_].post;
  mates_[me_].post->turns.fetch_add(1, std::memory_order_relaxed);
  for (Mate& mate : mates_) {
    const Post& post = *mate.post;
    if (post.reported) std::_Exit(static_cast<int>(ExitStatus::rank_lost));
    if (post.heart.leaves_at_once) std::_Exit(static_cast<int>(ExitStatus::stopped_early));
    // Before the beats: a rank beats, and then its wait is over. Who is not seen to wait has been seen to beat.
    mate.idle = post.idle;
    mate.waits = post.heart.waits.load(std::memory_order_acquire) > 0;
    const std::uint64_t beats = post.heart.beats.load(std::memory_order_acquire), turns = post.turns;
    mate.still = beats == mate.beats && !mate.idle ? mate.still + seconds : 0;
    mate.stopped = turns == mate.turns ? mate.stopped + seconds : 0;
    mate.beats = beats, mate.turns = turns;
    const bool visible = mine.process_namespace != 0 && post.process_namespace == mine.process_namespace;
    mate.died = visible && !post.left &&
                (mate.stopped >= suspicious_after ? process_has_ended(post.process) : is_gone(post.process));
  }
  Finding finding = judge();
  since_finding_ = finding.fault == Fault::none ? 0 : since_finding_ + seconds;
  const bool reports = finding.fault != Fault::none && is_reporter(finding);
  if (roll_call_) roll_call_->waits(all_wait() && is_reporter({Fault::waits_for_others, me_}));
  if (!reports || (finding.fault == Fault::waits_for_others && !sees_all_ && !gives_up(finding))) return;
  last_words(report(finding));
  if (finding.fault != Fault::died && mates_[finding.mate].post->heart.beats != mates_[finding.mate].beats) {
    last_words("… but it goes on now, and so does the run");
    return;
  }
  end_all();
}

void Watchdog::end_all() {
  mates_[me_].post->reported = true;
  std::this_thread::sleep_for(2 * turn);  // the others leave first: this rank has not died
  if (!sees_all_) {
    // Those of other nodes: by the launcher, whatever the library waits for.
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::duration<double>(courtesy));
      std::_Exit(static_cast<int>(ExitStatus::rank_lost));
    }).detach();
    ranks_.abort(ExitStatus::rank_lost);
  }
  std::_Exit(static_cast<int>(ExitStatus::rank_lost));
}

bool Watchdog::takes_long(const Mate& mate) const {
  const Post& post = *mate.post;
  const StepPhase phase = post.phase();
  return phase == StepPhase::set_up || phase == StepPhase::checkpoint || post.median == 0 || post.patient;
}

double Watchdog::plain_limit(const Mate& mate) const {
  const StepPhase phase = mate.post->phase();
  const bool reads = phase == StepPhase::data || phase == StepPhase::evaluation;
  const double least = reads ? least_data_timeout : least_timeout;
  return timeout_.value_or(std::max(least, median_steps * mate.post->median));
}

double Watchdog::limit(const Mate& mate) const { return plain_limit(mate) * (takes_long(mate) ? patience : 1); }

bool Watchdog::all_wait() const {
  bool found = false;
  for (const Mate& mate : mates_) {
    if (mate.post->left || mate.idle) continue;
    if (!mate.waits || mate.stopped >= stopped_after || mate.still <= plain_limit(mate)) return false;
    found = true;
  }
  return found && timeout_ != 0;
}

bool Watchdog::gives_up(Finding& finding) const {
  const Mate& mate = mates_[finding.mate];
  // Those of other nodes may be waiting for data: from here nobody sees that.
  const double least = timeout_ ? 0 : least_data_timeout;
  const double most = std::max(least, limit(mate) * (roll_call_ && !takes_long(mate) ? elsewhere : patience)) +
                      courtesy;
  if (mate.still <= most) return false;
  const bool in_any_case = mate.still > most + own_report;
  const std::optional<RollCall::Answer> answer = roll_call_ ? roll_call_->ask(in_any_case) : std::nullopt;
  if (answer) finding.missed = answer->silent;
  return !answer || answer->speaks || in_any_case;
}

Watchdog::Finding Watchdog::judge() const {
  for (std::size_t i = 0; i < mates_.size(); ++i)
    if (mates_[i].died) return {Fault::died, i};
  if (timeout_ && *timeout_ == 0) return {};

  Finding blamed, waiting;
  bool all_wait = true;  // of those of which something is expected
  const auto step = [&](std::size_t i) { return mates_[i].post->heart.step.load(std::memory_order_relaxed); };
  for (std::size_t i = 0; i < mates_.size(); ++i) {
    const Mate& mate = mates_[i];
    if (mate.post->left || mate.idle) continue;
    const double most = limit(mate);
    if (!mate.waits || mate.stopped >= stopped_after) {
      all_wait = false;
      // Of several the one that is behind.
      if (mate.still > most && (blamed.fault == Fault::none || step(i) < step(blamed.mate)))
        blamed = {Fault::stands_still, i};
    } else if (mate.still > most + courtesy) {
      if (waiting.fault == Fault::none || mate.still > mates_[waiting.mate].still)
        waiting = {Fault::waits_for_others, i};
    } else {
      all_wait = false;
    }
  }
  if (blamed.fault != Fault::none) return blamed;
  return all_wait ? waiting : Finding{};
}

/// The rank that is to blame knows most of itself, where it can speak; else the first that can.
bool Watchdog::is_reporter(const Finding& finding) const {
  const Mate& blamed = mates_[finding.mate];
  if (finding.fault == Fault::stands_still) {
    if (finding.mate == me_) return true;
    if (blamed.stopped < stopped_after && since_finding_ < own_report) return false;
  }
  for (std::size_t i = 0; i < me_; ++i) {
    const Mate& mate = mates_[i];
    const bool is_still = finding.fault == Fault::stands_still && i == finding.mate;
    if (!mate.died && !mate.post->left && mate.stopped < stopped_after && !is_still) return false;
  }
  return true;
}

std::string Watchdog::report(const Finding& finding) const {
  const auto doing = [](const Post& post) {
    const auto phase = static_cast<std::size_t>(post.phase());
    const std::int64_t step = post.heart.step;
    const std::int32_t bucket = post.heart.bucket;
    return fmt::format("'{}'{}{}", phase_names[phase], step > 0 ? fmt::format(" of step {}", step) : "",
                       bucket >= 0 ? fmt::format(", bucket {} of the gradients", bucket) : "");
  };
  const auto since = [](const Post& post) {
    const std::chrono::nanoseconds beat(post.heart.since_ns.load(std::memory_order_relaxed));
    return std::chrono::duration<double>(Clock::now().time_since_epoch() - beat).count();
  };
  const Mate& mate = mates_[finding.mate];
  const Post& post = *mate.post;
  const std::string who = fmt::format("rank {} on {} (process {})", post.rank, host_, post.process);

  std::map<std::string, std::vector<int>> waiting;
  for (std::size_t i = 0; i < mates_.size(); ++i)
    if (i != finding.mate && !mates_[i].post->left) waiting[doing(*mates_[i].post)].push_back(mates_[i].post->rank);
  std::vector<std::string> others;
  for (const auto& [where, ranks] : waiting) others.push_back(fmt::format("{} in {}", listed(ranks), where));
  const std::string waits = others.empty() ? "" : fmt::format("; meanwhile {}", fmt::join(others, ", "));
  constexpr const char* advice = "start again: the run goes on from its last checkpoint";

  switch (finding.fault) {
    case Fault::died:
      return fmt::format("{} has died, in {}{}; look for its last words above, and {}", who, doing(post), waits,
                         advice);
    case Fault::waits_for_others: {
      std::vector<std::string> missed;
      for (const auto& [host, ranks] : finding.missed.value_or(std::vector<RollCall::Node>()))
        missed.push_back(fmt::format("{} on {}", listed(ranks), host));
      const std::string whom =
          !missed.empty()
              ? fmt::format("nothing is heard of {}: stopped, cut off, or longer at work than run.hang_timeout allows",
                            fmt::join(missed, ", "))
          : sees_all_ || finding.missed ? "all ranks wait for each other"
                                        : "the rank that they wait for cannot be seen from here";
      return fmt::format("{} has waited for {} in {}{}: {}; {}", who, duration_text(since(post)), doing(post), waits,
                         whom, advice);
    }
    default: break;
  }
  const std::string state = process_field(post.process, 3);
  const bool stopped = finding.mate != me_ && (state == "T" || state == "t");
  const std::string stack = finding.mate == me_ ? stack_trace() : "";
  return fmt::format("{} has been in {} for {}, longer than run.hang_timeout allows{}{}; {}{}", who, doing(post),
                     duration_text(since(post)), stopped ? " (it is stopped, by SIGSTOP or a debugger)" : "", waits,
                     advice, stack.empty() ? "" : fmt::format("\nwhere rank {} is:\n{}", post.rank, stack));
}

}  // namespace lockstep
