// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "optim/offloaded_update.hpp"

#include <cassert>
#include <utility>

namespace lockstep {
namespace {

/// Combines the flag that kernels have left for a window with `found`, the flag of the windows before it.
void add_findings(const ExecSpace& space, bool is_first, const Tensor& found, const Tensor& nonfinite) {
  auto *const before = found.as<std::int32_t>(), *const here = nonfinite.as<std::int32_t>();
  Kokkos::parallel_for(
      "lockstep::offloaded_update::findings", RangePolicy(space, 0, 1), KOKKOS_LAMBDA(const std::int64_t) {
        *before = is_first ? *here : *before | *here;
        *here = *before;
      });
}

}  // namespace

OffloadedUpdate::OffloadedUpdate(OffloadedStates& states, const Tensor& nonfinite)
    : states_(states), nonfinite_(nonfinite), found_("lockstep::offloaded_update::found", DType::i32, {1}) {}

void OffloadedUpdate::begin(StreamedBlocks::Pass kind, const WindowWork& work) {
  assert(!is_passing());
  work_ = work;
  is_first_ = true;
  states_.blocks().begin(kind);
}

void OffloadedUpdate::work(const ExecSpace& space) {
  const auto one = [&](const StateWindow& window) {
    work_(space, window);
    add_findings(space, std::exchange(is_first_, false), found_.get(), nonfinite_);
  };
  states_.work(space, std::cref(one));
}

void OffloadedUpdate::advance_before(const ExecSpace& space, std::int64_t end) {
  while (is_passing() && states_.next().end() <= end && states_.blocks().is_here()) work(space);
}

void OffloadedUpdate::turn() {
  is_early_ = false;
  states_.blocks().turn();
}

/// While gradients are being computed, the parameters that they are computed with count as arrived.
bool OffloadedUpdate::have_arrived(const ExecSpace& space, std::int64_t first) {
  if (is_early_) return true;
  while (is_passing()) {
    if (!states_.blocks().is_here()) return states_.end_of_left() <= first;
    work(space);
  }
  return true;
}

void OffloadedUpdate::await(const ExecSpace& space, std::int64_t first) {
  while (is_passing() && !is_early_ && (first == 0 || states_.end_of_left() > first))
    work(space);  // a rank that owns nothing has end_of_left() 0
}

}  // namespace lockstep
