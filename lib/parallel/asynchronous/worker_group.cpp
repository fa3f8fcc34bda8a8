// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/worker_group.hpp"

#include "comm/collective/make_all_reduce.hpp"

namespace lockstep {

WorkerGroup::WorkerGroup(const Communicator& all, const Topology& group, const ParameterBuffer& parameters)
    : ranks_(group.all),
      count_(all.size() / group.all.size()),
      numbers_(group.all.all_gather(all.rank())),
      trained_(parameters.trained_size()) {
  if (size() == 1) return;
  sum_.emplace(ranks_, ParallelConfig::in_fixed_tree(size()), parameters.gradients());
  gather_ = make_all_gather({}, group, std::nullopt, {parameters.dtype(), parameters.values().data});
}

ElementRange WorkerGroup::fraction() const { return slice_of_rank(trained_, ranks_.rank(), size()); }

void WorkerGroup::piece_done(const ExecSpace& space) {
  if (sum_) sum_->gradient_sum_done(space);
}

void WorkerGroup::sum(const ExecSpace& space, const std::function<void()>& meanwhile) {
  if (sum_) sum_->finish(space, meanwhile);
}

void WorkerGroup::gather() {
  if (gather_) gather_->start(0, trained_);
}

}  // namespace lockstep
