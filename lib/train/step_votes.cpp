// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_votes.hpp"

#include <cstring>
#include <type_traits>

#include "comm/spin_backoff.hpp"

namespace lockstep {
namespace {

static_assert(std::is_trivially_copyable_v<StepVotes::Vote>);

void combine(std::byte* lower, const std::byte* upper) {
  StepVotes::Vote all, other;
  std::memcpy(&all, lower, sizeof(all));
  std::memcpy(&other, upper, sizeof(other));
  all.stop |= other.stop;
  all.checkpoint |= other.checkpoint;
  all.bad_parameters |= other.bad_parameters;
  all.loss += other.loss;
  all.weight += other.weight;
  std::memcpy(lower, &all, sizeof(all));
}

}  // namespace

StepVotes::StepVotes(const Topology& topology) {
  if (topology.all.size() > 1) reduce_.emplace(topology, sizeof(Vote));
}

void StepVotes::start_copies(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite) {
  if (!reduce_) return;
  nonfinite_.start(space, nonfinite.as<std::int32_t>());
  sums_.start(space, sums);
}

void StepVotes::begin(const RankRequests& requests) {
  vote_ = {.stop = requests.stop, .checkpoint = requests.checkpoint};
  if (!reduce_) return;
  const LossSums sums = sums_.take();
  vote_.bad_parameters = nonfinite_.take() != 0;
  vote_.loss = sums.loss;
  vote_.weight = sums.weight;
  std::memcpy(reduce_->data(), &vote_, sizeof(vote_));
  reduce_->start(sizeof(vote_), combine);
}

StepVotes::Vote StepVotes::finish() {
  if (!reduce_) return vote_;
  wait_until([&] { return reduce_->advance(); });
  Vote all;
  std::memcpy(&all, reduce_->data(), sizeof(all));
  return all;
}

}  // namespace lockstep
