// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/worker_group.hpp"

#include "base/error.hpp"
#include "comm/collective/make_all_reduce.hpp"

namespace lockstep {

WorkerGroup::WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters)
    : ranks_(group.all),
      count_(all.size() / group.all.size()),
      numbers_(group.all.all_gather(all.rank())),
      trained_(parameters.trained_size()) {
  if (size() == 1) return;
  // Counts of one message are ints, and of a gather by halves it has up to a half.
  validate(parameters.values({0, trained_}).bytes() <= std::size_t{2} << 30, ExitStatus::bad_deck,
           "parallel.asynchronous.groups: {} parameters are more than the ranks of a group can send each other in "
           "messages of 1 GiB; leave it out",
           trained_);
  sum_.emplace(ranks_, ParallelConfig::in_fixed_tree(size()), parameters.gradients());
  gather_ = make_all_gather({}, group, std::nullopt, {parameters.dtype(), parameters.values().data});
}

ParameterRange WorkerGroup::fraction() const {
  const Stretch own = slice_of_rank(trained_, ranks_.rank(), size());
  return {own.first, own.count()};
}

void WorkerGroup::piece_done(const ExecSpace& space) {
  if (sum_) sum_->shard_done(space);
}

void WorkerGroup::sum(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (sum_) sum_->finish(space, meanwhile);
}

void WorkerGroup::gather() {
  if (gather_) gather_->start(0, trained_);
}

}  // namespace lockstep
