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

StepVotes::Poll::Poll(const Topology& topology) {
  if (topology.all.size() > 1) reduce_.emplace(topology, sizeof(Vote));
}

void StepVotes::Poll::begin(const Vote& own) {
  vote_ = own;
  if (!reduce_) return;
  std::memcpy(reduce_->data(), &own, sizeof(own));
  reduce_->start(sizeof(own), combine);
}

StepVotes::Vote StepVotes::Poll::finish() {
  if (!reduce_) return vote_;
  wait_until([&] { return reduce_->advance(); });
  std::memcpy(&vote_, reduce_->data(), sizeof(vote_));
  return vote_;
}

void StepVotes::look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite) {
  if (!has_others_) return;
  nonfinite_.start(space, nonfinite.as<std::int32_t>());
  sums_.start(space, sums);
}

void StepVotes::begin(const RankRequests& requests, const UpdateScope& scope) {
  Vote own{.stop = requests.stop, .checkpoint = requests.checkpoint};
  if (has_others_) {
    const LossSums sums = sums_.take();
    own.bad_parameters = nonfinite_.take() != 0;
    own.loss = sums.loss;
    own.weight = sums.weight;
  }
  asks_group_ = scope.group != nullptr;
  syncs_ = scope.syncs;
  asks_all_ = !asks_group_ || syncs_;
  if (asks_group_) group_.begin(own);
  if (asks_all_) all_.begin(own);
}

bool StepVotes::advance() {
  const bool of_group = !asks_group_ || group_.advance(), of_all = !asks_all_ || all_.advance();
  return of_group && of_all;
}

StepVotes::Vote StepVotes::finish() {
  Vote vote;
  if (asks_all_) vote = all_.finish();
  const bool stop = syncs_ && vote.stop, checkpoint = syncs_ && vote.checkpoint;
  if (asks_group_) vote = group_.finish();
  vote.stop = stop;
  vote.checkpoint = checkpoint;
  return vote;
}

}  // namespace lockstep
