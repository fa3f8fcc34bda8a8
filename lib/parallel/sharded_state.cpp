// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/sharded_state.hpp"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Returns what a rank has of a state; a rank that does not take part gives and takes nothing.
ShardedState held_by(bool takes_part, const std::string& state, const SharedLayout& layout,
                     std::vector<ElementRange> held, const Tensor& values, const OffloadedState& offloaded = {}) {
  ShardedState numbers{
      .state = state, .layout = layout, .held = std::move(held), .values = values, .offloaded = offloaded};
  if (!takes_part) {
    numbers.held.clear();
    numbers.values.shape = {0};
    numbers.offloaded = {};
  }
  return numbers;
}

/// Sends offloaded numbers, as many and of the type of `like`, from the first rank to the others. A rank whose file
/// fails takes part to the end, and then has `failure`.
void share_offloaded(const Communicator& ranks, const OffloadedState& numbers, const Tensor& like,
                     std::exception_ptr& failure) {
  constexpr std::int64_t most = std::int64_t{1} << 18;
  std::vector<std::byte> piece;
  const auto attempt = [&](const auto& work) {
    try {
      if (!failure) work();
    } catch (const Error&) {
      failure = std::current_exception();
    }
  };
  for (std::int64_t first = 0; first < like.count() && ranks.size() > 1; first += most) {
    const std::int64_t count = std::min(most, like.count() - first);
    piece.resize(static_cast<std::size_t>(count) * size_of(like.dtype));
    if (ranks.is_root()) attempt([&] { numbers.read(StreamedBlocks::Version::present, first, count, piece.data()); });
    ranks.broadcast(std::span(piece));
    if (!ranks.is_root()) attempt([&] { numbers.write(first, count, piece.data()); });
  }
}

/// Adds the moving average of the layers' statistics, if the optimizer keeps one; rank 0 gives it.
void add_statistics_average(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root,
                            std::vector<ShardedState>& all) {
  const ElementRange range = parameters.layout().statistics();
  if (!optimizer.averages() || range.count == 0) return;
  std::vector<Parameter> statistics;
  for (Parameter parameter : parameters.parameters()) {
    if (parameter.kind != ParameterSpec::Kind::statistic) continue;
    parameter.range.first -= range.first;
    statistics.push_back(std::move(parameter));
  }
  Tensor values = optimizer.average_of_statistics();
  if (!values) values = {nullptr, parameters.dtype(), {0}};
  all.push_back(state_of_one_rank(ema_state, statistics, values, is_root));
}

}  // namespace

ShardedState state_of_one_rank(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool has_them, const OffloadedState& offloaded) {
  return held_by(has_them, state, layout, {{0, values.count()}}, values, offloaded);
}

ShardedState state_of_strategy(const std::string& state, const SharedLayout& layout, const Tensor& values,
                               bool is_root) {
  return state_of_strategy(state, layout, {{0, values.count()}}, values, is_root);
}

ShardedState state_of_strategy(const std::string& state, const SharedLayout& layout, std::vector<ElementRange> held,
                               const Tensor& values, bool has_them) {
  ShardedState numbers = held_by(has_them, state, layout, std::move(held), values);
  numbers.kind = ShardedState::Kind::strategy;
  numbers.is_optional = true;
  return numbers;
}

ShardedState replicated_parameters(const ParameterBuffer& parameters, bool is_root) {
  return state_of_one_rank("", parameters.parameters(), parameters.values(), is_root);
}

std::vector<ShardedState> replicated_states(const ParameterBuffer& parameters, const Optimizer& optimizer,
                                            bool is_root) {
  std::vector<ShardedState> all{replicated_parameters(parameters, is_root)};
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(state_of_one_rank(state.name, state.layout, state.values, is_root, state.offloaded));
  add_statistics_average(parameters, optimizer, is_root, all);
  return all;
}

std::vector<ShardedState> owned_states(const ParameterBuffer& parameters, const Optimizer& optimizer, bool is_root,
                                       bool of_first_group) {
  std::vector<ShardedState> all;
  const std::vector<ElementRange>& owned = parameters.layout().owned();
  if (parameters.windows().division.values) {
    const std::vector<Parameter> trained = trained_parameters(parameters.parameters());
    const OffloadedValues* const elsewhere = optimizer.offloaded_values();
    all.push_back(held_by(of_first_group, "", trained, owned, parameters.owned().values(),
                          elsewhere ? elsewhere->as_state() : OffloadedState{}));
    std::vector<Parameter> others(parameters.parameters().begin() + std::ssize(trained), parameters.parameters().end());
    for (Parameter& parameter : others) parameter.range.first -= parameters.trained_size();
    if (!others.empty())
      all.push_back(state_of_one_rank("", others, parameters.values(parameters.layout().others()), is_root));
  } else {
    all.push_back(replicated_parameters(parameters, is_root));
  }
  for (const Optimizer::State& state : optimizer.states())
    all.push_back(held_by(of_first_group, state.name, state.layout, owned, state.values, state.offloaded));
  add_statistics_average(parameters, optimizer, is_root, all);
  return all;
}

void share_states(const ExecSpace& space, const Communicator& ranks, const Optimizer& optimizer) {
  std::exception_ptr failure;
  if (const OffloadedValues* values = optimizer.offloaded_values())
    share_offloaded(ranks, values->as_state(), optimizer.states().front().values, failure);
  for (const Optimizer::State& state : optimizer.states())
    if (state.offloaded) share_offloaded(ranks, state.offloaded, state.values, failure);
    else ranks.broadcast(space, state.values);
  if (const Tensor& average = optimizer.average_of_statistics()) ranks.broadcast(space, average);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep
