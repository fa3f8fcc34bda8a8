// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "resilience/abort_report.hpp"

#include <csignal>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "base/process.hpp"
#include "comm/communicator.hpp"
#include "core/device.hpp"
#include "train/phase_clock.hpp"

namespace lockstep {
namespace {

int own_rank = 0;

/// The process ends anyway, so functions that a handler must not call can do no worse than hang, which the watchdog
/// sees.
void report(int) {
  std::signal(SIGABRT, SIG_DFL);
  const Heartbeat& heart = heartbeat();
  const std::string kernel = last_kernel();
  const std::int64_t step = heart.step;
  const auto phase = phase_names[static_cast<std::size_t>(heart.phase.load())];
  write_unbuffered(fmt::format(
      "rank {} on {} aborts{}{}{}; its library's own message is above{}", own_rank, host_name(),
      heart.beats > 0 ? fmt::format(" in '{}'", phase) : "", step > 0 ? fmt::format(" of step {}", step) : "",
      kernel.empty() ? "" : fmt::format(", after kernel {} was started", kernel),
      kernel.empty()
          ? ""
          : " (with CUDA_LAUNCH_BLOCKING=1 in the environment and device.graph: off, that kernel is the one that "
            "failed)"));
  std::_Exit(static_cast<int>(ExitStatus::internal));
}

}  // namespace

void report_aborts(int rank) {
  own_rank = rank;
  std::signal(SIGABRT, report);
}

}  // namespace lockstep
