// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/optimizer_step_count.hpp"

#include <cmath>

namespace lockstep {

OptimizerStepCount::OptimizerStepCount() : next_("lockstep::optimizer_step_count", DType::f64, {1}) {}

void OptimizerStepCount::note(const ExecSpace& space, std::int64_t steps) {
  const auto next = static_cast<double>(steps + 1);
  copy_from_host(space, &next, next_.get());
}

std::optional<std::int64_t> OptimizerStepCount::restored(const ExecSpace& space, const Communicator& alike) const {
  alike.broadcast(space, next_.get());
  const double next = f64_on_host(space, next_.get());
  return next == 0 ? std::nullopt : std::optional<std::int64_t>(std::llround(next) - 1);
}

void OptimizerStepCount::add_to(std::vector<ShardedState>& all, bool has_it,
                                std::optional<ShardedState::Replica> replica) const {
  Parameter number{};
  number.name = next_step_array;
  number.shape = {1};
  number.range = {0, 1};
  all.push_back(state_of_one_rank(next_step_state, std::vector{number},
                                  has_it ? next_.get() : Tensor{nullptr, DType::f64, {1}}, has_it));
  all.back().replica = replica;
  all.back().is_optional = true;
}

void OptimizerStepCount::add_with_states(std::vector<ShardedState>& all, const std::vector<Optimizer::State>& states,
                                         bool has_them, ShardedState::Replica replica) const {
  for (const Optimizer::State& state : states) {
    all.push_back(state_of_one_rank(state.name, state.layout, state.values, has_them));
    all.back().replica = replica;
  }
  add_to(all, has_them, replica);
}

}  // namespace lockstep
