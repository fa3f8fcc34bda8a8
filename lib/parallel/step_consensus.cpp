// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/step_consensus.hpp"

#include <cstring>

#include "comm/spin_backoff.hpp"

namespace lockstep {
namespace {

static_assert(std::is_trivially_copyable_v<StepVote>);

void combine(std::byte* lower, const std::byte* upper) {
  StepVote all, other;
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

StepConsensus::StepConsensus(const Topology& topology) {
  if (topology.all.size() > 1) reduce_.emplace(topology, sizeof(StepVote));
}

void StepConsensus::begin(const StepVote& own) {
  vote_ = own;
  if (!reduce_) return;
  std::memcpy(reduce_->data(), &own, sizeof(own));
  reduce_->start(sizeof(own), combine);
}

bool StepConsensus::advance() { return !reduce_ || reduce_->advance(); }

StepVote StepConsensus::finish() {
  if (!reduce_) return vote_;
  wait_until([&] { return reduce_->advance(); });
  std::memcpy(&vote_, reduce_->data(), sizeof(vote_));
  return vote_;
}

}  // namespace lockstep
