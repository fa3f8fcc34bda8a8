// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/share_balance.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/share_plan.hpp"

namespace lockstep {
namespace {

/// Steps between two comparisons.
constexpr std::int64_t every = 16;

}  // namespace

std::vector<double> PassTimes::medians(const Communicator& ranks) const {
  std::array<double, kept> sorted = seconds_;
  const auto end = sorted.begin() + std::min(steps_, kept), middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  const std::vector<std::int64_t> all = ranks.all_gather(steps_ == 0 ? 0 : std::llround(1e12 * *middle));
  if (std::ranges::min(all) <= 0) return {};
  return {all.begin(), all.end()};
}

ShareBalance::ShareBalance(const Communicator& comm, Trainer& trainer, std::int64_t batch)
    : comm_(comm),
      trainer_(trainer),
      partition_(trainer.partition()),
      total_(partition_.separate ? partition_.ranks * partition_.shards : batch) {
  if (!partition_.rank_shares.empty()) return;
  for (int rank = 0; rank < comm.size(); ++rank)
    partition_.rank_shares.push_back(share_of(total_, rank, comm.size()).count);
}

std::optional<std::vector<std::int64_t>> ShareBalance::step_done(const Trainer::ExposedSeconds& exposed) {
  const double before = std::exchange(pass_seconds_, trainer_.clock().pass_seconds());
  // Passes wait for statistics only: gradients are summed after them, or at the same time.
  const double seconds = pass_seconds_ - before - exposed.statistics.value_or(0);
  const std::int64_t examples = trainer_.own_examples();
  if (examples > 0) times_.add(seconds / static_cast<double>(examples));
  return trainer_.steps() % every == 0 ? compare() : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ShareBalance::compare() const {
  const std::vector<double> times = times_.medians(comm_);
  if (total_ < comm_.size() || times.empty()) return std::nullopt;
  const std::int64_t most = partition_.share_limit * share_of(total_, 0, comm_.size()).count;
  std::vector<std::int64_t> next = shares_by_speed(times, total_, 1, std::min(total_, most));
  if (!is_worth_changing(times, partition_.rank_shares, next)) return std::nullopt;
  return next;
}

}  // namespace lockstep
