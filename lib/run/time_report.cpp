// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/time_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/duration.hpp"
#include "base/process.hpp"
#include "base/timer.hpp"
#include "run/training_run.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// A folder that rank 0 makes, and that goes away with its contents.
class PassingFolder {
 public:
  explicit PassingFolder(const Communicator& comm) : is_mine_(comm.is_root()) {
    comm.run_collectively([&] {
      if (!is_mine_) return;
      std::error_code code;
      std::string name = (fs::temp_directory_path(code) / "lockstep-check-XXXXXX").string();
      validate(!code && ::mkdtemp(name.data()) != nullptr, ExitStatus::io_error,
               "{}: cannot be made ({}); set TMPDIR to another folder", name, std::strerror(errno));
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

std::string time_report(const RunConfig& config, const Communicator& comm) {
  const PassingFolder folder(comm);
  RunConfig three_steps = config;
  three_steps.run.output_dir = folder.path();
  three_steps.run.resume = "never";
  three_steps.run.wall_time.clear();
  three_steps.checkpoint = {};
  TrainingRun run(three_steps, comm);
  double seconds[3];
  for (double& step : seconds) {
    const Timer timer;
    run.step();
    ExecSpace().fence("lockstep::step");
    step = timer.seconds();
  }
  std::ranges::sort(seconds);
  const std::int64_t steps = run.total_steps();
  return fmt::format(
      "time                 {} for {} steps of {:.4g} ms (the median of three, on {} rank{}), without evaluations and checkpoints\n",
      duration_text(seconds[1] * static_cast<double>(steps)), steps, 1e3 * seconds[1], comm.size(),
      comm.size() == 1 ? "" : "s");
}

}  // namespace lockstep
