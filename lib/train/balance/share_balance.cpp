// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/balance/share_balance.hpp"

#include <algorithm>

#include "data/share_plan.hpp"

namespace lockstep {

ShareBalance::ShareBalance(const Communicator& comm, const BatchPartition& partition, std::int64_t batch)
    : comm_(comm), partition_(partition), total_(partition.separate ? partition.ranks * partition.shards : batch) {
  if (!partition_.rank_shares.empty()) return;
  for (int rank = 0; rank < comm.size(); ++rank)
    partition_.rank_shares.push_back(share_of(total_, rank, comm.size()).count);
}

void ShareBalance::step_done(double seconds, std::int64_t examples) {
  if (examples > 0) times_.add(seconds / static_cast<double>(examples));
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
