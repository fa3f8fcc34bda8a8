// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <future>

namespace lockstep {

/// Work on a copy of the state while steps go on: a thread makes the copy, and then does the work. One piece of work at
/// a time.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;
  /// Waits for the work.
  ~BackgroundWork() {
    wait([] {});
  }

  /// Starts the copy and then the work in a thread, and returns at once; if `in_thread` is false or no thread can be
  /// had, does both before it returns. Neither may throw.
  void start(bool in_thread, std::function<void()> copy, std::function<void()> work);
  /// Waits until the copy is made: then the state may change.
  void wait_for_copy();
  /// Waits until the work is done. `each_second` is called every second meanwhile.
  void wait(const std::function<void()>& each_second);

 private:
  std::future<void> copied_, done_;
};

}  // namespace lockstep
