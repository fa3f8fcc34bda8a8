// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/reports/reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/duration.hpp"
#include "base/median.hpp"
#include "base/text.hpp"
#include "run/training/training_run.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// A temporary folder that rank 0 makes, and removes with its contents.
class PassingFolder {
 public:
  explicit PassingFolder(const Communicator& comm) : is_mine_(comm.is_root()) {
    comm.run_collectively([&] {
      if (!is_mine_) return;
      std::error_code code;
      std::string name = (fs::temp_directory_path(code) / "lockstep-check-XXXXXX").string();
      if (!code && ::mkdtemp(name.data()) == nullptr) code.assign(errno, std::generic_category());
      validate(!code, ExitStatus::io_error, "{}: cannot be created ({}); set TMPDIR to another folder", name,
               code.message());
      path_ = name;
    });
    comm.broadcast(path_);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  ~PassingFolder() {
    std::error_code ignored;
    if (is_mine_) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  bool is_mine_;
  std::string path_;
};

}  // namespace

TimedSteps timed_steps(const RunConfig& config, const Communicator& comm, std::size_t least, double seconds) {
  const PassingFolder folder(comm);
  RunConfig passing = config;
  passing.run.output_dir = folder.path();
  passing.run.resume = "never";
  passing.run.wall_time.clear();
  passing.checkpoint = {};
  passing.parallel.leave_record_out();  // the record may be that of the deck's own run
  const bool several_at_once = config.parallel.has_workers() || config.parallel.asynchronous.present;
  // Such ranks do all steps up to a row at once.
  if (several_at_once) passing.run.log_every = std::min<std::int64_t>(config.run.log_every, 10);
  TrainingRun run(passing, comm);
  PhaseClock& clock = run.trainer().clock();
  const auto passed = [&] {
    clock.catch_up();
    return TimedStep{.forward = clock.seconds(RunPhase::forward),
                     .backward = clock.seconds(RunPhase::backward),
                     .optimizer = clock.seconds(RunPhase::optimizer)};
  };
  TimedSteps timed{.all = run.total_steps()};
  const Timer all;
  while (timed.steps.size() < least || all.seconds() < seconds) {
    const std::int64_t steps_before = run.trainer().steps();
    if (several_at_once && steps_before >= timed.all) break;
    const TimedStep before = passed();
    const Timer timer;
    run.step();
    ExecSpace().fence("lockstep::step");
    const double total = timer.seconds();
    const TimedStep after = passed();
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, run.trainer().steps() - steps_before));
    timed.steps.push_back({total / steps, (after.forward - before.forward) / steps,
                           (after.backward - before.backward) / steps, (after.optimizer - before.optimizer) / steps});
  }
  return timed;
}

std::string time_report(const RunConfig& config, const Communicator& comm) {
  const TimedSteps timed = timed_steps(config, comm, 3);
  std::vector<double> totals;
  for (const TimedStep& step : timed.steps) totals.push_back(step.total);
  const double seconds = median(totals);
  return fmt::format(
      "time                 {} for {} steps of {} ms (the median of {}, on {}), without evaluations and checkpoints\n",
      duration_text(seconds * static_cast<double>(timed.all)), timed.all, milliseconds_text(seconds, 4), totals.size(),
      counted(comm.size(), "rank"));
}

}  // namespace lockstep
