// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/step_group.hpp"

#include <algorithm>
#include <utility>

namespace lockstep {

StepGroup::StepGroup(const Communicator& all, const Communicator& group, const BatchPartition& partition)
    : ranks_(group), numbers_(group.all_gather(all.rank())), partition_(partition) {
  std::vector<std::int64_t> first_ranks = all.all_gather(numbers_.front());
  std::ranges::sort(first_ranks);
  first_ranks.erase(std::unique(first_ranks.begin(), first_ranks.end()), first_ranks.end());
  number_ = static_cast<int>(std::ranges::lower_bound(first_ranks, numbers_.front()) - first_ranks.begin());
  count_ = static_cast<int>(first_ranks.size());
}

std::int64_t StepGroup::examples(std::int64_t of_batch) {
  if (std::exchange(of_batch_, of_batch) == of_batch) return examples_;
  examples_ = 0;
  for (const std::int64_t rank : numbers_) examples_ += share_of(partition_, of_batch, static_cast<int>(rank)).count;
  return examples_;
}

}  // namespace lockstep
