// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/choose_shard.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace lockstep {
namespace {

using Shard = ParallelConfig::Shard;

std::string_view name_of(Shard shard) { return shard_names[static_cast<std::size_t>(shard)]; }

}  // namespace

bool has_whole_sums(const ParallelConfig& config, const DeviceFacts& facts) {
  return config.deterministic.present || choose_device_sums(config, facts).way != DeviceSums::Way::on_hosts;
}

std::vector<Shard> shards_by_speed(const TrainingConfig& config, int ranks, bool whole_sums) {
  if (ranks == 1 || !config.optimizer.divides()) return {Shard::none};
  std::vector<Shard> shards;
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters})
    if (config.parallel.allows(shard)) shards.push_back(shard);
  shards.insert(whole_sums ? shards.begin() : shards.end(), Shard::none);
  return shards;
}

ShardChoice choose_shard(const TrainingConfig& config, const Graph& graph, const StepMemory& memory, RankCount ranks,
                         bool whole_sums) {
  const std::vector<Shard> shards = shards_by_speed(config, ranks.all, whole_sums);
  const std::string takes = fmt::format("auto takes {}: ", name_of(shards.front()));
  if (ranks.all == 1) return {.shard = shards.front(), .why = takes + "there is one rank"};
  const double limit = 1e9 * config.parallel.memory_gb;
  if (limit == 0)
    return {.shard = shards.front(), .why = takes + "parallel.memory_gb sets no limit, and no other way is faster"};
  std::vector<double> bytes;
  for (const Shard shard : shards) bytes.push_back(memory_with(shard, config, graph, memory, ranks));
  const auto fits = std::ranges::find_if(bytes, [&](double needed) { return needed <= limit; });
  const auto chosen = fits != bytes.end() ? fits : std::ranges::min_element(bytes);
  const auto shard_of = [&](auto place) { return shards[static_cast<std::size_t>(place - bytes.begin())]; };
  if (fits == bytes.end())
    return {.shard = shard_of(chosen),
            .fits = false,
            .why = fmt::format("auto finds no way that fits into {} a rank; {} needs least, {}", bytes_text(limit),
                               name_of(shard_of(chosen)), bytes_text(*chosen))};
  std::string why = fmt::format("auto takes {}: a step needs {} of {} a rank", name_of(shard_of(chosen)),
                                bytes_text(*chosen), bytes_text(limit));
  for (auto faster = bytes.begin(); faster != chosen; ++faster)
    why += fmt::format("{} {} would need {}", faster == bytes.begin() ? ";" : ",", name_of(shard_of(faster)),
                       bytes_text(*faster));
  return {.shard = shard_of(chosen), .why = why};
}

}  // namespace lockstep
