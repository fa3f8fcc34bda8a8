// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_voter.hpp"

namespace lockstep {

void StepVoter::look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite) {
  if (!has_others_) return;
  nonfinite_.start(space, nonfinite.as<std::int32_t>());
  sums_.start(space, sums);
}

void StepVoter::begin(const StepRequests& requests, const StepScope& scope) {
  StepVote own{.stop = requests.stop, .checkpoint = requests.checkpoint};
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

bool StepVoter::advance() {
  const bool of_group = !asks_group_ || group_.advance(), of_all = !asks_all_ || all_.advance();
  return of_group && of_all;
}

StepVote StepVoter::finish() {
  StepVote vote;
  if (asks_all_) vote = all_.finish();
  const bool stop = syncs_ && vote.stop, checkpoint = syncs_ && vote.checkpoint;
  if (asks_group_) vote = group_.finish();
  vote.stop = stop;
  vote.checkpoint = checkpoint;
  return vote;
}

}  // namespace lockstep
