// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/shard_times.hpp"

#include "comm/topology.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {

std::vector<TrainingConfig::ShardTime> shard_times(const Machine& machine, Workload& workload, RankCount ranks) {
  std::vector<TrainingConfig::ShardTime> times;
  const ParallelConfig given = workload.config().parallel;
  const auto take = [&](const Shard shard) {
    workload.change([&](TrainingConfig& config) { config.parallel.sharding.take(shard); });
  };
  take(Shard::none);
  MemoryEstimate memory = workload.plan(ranks);
  const Predictor predictor(machine, workload);
  SumsOfRanks sums(machine, given);
  const bool whole_sums = has_whole_sums(given, expected_devices(ranks.all));
  for (const Shard shard : shards_by_speed(workload.config(), ranks.all, whole_sums)) {
    take(shard);
    static_cast<ModelMemory&>(memory) = model_memory(workload.config(), workload.graph(), memory.plan, ranks);
    times.push_back({shard, predictor.predict_step(ranks.all, memory, sums).step()});
  }
  workload.change([&](TrainingConfig& config) { config.parallel = given; });
  return times;
}

void predict_shards(RunConfig& config, RankCount ranks) {
  const ParallelConfig& parallel = config.parallel;
  if (!parallel.sharding.chooses_shard || parallel.sharding.machine.empty()) return;
  config.shard_times.emplace();
  if (ranks.all == 1 || not_predicted(parallel)) return;
  Machine machine = read_machine(parallel.sharding.machine);
  if (ranks.all % ranks.nodes == 0) machine.ranks_per_node = ranks.all / ranks.nodes;
  with_positions(config.source, [&] {
    Workload workload(config);
    if (ranks.all <= workload.batch()) config.shard_times = shard_times(machine, workload, ranks);
  });
}

void predict_shards(RunConfig& config, const Communicator& comm) {
  const RankCount ranks{comm.size(), Topology(comm).nodes};
  comm.run_collectively([&] {
    if (comm.is_root()) predict_shards(config, ranks);
  });
}

}  // namespace lockstep
