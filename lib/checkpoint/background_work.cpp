// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "checkpoint/background_work.hpp"

#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include "comm/surviving_ranks.hpp"

namespace lockstep {

void BackgroundWork::start(bool in_thread, std::function<void()> copy, std::function<void()> work) {
  const auto copied = std::make_shared<std::promise<void>>();
  copied_ = copied->get_future();
  const auto all = [copy = std::move(copy), work = std::move(work), copied] {
    copy();
    copied->set_value();
    work();
  };
  if (!in_thread) return all();
  try {
    done_ = std::async(std::launch::async, [all] {
      try {
        all();
      } catch (const RankLost&) {  // found also by the thread of steps, which deals with it
      }
    });
  } catch (const std::system_error&) {
    all();
  }
}

void BackgroundWork::wait_for_copy() {
  if (copied_.valid()) copied_.get();
}

void BackgroundWork::wait(const std::function<void()>& each_second) {
  if (!done_.valid()) return;
  while (done_.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) each_second();
  done_.get();
}

}  // namespace lockstep
