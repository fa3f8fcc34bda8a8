// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/step_traffic.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "comm/collective/all_reduce_table.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {
namespace {

using Overlap = GradientSumConfig::Overlap;

/// Ways of overlapping that BucketedReducer would try. On hosts, a thread for sums waits for its turn on a core that
/// computes, and hides hardly more than looking between layers does (perf/results/predict-scaling.md), so it is left
/// out. For divided gradients nothing is tried: they are summed between layers, or on one node at once.
std::vector<Overlap> overlaps_of(Overlap wanted, bool divides_gradients, bool one_node, bool has_devices) {
  if (wanted != Overlap::automatic) return {wanted};
  if (divides_gradients) return {one_node ? Overlap::none : Overlap::poll};
  if (has_devices) return {Overlap::none, Overlap::poll, Overlap::thread};
  return one_node ? std::vector{Overlap::none} : std::vector{Overlap::none, Overlap::poll};
}

/// Builds the StepTraffic of a deck's ranks.
class Builder {
 public:
  Builder(const Workload& workload, const ParallelConfig& config, const Machine& machine, int ranks,
          const ExecutionPlan& plan, SumsOfRanks& sums)
      : workload_(workload),
        config_(config),
        machine_(machine),
        plan_(plan),
        ranks_(ranks),
        group_(shard_group_size(config, ranks, static_cast<int>(machine.nodes_of(ranks)))),
        divides_(config.sharding.divides()),
        shares_(divides_ && may_share_parameters(config) && !machine.has_devices()),
        sums_(sums.of(group_, shares_)),
        all_(sums.of(ranks, false)),
        statistics_(sums.of(config.ranks_of_statistics(ranks), false)),
        buckets_(workload.layout(), config) {}

  StepTraffic build() {
    exchange_.points = workload_.ready_points(plan_);
    if (ranks_ == 1) return std::move(exchange_);
    if (divides_)
      exchange_.windows = plan_windows(workload_.graph(), workload_.layout(), plan_,
                                       parameter_division(config_, group_, shares_ && sums_.one_node()));
    add_sums();
    constexpr double vote_bytes = 40;
    exchange_.vote = all_.ordered(vote_bytes);
    if (config_.ranks_of_statistics(ranks_) > 1)
      for (const double exchanged : workload_.statistics(plan_))
        exchange_.statistics = exchange_.statistics + statistics_.ordered(exchanged);
    exchange_.overlaps = overlaps_of(config_.sums.overlap, exchange_.divides_gradients(), all_.one_node(),
                                     machine_.has_devices());
    if (divides_) add_gathers();
    return std::move(exchange_);
  }

 private:
  /// Seconds of copies between device and host.
  double copies(std::int64_t count, double times) const {
    return machine_.has_devices() ? times * static_cast<double>(count) * bytes_ * 1e-9 / *machine_.host_copy_gbps : 0;
  }

  /// Adds the time in which an owner of divided gradients copies its part of a bucket's sum out of the window
  /// (ShardedGradientReducer).
  void add_owners_copy(std::int64_t count, ExchangeCost& sum) const {
    const double seconds = 2 * static_cast<double>(count) / group_ * bytes_ * 1e-9 / machine_.memory_gbps;
    sum.seconds += seconds, sum.adding += seconds;
  }

  void add_sums() {
    // fp64 travels as it is, and so do statistics, which follow the gradients in buckets of their own.
    const double wire = bytes_ == 4 ? static_cast<double>(size_of(config_.sums.options().wire)) : bytes_;
    const auto add = [&](Operation operation, const std::vector<ElementRange>& buckets, double travels) {
      for (const ElementRange& bucket : buckets) {
        ExchangeCost sum = sums_.of(operation, bucket.count, bytes_, travels);
        sum.seconds += copies(bucket.count, 2);
        if (exchange_.divides_gradients() && operation == Operation::reduce_scatter) add_owners_copy(bucket.count, sum);
        ExchangeCost between = between_groups(operation, bucket.count, travels);
        if (!exchange_.divides_gradients() || operation == Operation::all_reduce)
          sum = sum + std::exchange(between, ExchangeCost());
        exchange_.buckets.push_back(bucket);
        exchange_.sums.push_back(sum);
        exchange_.between_groups.push_back(between);
      }
    };
    add(divides_ ? Operation::reduce_scatter : Operation::all_reduce, buckets_.trained, wire);
    add(Operation::all_reduce, buckets_.statistics, bytes_);
  }

  /// Sum over groups, as in GroupedSum: of what the rank owns, in as many pieces as its group's node has leaders.
  ExchangeCost between_groups(Operation operation, std::int64_t count, double travels) const {
    const int groups = ranks_ / group_;
    if (groups == 1) return {};
    const int per_node = static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, ranks_));
    const Fabric fabric{machine_, groups, std::max(1, per_node / group_), std::min(group_, per_node)};
    if (operation == Operation::all_reduce) return sums_.between_groups(fabric, count, bytes_, travels);
    const int pieces = shares_ && !sums_.one_node() ? leaders_of(config_.sums.leaders, std::min(group_, per_node)) : 1;
    const std::int64_t own = (count + std::int64_t{group_} * pieces - 1) / (std::int64_t{group_} * pieces);
    return sums_.between_groups(fabric, own, bytes_, travels) * pieces;
  }

  ExchangeCost gather(std::int64_t count) {
    ExchangeCost cost = sums_.of(Operation::all_gather, count, bytes_, bytes_);
    cost.seconds += copies(count, 1 + 1.0 / group_);
    return cost;
  }

  void add_gathers() {
    const ParameterLayout& layout = workload_.layout();
    const bool all_share = shares_ && sums_.one_node();
    const RankCount ranks{ranks_, static_cast<int>(machine_.nodes_of(ranks_))};
    exchange_.divides = group_ > 1;
    if (layout.trained_size() > 0)
      exchange_.updated = static_cast<double>(largest_part(config_, layout, ranks, shares_)) /
                          static_cast<double>(layout.trained_size());
    if (exchange_.divides_gradients()) exchange_.turns = window_turns(exchange_.windows, buckets_);
    if (workload_.config().optimizer.rule().clip_norm > 0)
      exchange_.norms = sums_.of(Operation::all_reduce, array_blocks(layout.trained_size()), 8, 8);
    if (exchange_.divides_values()) return add_units();
    std::vector<ElementRange> gathered = buckets_.trained;
    if (all_share) gathered = {{0, layout.trained_size()}};
    for (auto bucket = gathered.rbegin(); bucket != gathered.rend(); ++bucket)
      exchange_.gathers.push_back(gather(bucket->count));
    find_awaited(gathered);
  }

  /// Costs of units, which ParameterUnsharder brings into windows: between two barriers if a node's ranks have them in
  /// common.
  void add_units() {
    for (const ElementRange& unit : exchange_.windows.units) {
      ExchangeCost cost;
      if (shares_) cost = sums_.barrier() * 2;
      for (const ElementRange& bucket : buckets_.trained)
        if (bucket.first >= unit.first && bucket.first < unit.end()) cost = cost + gather(bucket.count);
      exchange_.units.push_back(cost);
    }
  }

  /// Finds the gathers for which layers wait: those of the parameters from the layer's first one on; of all parameters,
  /// if a node's ranks have 16-bit copies in common.
  void find_awaited(const std::vector<ElementRange>& gathered) {
    const bool rounds_together = shares_ && !sums_.one_node() &&
                                 workload_.layout().master() != workload_.config().dtype();
    std::map<std::string, std::int64_t> places;
    for (const Parameter& parameter : workload_.layout().parameters()) places[parameter.name] = parameter.range.first;
    const auto before = [&](int node) {
      std::int64_t first = rounds_together ? 0 : workload_.layout().size();
      const GraphNode& layer = workload_.graph().nodes()[static_cast<std::size_t>(node)];
      for (const ParameterSpec& spec : layer.parameters)
        if (const auto found = places.find(parameter_name(layer, spec)); found != places.end())
          first = std::min(first, found->second);
      return static_cast<std::size_t>(
          std::ranges::count_if(gathered, [&](const ElementRange& bucket) { return bucket.end() > first; }));
    };
    for (const Segment& segment : plan_.forward) {
      std::size_t& awaited = exchange_.awaited.emplace_back(0);
      for (const Task& task : segment.tasks) awaited = std::max(awaited, before(task.node));
    }
    const int last = static_cast<int>(workload_.graph().nodes().size()) - 1;
    exchange_.awaited.push_back(plan_.tile_rows > 0 ? before(last) : 0);
  }

  const Workload& workload_;
  const ParallelConfig& config_;
  const Machine& machine_;
  const ExecutionPlan& plan_;
  int ranks_, group_;  ///< number of all ranks, and of those that divide the model with each other
  bool divides_, shares_;
  Sums &sums_, &all_, &statistics_;  ///< of a group, of all ranks, and of ranks that share batch norms' statistics
  GradientBuckets buckets_;
  double bytes_ = workload_.element_bytes();
  StepTraffic exchange_;
};

}  // namespace

ExchangeCost StepTraffic::sent(std::int64_t micro_batches) const {
  ExchangeCost all = statistics * static_cast<double>(micro_batches);
  for (const ExchangeCost& sum : sums) all = all + sum * (divides_gradients() ? static_cast<double>(micro_batches) : 1);
  for (const ExchangeCost& sum : between_groups) all = all + sum;
  for (const ExchangeCost& gathered : gathers) all = all + gathered;
  if (!divides_values()) return all;
  UnitsInWindows here(windows);
  const auto bring = [&](std::size_t unit) { all = all + units[unit]; };
  for (std::int64_t i = 0; i < micro_batches; ++i)
    for (int time = 0; time < windows.times; ++time) here.enter(time, bring);
  return all;
}

StepTraffic step_traffic(const Workload& workload, const ParallelConfig& config, const Machine& machine, int ranks,
                         const ExecutionPlan& plan, SumsOfRanks& sums) {
  const int nodes = static_cast<int>(machine.nodes_of(ranks));
  validate_key(ranks % shard_group_size(config, ranks, nodes) == 0, "parallel.shard_group",
               "{} ranks do not fill nodes of {}, whose ranks would divide the model; take ranks that fill all nodes",
               ranks, machine.ranks_per_node);
  return Builder(workload, config, machine, ranks, plan, sums).build();
}

}  // namespace lockstep
