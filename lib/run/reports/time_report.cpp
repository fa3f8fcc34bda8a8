// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/reports/time_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "base/timer.hpp"
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
  TrainingRun run(passing, comm);
  PhaseClock& clock = run.trainer().clock();
  const auto passed = [&] {
    clock.catch_up();
    return TimedStep{.forward = clock.seconds(StepPhase::forward),
                     .backward = clock.seconds(StepPhase::backward),
                     .optimizer = clock.seconds(StepPhase::optimizer)};
  };
  TimedSteps timed{.all = run.total_steps()};
  const Timer all;
  while (timed.steps.size() < least || all.seconds() < seconds) {
    const TimedStep before = passed();
    const Timer timer;
    run.step();
    ExecSpace().fence("lockstep::step");
    const double total = timer.seconds();
    const TimedStep after = passed();
    timed.steps.push_back(
        {total, after.forward - before.forward, after.backward - before.backward, after.optimizer - before.optimizer});
  }
  return timed;
}

std::string time_report(const RunConfig& config, const Communicator& comm) {
  TimedSteps three = timed_steps(config, comm, 3);
  std::ranges::sort(three.steps, {}, &TimedStep::total);
  const double seconds = three.steps[1].total;
  return fmt::format(
      "time                 {} for {} steps of {} ms (the median of three, on {}), without evaluations and checkpoints\n",
      duration_text(seconds * static_cast<double>(three.all)), three.all, milliseconds_text(seconds, 4),
      counted(comm.size(), "rank"));
}

}  // namespace lockstep
