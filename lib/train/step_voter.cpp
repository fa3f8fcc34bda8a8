// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_voter.hpp"

namespace lockstep {

void StepVoter::look(const ExecSpace& space, const LossSums* sums, const Tensor& nonfinite) {
  if (!has_others_) return;
  nonfinite_.start(space, nonfinite.as<std::int32_t>());
  sums_.start(space, sums);
}

void StepVoter::begin(const StepRequests& requests) {
  StepVote own{.stop = requests.stop, .checkpoint = requests.checkpoint};
  if (has_others_) {
    const LossSums sums = sums_.take();
    own.bad_parameters = nonfinite_.take() != 0;
    own.loss = sums.loss;
    own.weight = sums.weight;
  }
  consensus_.begin(own);
}

}  // namespace lockstep
