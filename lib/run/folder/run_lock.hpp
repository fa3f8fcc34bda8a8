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

/// A run's or a study's claim to its folder: a file `lock` that names the process that writes there, so that no other
/// does. It works on any file system, also between hosts: the holder sets the file's time every 10 seconds, and a lock
/// that has not changed for 60 seconds is free; the lock of a process of this host is free as soon as that process has
/// ended. A holder that was suspended for that long and goes on finds out and ends, even if the other run has ended
/// meanwhile; so does one of two processes that have taken over a stale lock at the same moment. A lock that somebody
/// has removed by hand is made again.
class RunLock {
 public:
  /// What claims a folder, and the keys that give it another one.
  struct Owner {
    const char *name, *folder_key, *name_key;
  };
  static constexpr Owner run{"run", "run.output_dir", "run.name"}, study{"study", "output_dir", "name"};

  /// Claims an existing folder. Throws cannot_create, naming the holder, if another process holds it. Waits for up to a
  /// minute if it cannot know whether the holder is still alive; throws stopped_early if a signal comes meanwhile.
  explicit RunLock(const std::filesystem::path& folder, const Owner& owner = run);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  /// Releases the claim.
  ~RunLock();

  /// Looks at the file. Throws cannot_create if another process has taken it, as after this one was suspended for
  /// minutes.
  void require();
  /// Like `require`, but by the last look at the file, at most 10 seconds ago.
  void require_lately() const;

  static constexpr const char* file_name = "lock";

 private:
  using Clock = std::chrono::steady_clock;

  void refresh();
  /// Looks at the file, and either renews its time or finds that the folder is another process's.
  void look();

  std::filesystem::path path_;
  Owner owner_;
  std::string claim_;  ///< contents of the file
  std::atomic<bool> lost_ = false;
  std::atomic<Clock::time_point> seen_{};  ///< when the file was last found to be this process's
  std::mutex looking_;
  std::mutex mutex_;  // guards done_
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last member: the thread uses all others
};

}  // namespace lockstep
