// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/period_steps.hpp"

#include "data/share_plan.hpp"

namespace lockstep {

PeriodSteps::PeriodSteps(const Communicator& ranks, int group, std::int64_t every)
    : group_of_(ranks.all_gather(group)),
      every_(every),
      steps_(static_cast<std::size_t>(std::ranges::max(group_of_) + 1), every) {}

void PeriodSteps::follow(std::span<const double> times) {
  if (times.empty()) return;
  std::vector<double> of_groups(steps_.size());
  for (std::size_t rank = 0; rank < group_of_.size(); ++rank) {
    double& slowest = of_groups[static_cast<std::size_t>(group_of_[rank])];
    slowest = std::max(slowest, times[rank]);
  }
  steps_ = steps_by_speed(of_groups, every_);
}

std::int64_t PeriodSteps::examples(const BatchPartition& partition, std::int64_t global_examples,
                                   std::int64_t number) const {
  std::int64_t examples = 0;
  for (std::size_t rank = 0; rank < group_of_.size(); ++rank)
    if (does(group_of_[rank], number)) examples += share_of(partition, global_examples, static_cast<int>(rank)).count;
  return examples;
}

}  // namespace lockstep
