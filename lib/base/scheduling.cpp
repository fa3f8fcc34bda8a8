// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/scheduling.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace lockstep {
namespace {

/// The file schedstat holds the thread's time on a core, its time waiting for one (both in ns) and a count of time
/// slices.
class CoreStatistics {
 public:
  CoreStatistics() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~CoreStatistics() {
    if (file_ >= 0) ::close(file_);
  }
  CoreStatistics(const CoreStatistics&) = delete;
  CoreStatistics& operator=(const CoreStatistics&) = delete;

  std::chrono::nanoseconds waited() const {
    std::array<char, 96> text{};
    if (file_ < 0 || ::pread(file_, text.data(), text.size() - 1, 0) <= 0) return {};
    char* rest = nullptr;
    std::strtoull(text.data(), &rest, 10);
    return std::chrono::nanoseconds(std::strtoull(rest, nullptr, 10));
  }

 private:
  int file_;
};

}  // namespace

void schedule_as_batch() {
  const sched_param priority{};
  ::sched_setscheduler(0, SCHED_BATCH, &priority);  // failure is harmless: runs that share cores are slower
}

std::chrono::nanoseconds waited_for_core() {
  thread_local const CoreStatistics statistics;
  return statistics.waited();
}

}  // namespace lockstep
