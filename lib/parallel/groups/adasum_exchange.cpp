// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/adasum_exchange.hpp"

#include <algorithm>
#include <utility>

#include "base/duration.hpp"
#include "comm/spin_backoff.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "optim/replica_steps.hpp"
#include "parallel/groups/replica_update.hpp"

namespace lockstep {
namespace {

/// Returns the schedule of ordered_all_reduce for each tensor: all on their way up the tree, and then down again.
CommSchedule tree_of_tensors(int rank, int size, const std::vector<ElementRange>& tensors) {
  const CommSchedule of_one = ordered_all_reduce(rank, size, 1);
  CommSchedule schedule;
  const auto of = [](CommRound::Part part, ElementRange range) {
    if (part) part.first = range.first, part.count = range.count;
    return part;
  };
  for (const bool down : {false, true})
    for (const ElementRange& tensor : tensors)
      for (const CommRound& step : of_one)
        if ((step.send ? step.send : step.receive).final == down)
          schedule.push_back({of(step.send, tensor), of(step.receive, tensor)});
  return schedule;
}

}  // namespace

AdasumExchange::AdasumExchange(const Communicator& ranks, const Communicator& group, const ParameterLayout& layout,
                               const Tensor& numbers)
    : numbers_(numbers),
      statistics_(layout.statistics()),
      in_group_{Executor(make_transport(group)), tree_broadcast(group.rank(), group.size(), numbers.count())} {
  if (memory_is_separate) staging_.resize(numbers.bytes());
  const Communicator alike = ranks.split(group.is_root() ? 0 : 1);
  if (!group.is_root()) return;
  for (const Parameter& parameter : trained_parameters(layout.parameters())) tensors_.push_back(parameter.range);
  if (statistics_.count > 0) tensors_.push_back(statistics_);
  between_groups_ = Exchange{Executor(make_transport(alike)), tree_of_tensors(alike.rank(), alike.size(), tensors_)};
  const std::int64_t longest = longest_part(layout);
  theirs_ = OwnedTensor("lockstep::adasum_exchange::theirs", numbers.dtype, {longest});
  scratch_ = OwnedTensor("lockstep::adasum_exchange::scratch", DType::f64, {adasum_scratch(longest)});
}

std::int64_t AdasumExchange::longest_part(const ParameterLayout& layout) {
  std::int64_t longest = layout.statistics().count;
  for (const Parameter& parameter : trained_parameters(layout.parameters()))
    longest = std::max(longest, parameter.range.count);
  return longest;
}

void AdasumExchange::combine(const ExecSpace& space) {
  wait_for_kernels(space);
  const Timer timer;
  space_ = &space;
  if (between_groups_) run(*between_groups_);
  run(in_group_);
  exposed_seconds_ += timer.seconds();
}

void AdasumExchange::run(Exchange& exchange) {
  exchange.executor.start(exchange.schedule, *this);
  SpinBackoff backoff;
  for (std::size_t before = 0; !exchange.executor.advance(); before = exchange.executor.steps_done()) {
    if (exchange.executor.steps_done() == before) backoff.pause();
    else backoff.reset();
  }
}

const ElementRange& AdasumExchange::tensor_of(const CommRound::Part& part) const {
  return *std::prev(std::ranges::upper_bound(tensors_, part.first, {}, &ElementRange::first));
}

/// Returns where the numbers of a message come from, or go to, in device memory.
Tensor AdasumExchange::place_of(const CommRound::Part& part, bool arrives) const {
  if (!arrives || part.final) return flat_part(numbers_, {part.first, part.count});
  return flat_part(theirs_.get(), {part.first - tensor_of(part).first, part.count});
}

/// Returns where the host has the numbers of a message.
std::byte* AdasumExchange::on_host(const CommRound::Part& part, const Tensor& place) {
  if constexpr (memory_is_separate)
    return staging_.data() + static_cast<std::size_t>(part.first) * size_of(place.dtype);
  else return static_cast<std::byte*>(place.data);
}

std::span<const std::byte> AdasumExchange::outgoing(const CommRound::Part& part) {
  const Tensor place = place_of(part, false);
  std::byte* const data = on_host(part, place);
  if constexpr (memory_is_separate) copy_to_host(*space_, place, data);
  else space_->fence("lockstep::adasum_exchange");
  return {data, place.bytes()};
}

std::span<std::byte> AdasumExchange::incoming(const CommRound::Part& part) {
  const Tensor place = place_of(part, true);
  return {on_host(part, place), place.bytes()};
}

void AdasumExchange::arrived(const CommRound::Part& part) {
  if constexpr (memory_is_separate) copy_from_host(*space_, incoming(part).data(), place_of(part, true));
  if (part.final) return;
  const ElementRange& tensor = tensor_of(part);
  const Tensor own = flat_part(numbers_, tensor), theirs = flat_part(theirs_.get(), {0, tensor.count});
  if (tensor == statistics_) accumulate(*space_, 1, theirs, own);
  else adasum(*space_, own, theirs, scratch_.get());
}

double AdasumExchange::take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

}  // namespace lockstep
