// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/reducers/gradient_reducer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/collective/algorithm.hpp"
#include "core/element_range.hpp"

namespace lockstep {
namespace {

/// The first bucket is smaller, so that communication begins early, and so is the last one, for which the step waits.
constexpr double end_bucket_mb = 1;

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

std::vector<ElementRange> cut_into_buckets(std::span<const ElementRange> ranges, double megabytes,
                                           std::size_t element_bytes) {
  const auto elements = [&](double mb) {
    const std::int64_t count = static_cast<std::int64_t>(mb * 1e6) / static_cast<std::int64_t>(element_bytes);
    return count < array_block ? std::max<std::int64_t>(1, count) : count / array_block * array_block;
  };
  const std::int64_t most = elements(megabytes), at_ends = std::min(most, elements(end_bucket_mb));
  const std::int64_t unit = at_ends < array_block ? 1 : array_block;
  std::vector<ElementRange> buckets;
  for (const ElementRange& range : ranges)
    for (std::int64_t first = range.first; first < range.end(); first = buckets.back().end()) {
      const bool is_last = range.end() == ranges.back().end();
      const std::int64_t left = range.end() - first, least = is_last ? at_ends : 0;
      const std::int64_t before_last = (left - least + unit - 1) / unit * unit;
      const std::int64_t count = left <= least ? left : buckets.empty() ? at_ends : std::min(most, before_last);
      buckets.push_back({first, std::min(count, left)});
    }
  return buckets;
}

GradientBuckets::GradientBuckets(const std::vector<ElementRange>& units, std::int64_t end, double megabytes,
                                 std::size_t element_bytes)
    : trained(cut_into_buckets(units, megabytes, element_bytes)) {
  const ElementRange others[] = {ElementRange::between(units.empty() ? 0 : units.back().end(), end)};
  statistics = cut_into_buckets(others, megabytes, element_bytes);
}

GradientBuckets::GradientBuckets(const ParameterLayout& layout, const ParallelConfig& config)
    : GradientBuckets(
          layout.units(config.sharding.unit_mb), layout.summed_size(),
          config.sharding.divides()
              ? std::max(config.sums.bucket_mb,
                         1e-6 * static_cast<double>(array_block * static_cast<std::int64_t>(size_of(layout.master()))))
              : config.sums.bucket_mb,
          size_of(layout.master())) {}

std::vector<WindowTurn> window_turns(const UnshardPlan& windows, const GradientBuckets& buckets) {
  const auto buckets_before = [&](std::int64_t element) {
    const auto is_before = [&](const ElementRange& bucket) { return bucket.first < element; };
    return static_cast<std::size_t>(std::ranges::count_if(buckets.trained, is_before) +
                                    std::ranges::count_if(buckets.statistics, is_before));
  };
  const std::vector<std::int64_t>& places = windows.gradient_places.of_units;
  std::vector<WindowTurn> turns;
  for (std::size_t unit = 0; unit < windows.units.size(); ++unit) {
    if (windows.gradients[unit].none()) continue;
    // The last unit that had the window before: in this micro-batch; or in the one before, where it may be the same
    // unit.
    std::optional<std::size_t> here, before;
    for (std::size_t other = 0; other < windows.units.size(); ++other)
      if (places[other] == places[unit] && !windows.gradients[other].none()) (other < unit ? here : before) = other;
    turns.push_back(
        {windows.gradients[unit].first, buckets_before(windows.units[here ? *here : *before].end()), !here});
  }
  // Numbers that are to be added to statistics have memory of their own, which any layer may write.
  if (!buckets.statistics.empty()) turns.push_back({0, buckets.trained.size() + buckets.statistics.size(), true});
  return turns;
}

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
