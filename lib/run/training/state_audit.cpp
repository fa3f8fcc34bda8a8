// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/state_audit.hpp"

#include <utility>

#include "base/log.hpp"
#include "comm/collective/algorithm.hpp"

namespace lockstep {
namespace {

/// Says what else than a fault may have made replicas differ, for the message.
std::string other_cause(const ParallelConfig& parallel) {
  const bool by_library = parallel.sums.all_reduce && parallel.sums.all_reduce->by_library;
  if (!by_library && parallel.sums.all_reduce_table.empty()) return "";
  return "; or the MPI library's all-reduce (parallel.all_reduce: mpi, or in a table) gave some ranks different "
         "bits, which the MPI standard forbids: use another algorithm";
}

}  // namespace

StateAudit::StateAudit(const PreparedRun& prepared)
    : run_trainer_(*prepared.run_trainer),
      trainer_(prepared.trainer()),
      comm_(prepared.comm),
      every_(prepared.config.parallel.audit_every) {
  if (comm_.size() == 1 || every_ == 0) return;
  audit_.emplace(comm_, trainer_.strategy().traits().ranks_of_same_part, trainer_.model().parameters(),
                 trainer_.optimizer(),
                 run_trainer_.traits().ranks_have_same_states ? ReplicaAudit::States::alike : ReplicaAudit::States::own,
                 other_cause(prepared.config.parallel));
  if (audit_->compares_anything()) return;
  audit_.reset();
  if (comm_.is_root())
    warn(
        "parallel.audit_every: there is nothing to compare (with parallel.shard, only one rank holds each value); "
        "leave it out, or shard the model within groups (parallel.shard_group), which are compared");
}

void StateAudit::compare_if_due(std::int64_t steps) {
  if (!audit_) return;
  is_due_ |= trainer_.steps() % every_ < steps;
  if (is_due_ && run_trainer_.has_common_parameters()) compare();
}

void StateAudit::compare() {
  is_due_ = false;
  if (!audit_ || std::exchange(audited_step_, trainer_.steps()) == trainer_.steps()) return;
  trainer_.strategy().finish_update(space_);
  audit_->compare(space_, trainer_.steps());
}

bool StateAudit::is_good() {
  compare();
  if (!trainer_.parameters_are_finite(comm_)) return false;
  space_.fence("lockstep::checkpoint");
  return true;
}

}  // namespace lockstep
