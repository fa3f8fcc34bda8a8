// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/share_balance.hpp"

#include <algorithm>
#include <cmath>

#include "data/share_plan.hpp"

namespace lockstep {

ShareBalance::ShareBalance(const Communicator& comm, const BatchPartition& partition, std::int64_t batch)
    : comm_(comm), partition_(partition), total_(partition.separate ? partition.ranks * partition.shards : batch) {
  if (!partition_.parts.empty()) return;
  for (int rank = 0; rank < comm.size(); ++rank) partition_.parts.push_back(share_of(total_, rank, comm.size()).count);
}

void ShareBalance::step_done(double seconds, std::int64_t examples) {
  if (examples > 0) seconds_[static_cast<std::size_t>(steps_++ % every)] = seconds / static_cast<double>(examples);
}

std::optional<std::vector<std::int64_t>> ShareBalance::compare() const {
  std::array<double, every> sorted = seconds_;
  const auto end = sorted.begin() + std::min(steps_, every), middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  // Whole picoseconds, so that all ranks reckon with the same numbers.
  const std::vector<std::int64_t> all = comm_.all_gather(steps_ == 0 ? 0 : std::llround(1e12 * *middle));
  if (total_ < comm_.size() || std::ranges::min(all) <= 0) return std::nullopt;
  const std::vector<double> seconds(all.begin(), all.end());
  const std::int64_t most = partition_.share_limit * share_of(total_, 0, comm_.size()).count;
  std::vector<std::int64_t> next = shares_by_speed(seconds, total_, 1, std::min(total_, most));
  if (!is_worth_dealing(seconds, partition_.parts, next)) return std::nullopt;
  return next;
}

}  // namespace lockstep
