// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/balance/load_balance.hpp"

#include <utility>

#include "base/log.hpp"

namespace lockstep {

LoadBalance::LoadBalance(const ParallelConfig& config, const Communicator& comm, Trainer& trainer, ReplicaSync& syncs,
                         std::int64_t batch)
    : comm_(comm), trainer_(trainer), syncs_(syncs) {
  if (comm.size() == 1) return;
  if (config.measures_shares()) shares_.emplace(comm, trainer.partition(), batch);
  if (config.local.steps_by_speed && !config.asynchronous.present) pass_times_.emplace();
}

std::optional<std::vector<std::int64_t>> LoadBalance::steps_done(const Trainer::ExposedSeconds& exposed) {
  if (!shares_ && !pass_times_) return std::nullopt;
  if (pass_times_) trainer_.clock().catch_up();  // late times would count to the next step
  const double before = std::exchange(pass_seconds_, trainer_.clock().pass_seconds());
  // Passes wait for statistics only: gradients are summed after them, or beside.
  const double seconds = pass_seconds_ - before - exposed.statistics.value_or(0);
  if (shares_) return compare_shares(seconds);
  pace_groups(seconds);
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> LoadBalance::compare_shares(double seconds) {
  shares_->step_done(seconds, trainer_.own_examples());
  return trainer_.steps() % ShareBalance::every == 0 ? shares_->compare() : std::nullopt;
}

/// Sets the groups' numbers of steps after a synchronization, by the times of the steps since the last one.
void LoadBalance::pace_groups(double seconds) {
  const std::int64_t step = trainer_.steps(), all = syncs_.steps_between_syncs();
  if (!syncs_.is_local(step)) return;
  if (trainer_.own_examples() > 0) pass_times_->add(seconds);
  if (!syncs_.is_common(step)) return;
  const std::vector<double> times = pass_times_->medians(comm_);
  pass_times_->forget();
  if (times.empty()) return;
  const std::int64_t fewest = syncs_.follow_times(times);
  if (fewest >= fewest_steps_.value_or(all)) return;
  fewest_steps_ = fewest;
  log("steps        by speed: the slowest group takes {} of {} until the next synchronization", fewest, all);
}

}  // namespace lockstep
