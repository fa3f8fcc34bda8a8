// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/surviving_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "comm/surviving_ranks.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {
namespace {

/// Throws KeyError if ranks cannot outlive each other.
void check_survival(int ranks) {
  if (ranks == 1) return;
  const std::string hindrance = SurvivingRanks::hindrance();
  validate_key(hindrance.empty(), "parallel.survive", "{}, or leave survive out", hindrance);
  validate_key(!is_a_device, "parallel.survive",
               "all-reduces on devices may wait for a lost rank inside kernels, which cannot be interrupted (this "
               "program computes on {}); leave survive out, and start again from the last checkpoint",
               ExecSpace::name());
}

class SurvivingRun {
 public:
  explicit SurvivingRun(const Communicator& all) : survivors_(all) {}

  /// Whether all ranks have come to the end of an attempt, and none is lost. Collective.
  bool all_are_done(bool done) { return survivors_.all_are_done(done); }

  const Communicator& ranks() const { return survivors_.ranks(); }
  EarlierAttempts& earlier() { return earlier_; }

  /// Notes that an attempt has stopped because it was asked to, and has said so: a rank that is lost after that is no
  /// reason to go on.
  void note_stop() { has_stopped_ = true; }
  bool has_stopped() const { return has_stopped_; }

  /// Goes on without the ranks that are lost. `step`: the step that this rank was in.
  void drop_lost_after_step(std::int64_t step) {
    step_ = std::max(step_, step);
    for (SurvivingRanks::Lost& lost : survivors_.drop_lost()) {
      earlier_.lost_ranks.push_back(lost.rank);
      unsaid_.push_back(std::move(lost));
    }
  }

  /// Logs which ranks are lost, and agrees on what has happened so far. Collective.
  void say_who_is_lost() {
    if (unsaid_.empty()) return;
    enable_log(ranks().is_root());
    earlier_.has_begun = ranks().any_rank(earlier_.has_begun);
    has_stopped_ = ranks().any_rank(has_stopped_);
    const std::int64_t step = ranks().all_reduce_max(step_);
    std::vector<std::string> who;
    for (const auto& [rank, host] : unsaid_) who.push_back(fmt::format("rank {} on {}", rank, host));
    warn("{} {} lost{}; {} left, and {} from the newest checkpoint, or from the beginning if there is none",
         fmt::join(who, ", "), who.size() == 1 ? "is" : "are", step > 0 ? fmt::format(" in step {}", step) : "",
         ranks().size() == 1 ? "1 rank is" : fmt::format("{} ranks are", ranks().size()),
         ranks().size() == 1 ? "continues" : "continue");
    unsaid_.clear();
    step_ = 0;
  }

 private:
  SurvivingRanks survivors_;
  EarlierAttempts earlier_;
  std::vector<SurvivingRanks::Lost> unsaid_;
  std::int64_t step_ = 0;
  bool has_stopped_ = false;
};

/// Ends all ranks with an error that all of them have. The first of them reports it, which ends the others. They wait
/// for that, since launchers might end the first one while it reports if another left before with a status of its own.
[[noreturn]] void end_with(const SharedError& error, const Communicator& ranks) {
  if (ranks.is_root()) throw Error(error.status(), error.what());
  try {
    ranks.barrier();
  } catch (const RankLost&) {  // rank 0 has reported and left: that is what this rank waits for
  }
  throw error;
}

}  // namespace

ExitStatus train_surviving(const RunConfig& config, const Communicator& all,
                           const std::function<Communicator(const Communicator&)>& over_network) {
  all.run_collectively([&] { with_positions(config.source, [&] { check_survival(all.size()); }); });
  std::optional<SurvivingRun> survivors;
  try {
    survivors.emplace(all);
  } catch (const RankLost&) {
    throw Error(ExitStatus::rank_lost, "a rank died before the run began; look for its last output above");
  }
  for (;;) {
    std::optional<Communicator> ranks;
    std::optional<TrainingRun> run;
    ExitStatus status = ExitStatus::done;
    std::optional<SharedError> failure;
    bool done = false;
    try {
      survivors->say_who_is_lost();
      ranks = over_network(survivors->ranks());
      if (survivors->has_stopped()) return ExitStatus::stopped_early;
      run.emplace(config, *ranks, nullptr, &survivors->earlier());
      status = run->run();
      if (status == ExitStatus::stopped_early && ranks->is_root()) survivors->note_stop();
      done = true;
    } catch (const RankLost&) {  // `done` stays false: the survivors drop the lost rank below, and try again
    } catch (const SharedError& error) {
      failure = error;
      done = true;
    }
    const std::int64_t step = heartbeat().step;
    run.reset();
    ranks.reset();
    if (!survivors->all_are_done(done)) {
      survivors->drop_lost_after_step(step);
    } else if (failure) {
      if (!ranks_were_lost()) throw *failure;
      end_with(*failure, survivors->ranks());
    } else {
      return status;
    }
  }
}

}  // namespace lockstep
