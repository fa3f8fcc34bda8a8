// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/own_steps.hpp"

#include <cmath>
#include <utility>

namespace lockstep {

void count_done(const ExecSpace& space, double count, const std::int32_t* left_out, double* sum) {
  Kokkos::parallel_for(
      "lockstep::count_done", RangePolicy(space, 0, 1),
      KOKKOS_LAMBDA(const std::int64_t) { *sum += *left_out != 0 ? 0.0 : count; });
}

OwnSteps::OwnSteps(const Communicator& ranks) : ranks_(ranks), next_("lockstep::own_steps::next", DType::f64, {1}) {}

void OwnSteps::begin(const ExecSpace& space, const Communicator& alike, std::int64_t steps) {
  alike.broadcast(space, next_.get());
  const double next = f64_on_host(space, next_.get());
  set(space, next == 0 ? static_cast<double>(steps + 1) : std::round(next));
}

void OwnSteps::add(const ExecSpace& space, const std::int32_t* left_out) const {
  count_done(space, 1, left_out, next_.get().as<double>());
}

void OwnSteps::look(const ExecSpace& space) {
  copy_.start(space, next_.get().as<double>());
  is_on_its_way_ = true;
}

std::int64_t OwnSteps::done() {
  if (std::exchange(is_on_its_way_, false)) seen_ = copy_.take();
  return static_cast<std::int64_t>(seen_) - 1;
}

void OwnSteps::set(const ExecSpace& space, double next) {
  copy_from_host(space, &next, next_.get());
  seen_ = next;
  is_on_its_way_ = false;
}

void add_next_step(const Tensor& next, bool has_it, std::optional<ShardedState::Replica> replica,
                   std::vector<ShardedState>& all) {
  Parameter number{};
  number.name = next_step_array;
  number.shape = {1};
  number.range = {0, 1};
  all.push_back(state_of_one_rank(next_step_state, std::vector{number}, next, has_it));
  all.back().replica = replica;
  all.back().is_optional = true;
}

}  // namespace lockstep
