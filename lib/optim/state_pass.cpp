// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/state_pass.hpp"

#include <cassert>

namespace lockstep {

void StatePass::begin(BlockFile::Pass kind, const WindowWork& work) {
  assert(!is_passing());
  work_ = work;
  found_ = 0;
  states_.file().begin(kind);
}

void StatePass::work(const ExecSpace& space) {
  const auto one = [&](const StateWindow& window) {
    work_(space, window);
    space.fence("lockstep::state_pass");  // then the kernels' findings are there
    found_ |= nonfinite_;
  };
  states_.work(space, std::cref(one));
  if (!is_passing()) nonfinite_ = found_;
}

void StatePass::advance_before(const ExecSpace& space, std::int64_t end) {
  while (is_passing() && states_.next().end() <= end && states_.file().is_here()) work(space);
}

void StatePass::turn() {
  is_early_ = false;
  states_.file().turn();
}

/// Who asks while gradients are being made wants parameters that these are by.
bool StatePass::have_arrived(const ExecSpace& space, std::int64_t first) {
  if (is_early_) return true;
  while (is_passing()) {
    if (!states_.file().is_here()) return states_.end_of_left() <= first;
    work(space);
  }
  return true;
}

void StatePass::await(const ExecSpace& space, std::int64_t first) {
  while (is_passing() && !is_early_ && (first == 0 || states_.end_of_left() > first))
    work(space);  // who owns nothing has an end of 0
}

}  // namespace lockstep
