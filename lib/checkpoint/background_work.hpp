// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <future>

namespace lockstep {

/// Work on a copy of the state while steps go on: a thread makes the copy, and then works. One at a time.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  /// Waits for the work.
  ~BackgroundWork() {
    wait([] {});
  }

  /// Returns at once; where it may be no thread, or none is to be had, when all is done. Neither of the two may throw.
  void start(bool in_thread, std::function<void()> copy, std::function<void()> work);
  /// Until the state may change.
  void wait_for_copy();
  /// Until nothing is worked on. `each_second`: called meanwhile.
  void wait(const std::function<void()>& each_second);

 private:
  std::future<void> copied_, done_;
};

}  // namespace lockstep
