// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/choose_shard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {
namespace {

std::string_view name_of(Shard shard) { return shard_names[static_cast<std::size_t>(shard)]; }

/// Predicted step times of the ways to divide a model.
class ShardTimes {
 public:
  explicit ShardTimes(const TrainingConfig& config) : config_(config) {}

  bool are_known() const { return config_.shard_times && !config_.shard_times->empty(); }
  /// Seconds of a step; infinite if they are not predicted.
  double of(Shard shard) const {
    const auto found = std::ranges::find(*config_.shard_times, shard, &TrainingConfig::ShardTime::shard);
    return found == config_.shard_times->end() ? std::numeric_limits<double>::infinity() : found->seconds;
  }
  /// "predicted 97.8 ms per step (gradients 99.4, none 104)".
  std::string text(const std::vector<Shard>& shards, Shard chosen) const {
    std::vector<std::string> others;
    for (const Shard shard : shards)
      if (shard != chosen) others.push_back(fmt::format("{} {}", name_of(shard), milliseconds_text(of(shard), 3)));
    return fmt::format("predicted {} ms per step{}", milliseconds_text(of(chosen), 3),
                       others.empty() ? "" : fmt::format(" ({})", fmt::join(others, ", ")));
  }
  /// Says that nothing is predicted although the deck names a machine; else empty.
  std::string missing() const {
    return !config_.parallel.sharding.machine.empty() && !are_known() ? " (the time of such steps cannot be predicted)"
                                                                      : "";
  }

 private:
  const TrainingConfig& config_;
};

}  // namespace

bool has_whole_sums(const ParallelConfig& config, const DeviceFacts& facts) {
  return config.deterministic.present || choose_device_sums(config, facts).path != DeviceSums::Path::on_hosts;
}

std::vector<Shard> shards_by_speed(const TrainingConfig& config, int ranks, bool whole_sums) {
  if (ranks == 1 || !config.optimizer.rule().divides()) return {Shard::none};
  std::vector<Shard> shards;
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters})
    if (config.parallel.allows(shard)) shards.push_back(shard);
  shards.insert(whole_sums ? shards.begin() : shards.end(), Shard::none);
  return shards;
}

namespace {

ShardChoice choose_shard(const TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory,
                         RankCount ranks, bool whole_sums) {
  std::vector<Shard> shards = shards_by_speed(config, ranks.all, whole_sums);
  const double limit = 1e9 * config.parallel.sharding.memory_gb;
  const ShardTimes times(config);
  if (times.are_known()) std::ranges::stable_sort(shards, {}, [&](Shard shard) { return times.of(shard); });
  std::vector<double> bytes;
  for (const Shard shard : shards) bytes.push_back(memory_with(shard, config, graph, memory, ranks));
  const auto fits = std::ranges::find_if(bytes, [&](double needed) { return limit == 0 || needed <= limit; });
  const auto chosen = fits != bytes.end() ? fits : std::ranges::min_element(bytes);
  const auto shard_of = [&](auto place) { return shards[static_cast<std::size_t>(place - bytes.begin())]; };
  const Shard shard = shard_of(chosen);
  std::string why = fmt::format("auto chooses {}: ", name_of(shard));
  if (ranks.all == 1) return {.shard = shard, .why = why + "there is one rank"};
  if (fits == bytes.end())
    return {.shard = shard,
            .fits = false,
            .why = fmt::format("no shard that auto can choose fits into {} per rank; {} needs the least, {}",
                               bytes_text(limit), name_of(shard), bytes_text(*chosen))};
  if (times.are_known()) why += times.text(shards, shard);
  if (limit == 0) {
    if (!times.are_known())
      why += fmt::format("parallel.memory_gb sets no limit, and no other shard is faster{}", times.missing());
    return {.shard = shard, .why = why};
  }
  why += fmt::format("{}a step needs {} of {} per rank", times.are_known() ? "; " : "", bytes_text(*chosen),
                     bytes_text(limit));
  for (auto faster = bytes.begin(); faster != chosen; ++faster)
    why += fmt::format("{} {} would need {}", faster == bytes.begin() ? ";" : ",", name_of(shard_of(faster)),
                       bytes_text(*faster));
  return {.shard = shard, .why = why + times.missing()};
}

}  // namespace

std::optional<ShardChoice> resolve_shard(TrainingConfig& config, const Graph& graph, const MemoryEstimate& memory,
                                         RankCount ranks, bool whole_sums) {
  if (!config.parallel.sharding.chooses_shard) return std::nullopt;
  ShardChoice choice = choose_shard(config, graph, memory, ranks, whole_sums);
  config.parallel.sharding.take(choice.shard);
  return choice;
}

}  // namespace lockstep
