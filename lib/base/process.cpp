// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

const auto start = std::chrono::steady_clock::now();

}  // namespace

std::chrono::steady_clock::time_point process_start() { return start; }

double seconds_since_process_start() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  if (!(statm >> total >> resident)) return peak_rss_bytes();
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;  // Linux counts in KiB
}

}  // namespace lockstep
