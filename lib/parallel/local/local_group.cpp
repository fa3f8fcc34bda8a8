// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/local/local_group.hpp"

#include <algorithm>
#include <utility>

#include "parallel/own_steps.hpp"

namespace lockstep {

LocalGroup::LocalGroup(const Communicator& all, const Communicator& group, const BatchPartition& partition)
    : ranks_(group), numbers_(group.all_gather(all.rank())), partition_(partition) {
  std::vector<std::int64_t> first_ranks = all.all_gather(numbers_.front());
  std::ranges::sort(first_ranks);
  first_ranks.erase(std::unique(first_ranks.begin(), first_ranks.end()), first_ranks.end());
  number_ = static_cast<int>(std::ranges::lower_bound(first_ranks, numbers_.front()) - first_ranks.begin());
  count_ = static_cast<int>(first_ranks.size());
}

std::int64_t LocalGroup::examples(std::int64_t of_batch) {
  if (std::exchange(of_batch_, of_batch) == of_batch) return examples_;
  examples_ = 0;
  for (const std::int64_t rank : numbers_) examples_ += share_of(partition_, of_batch, static_cast<int>(rank)).count;
  return examples_;
}

AveragingWeights::AveragingWeights(const Communicator& ranks, const std::optional<Communicator>& node)
    : ranks_(ranks), node_(node), stepped_("lockstep::averaging_weights::stepped", DType::f64, {1}) {}

void AveragingWeights::add(const ExecSpace& space, double examples, const std::int32_t* left_out) {
  count_done(space, examples, left_out, stepped_.get().as<double>());
}

void AveragingWeights::forget(const ExecSpace& space) {
  fill_zero(space, stepped_.get());
  examples_of_node_ = 0;
}

std::optional<double> AveragingWeights::take_in_node(const ExecSpace& space) {
  const double own = examples(space);
  fill_zero(space, stepped_.get());
  double sum = own;
  node_->all_reduce_sum({&sum, 1});
  examples_of_node_ += sum;
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

std::optional<double> AveragingWeights::take(const ExecSpace& space) {
  double own = 0;
  if (node_) {
    // If no rank has stepped since the node's last synchronization, its ranks have the same parameters.
    const double share = take_in_node(space).value_or(1.0 / node_->size());
    own = share * std::exchange(examples_of_node_, 0.0);
  } else {
    own = examples(space);
    fill_zero(space, stepped_.get());
  }
  double sum = own;
  ranks_.all_reduce_sum({&sum, 1});
  return sum > 0 ? std::optional(own / sum) : std::nullopt;
}

}  // namespace lockstep
