// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/grouped_sum.hpp"

#include <utility>

#include "comm/collective/algorithm.hpp"

namespace lockstep {
namespace {

/// A sum in two steps: among the ranks of a group, and then, for the part of the result that this rank has (`place`),
/// among the ranks that have the same part in other groups.
class GroupedSum final : public Collective {
 public:
  GroupedSum(std::unique_ptr<Collective> in_group, ShardPlace place, std::unique_ptr<Collective> between_groups)
      : in_group_(std::move(in_group)), place_(std::move(place)), between_groups_(std::move(between_groups)) {}

  void start(std::int64_t first, std::int64_t count) override {
    first_ = first;
    count_ = count;
    next_ = 0;
    in_group_->start(first, count);
    running_ = in_group_.get();
  }

  bool advance() override {
    while (running_) {
      if (!running_->advance()) return false;
      running_ = start_next();
    }
    return true;
  }

 private:
  /// Starts the next sum between groups; null: there is nothing left to sum.
  Collective* start_next() {
    while (next_ < place_.leaders()) {
      const ElementRange own = place_.of_leader(next_++, count_);
      if (own.count == 0) continue;
      between_groups_->start(first_ + own.first, own.count);
      return between_groups_.get();
    }
    return nullptr;
  }

  std::unique_ptr<Collective> in_group_;
  ShardPlace place_;
  std::unique_ptr<Collective> between_groups_;
  std::int64_t first_ = 0, count_ = 0;  ///< of the running sum
  int next_ = 0;                        ///< next part of `place_` to be summed between groups
  Collective* running_ = nullptr;
};

/// Extends a group's sum, of which this rank has the part `place`, to the sum of all groups.
std::unique_ptr<Collective> with_other_groups(const SumOptions& options, const ShardGroups& groups,
                                              const ReduceBuffer& buffer, std::unique_ptr<Collective> in_group,
                                              const ShardPlace& place) {
  if (groups.count() == 1) return in_group;
  return std::make_unique<GroupedSum>(std::move(in_group), place, make_sum_between_groups(options, groups, buffer));
}

}  // namespace

std::unique_ptr<Collective> make_sum_between_groups(SumOptions options, const ShardGroups& groups,
                                                    const ReduceBuffer& buffer) {
  // Sums between groups are sums between nodes, or between ranks that sum by messages.
  if (sums_in_node_memory(options.all_reduce)) options.all_reduce = options.between_nodes;
  return make_all_reduce(options, {}, groups.replicas, std::nullopt, buffer);
}

std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const ShardGroups& groups,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer) {
  return with_other_groups(options, groups, buffer, make_reduce_scatter(options, groups.group, memory, buffer),
                           make_shard_place(options, groups.group, memory));
}

std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const ShardGroups& groups, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer) {
  return with_other_groups(options, groups, buffer, make_all_reduce(options, measured, groups.group, memory, buffer),
                           {});
}

}  // namespace lockstep
