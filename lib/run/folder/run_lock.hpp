// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep {

/// A run's claim to its folder: a file `lock` that says who writes there, so that nobody else does. On any file system,
/// also between hosts: whoever holds it sets the file's time every 10 seconds, and a lock that has not changed for 60
/// is nobody's any more; that of a process of this host is so as soon as the process has ended. (One that was suspended
/// for so long, and goes on, finds out, and ends, also where the other run has come to its end meanwhile. A lock that
/// somebody has removed by hand is made again.)
class RunLock {
 public:
  /// Claims a folder that is there. Throws cannot_create, naming the holder, where another process holds it; waits for
  /// up to a minute where it cannot know whether that one is still there: stopped_early where a signal comes meanwhile.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  /// Gives it up.
  ~RunLock();

  /// Throws cannot_create where another process has taken it, as after this one was suspended for minutes. Looks at the
  /// file.
  void require();
  /// As `require`, by what the last look at the file has shown, at most 10 seconds ago.
  void require_lately() const;

  static constexpr const char* file_name = "lock";
  /// Whether a file of this folder was left by a process that has been killed while it asked for the lock, which this
  /// process holds.
  static bool is_leftover(const std::filesystem::path& file);

 private:
  using Clock = std::chrono::steady_clock;

  void acquire();
  void refresh();
  /// At the file: shows a sign of life, or finds that the folder is another's.
  void look();

  std::filesystem::path path_;
  std::string claim_;  ///< what stands in the file
  std::atomic<bool> lost_ = false;
  std::atomic<Clock::time_point> seen_{};  ///< when the file was last this process's
  std::mutex looking_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: starts when all else stands
};

}  // namespace lockstep
