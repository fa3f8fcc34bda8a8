// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/parallel_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/text.hpp"
#include "config/deck.hpp"

namespace lockstep {
namespace {

/// Name of the key that cuts batches and sums gradients in a way of its own; null: there is none.
const char* own_way(const ParallelConfig& config) {
  return config.deterministic.present  ? "deterministic"
         : config.asynchronous.present ? "asynchronous"
         : config.backup.present       ? "backup"
                                       : nullptr;
}

}  // namespace

bool ParallelConfig::allows(Shard wanted) const {
  if (offload.present && !offload.parameters.empty() && wanted != Shard::parameters) return false;
  ParallelConfig config = *this;
  config.sharding.take(wanted);
  const std::vector<Option> all = config.options();
  const auto is_shard = [](const Option* option) { return option->key == "parallel.shard"; };
  return std::ranges::none_of(find_conflicts(all), [&](const Conflict& conflict) {
    return is_shard(conflict.needing) || is_shard(conflict.taking);
  });
}

StrategyKind ParallelConfig::strategy(int ranks) const {
  if (runs_freely()) return StrategyKind::free;
  if (has_stepping_workers()) return StrategyKind::simulated_workers;
  if (asynchronous.present) return StrategyKind::simulated_gradients;
  const bool divides = ranks > 1 || offloads_parameters();
  return sharding.divides() && divides ? StrategyKind::sharded : StrategyKind::data;
}

int ParallelConfig::workers(int ranks) const {
  validate_key(servers < ranks, "parallel.servers",
               "{} of {} ranks leave none to compute; give fewer, or start more ranks", servers, ranks);
  return (ranks - static_cast<int>(servers)) / static_cast<int>(asynchronous.members(ranks));
}

std::int64_t ParallelConfig::gradients_of_update(int ranks) const {
  if (!backup.present) return asynchronous.collect;
  const int workers = this->workers(ranks);
  const std::string idle = servers > 0 ? fmt::format(" (parallel.servers: {} compute nothing)", servers) : "";
  validate_key(workers > backup.ranks, "parallel.backup.ranks",
               "{} of {} ranks that compute leave none for a step to wait for{}; give fewer, or start more ranks",
               backup.ranks, workers, idle);
  return workers - backup.ranks;
}

void ParallelConfig::check_ranks(int ranks) const {
  if (synchronizes_groups() && local.group)
    validate_key(ranks % *local.group == 0, "parallel.local.group",
                 "{} ranks cannot be divided into groups of {}; use a divisor of the ranks, or node", ranks,
                 *local.group);
  if (runs_freely()) {  // these throw if they are wrong
    static_cast<void>(workers(ranks));
    static_cast<void>(gradients_of_update(ranks));
  }
  validate_key(!deterministic.present || deterministic.shards % ranks == 0, "parallel.deterministic.shards",
               "{} shards cannot be divided evenly among {} ranks; use a multiple, or fewer ranks",
               deterministic.shards, ranks);
}

void ParallelConfig::check_passes(int ranks, bool takes_statistics) const {
  if (takes_statistics) {
    validate_key(
        !runs_freely(), backup.present ? "parallel.backup" : "parallel.asynchronous.schedule.free",
        "lets each rank read the parameters in its own time, so batch_norm's running statistics would depend on "
        "timing; use another norm{}",
        backup.present ? "" : ", or simulate a schedule");
    validate_key(!has_stepping_workers(), "parallel.local",
                 "lets each worker step independently, so batch_norm would have no common running statistics; use "
                 "another norm");
    validate_key(
        !asynchronous.present || !sync_batch_norm, "parallel.sync_batch_norm",
        "asynchronous workers do not wait for each other, so batch_norm cannot use the examples of all of them; "
        "set it to false");
  }
  if (!asynchronous.present) return;
  const std::int64_t collect = asynchronous.collect, members = asynchronous.members(ranks);
  validate_key(has_workers() || collect % ranks == 0 || (ranks % collect == 0 && members % (ranks / collect) == 0),
               "parallel.asynchronous.collect",
               "{} per update{} cannot be divided evenly among {} ranks; use a multiple, or fewer ranks",
               counted(collect, "gradient"), members > 1 ? fmt::format(" (of {} pieces each)", members) : "", ranks);
  validate_key(!asynchronous.adaptive || ranks == 1, "parallel.asynchronous.adaptive",
               "{} ranks would each have the squares of only some of a worker's gradients; use one rank, or a "
               "constant lambda",
               ranks);
}

void ParallelConfig::Deterministic::describe(Fields& fields) {
  fields.integer("shards", shards, {1, 1 << 20},
                 "number of shards that each batch is cut into, each with a gradient of its own; a multiple of the "
                 "number of ranks");
}

void ParallelConfig::Offload::describe(Fields& fields, Shard shard) {
  fields.path("optimizer", optimizer,
              "where the optimizer's state is kept: memory (that of the host, in builds for GPUs) or a folder on a "
              "disk of the node (in builds for CPUs), in which each rank has a file that is gone when the run ends",
              Presence::required);
  fields.text("parameters", parameters,
              "where the parameters that a rank owns are kept, with shard: parameters: the same place as that of the "
              "optimizer's state (when not given: the memory that computes)");
  fields.number("block_mb", block_mb, {0.001, 65536},
                "size in megabytes of a block of all states, and of parameters if they are there too, that is read, "
                "updated and written at once; three such blocks stay in the memory that computes");
  fields.check(parameters.empty() || parameters == optimizer, "parameters",
               "must be in the same place as the optimizer's state (both are read, updated and written together); "
               "give the value of optimizer");
  fields.check(parameters.empty() || shard == Shard::parameters, "parameters",
               "needs parallel.shard: parameters, also on one rank (layers then hold only the parameters that they "
               "need next); give that, or leave it out");
}

void ParallelConfig::describe(Fields& fields) {
  sums.describe(fields);
  sharding.describe(fields);
  fields.boolean("sync_batch_norm", sync_batch_norm,
                 "true: batch_norm takes mean and variance over the examples of all ranks in each micro-batch, so that "
                 "the number of ranks does not matter; false: over each rank's own examples. Running statistics are "
                 "averages over ranks and micro-batches, weighted by their examples, in both cases");
  fields.integer_or("group_size", group_size, "all", at_least_one,
                    "number of consecutive ranks that share batch_norm's mean and variance, with sync_batch_norm");
  fields.integer("virtual_replicas", virtual_replicas, {1, 1 << 20},
                 "number of replicas that each rank stands for: its share of a batch is cut into this many parts, and "
                 "batch_norm without sync_batch_norm normalizes each of them separately");
  static constexpr std::string_view deals[] = {"equal", "measured"};
  fields.choice("shares", shares, deals,
                "equal: the ranks' shares of a batch differ by at most one example; measured: slow ranks get fewer "
                "examples, by the measured time of their passes, and the gradient is still the sum over all examples");
  fields.integer("audit_every", audit_every, not_negative,
                 "steps between bit-by-bit comparisons of the ranks' parameters and optimizer state, which are also "
                 "made before each checkpoint (0: no comparisons)");
  fields.boolean("survive", survive,
                 "whether the other ranks continue by themselves when a rank dies, from the newest checkpoint and in "
                 "the same processes; needs Open MPI 5 with mpirun --with-ft ulfm");
  fields.optional_section(
      "deterministic", deterministic.present, [this](Fields& section) { deterministic.describe(section); },
      "Gives the same bits on any number of ranks that divides the number of shards, whose gradients are added in a "
      "fixed tree");
  fields.optional_section(
      "asynchronous", asynchronous.present, [this](Fields& section) { asynchronous.describe(section); },
      "Asynchronous training: workers compute gradients from parameters that others have changed since; the workers "
      "are ranks that run freely, or simulated in a known order");
  local.asynchronous = asynchronous.present;
  fields.optional_section(
      "local", local.present, [this](Fields& section) { local.describe(section); },
      "Local SGD: groups of ranks take steps by themselves, and synchronize their parameters from time to time",
      "every");
  fields.optional_section(
      "offload", offload.present, [this](Fields& section) { offload.describe(section, sharding.shard); },
      "Keeps the optimizer's state, and optionally the parameters, outside the memory that computes: on a disk, or for "
      "a GPU in the host's memory");
  fields.optional_section(
      "compress", compress.present, [this](Fields& section) { compress.describe(section); },
      "Compresses gradients that are sent between nodes, or between ranks that share no memory");
  fields.optional_section(
      "backup", backup.present, [this](Fields& section) { backup.describe(section); },
      "Backup ranks: there are more ranks than a step waits for, so that slow ones do not delay it (Chen et al. 2016)",
      "ranks");
  fields.integer(
      "servers", servers, not_negative,
      "number of ranks, the first ones, that compute nothing and serve the parameters to asynchronous or backup ranks "
      "all the time (0: all ranks keep parts of the parameters, which they serve between their layers)");
  leave_out_unused();
  check(fields);
}

void ParallelConfig::leave_out_unused() {
  const auto leave_out = [this](std::string_view key, bool is_set, auto& value, auto unset, const std::string& why) {
    if (!is_set) return;
    value = unset;
    unused_.push_back(fmt::format("parallel.{}: has no effect ({}); leave it out", key, why));
  };
  leave_out("servers", servers != 0 && !runs_freely(), servers, 0,
            "only ranks that run freely, with backup or asynchronous.schedule.free, have servers");
  const char* const way = own_way(*this);
  if (!way) return;
  const std::string why = fmt::format("{} sums gradients in its own way, after the backward pass", way);
  const GradientSumConfig usual;
  leave_out("all_reduce", sums.all_reduce != nullptr, sums.all_reduce, nullptr, why);
  leave_out("all_reduce_table", !sums.all_reduce_table.empty(), sums.all_reduce_table, "", why);
  leave_out("between_nodes", sums.between_nodes != nullptr, sums.between_nodes, nullptr, why);
  leave_out("leaders", sums.leaders.has_value(), sums.leaders, std::nullopt, why);
  leave_out("wire", sums.wire != usual.wire, sums.wire, usual.wire, why);
  leave_out("overlap", sums.overlap != usual.overlap && sums.overlap != GradientSumConfig::Overlap::none, sums.overlap,
            usual.overlap, why);
  // Where ranks divide the model, buckets also say which parts they own.
  leave_out("bucket_mb", sums.bucket_mb != usual.bucket_mb && !sharding.divides() && !sharding.chooses_shard,
            sums.bucket_mb, usual.bucket_mb, why);
}

std::vector<std::string> ParallelConfig::remarks() const {
  std::vector<std::string> remarks = unused_;
  std::ranges::move(sharding.remarks(), std::back_inserter(remarks));
  return remarks;
}

void ParallelConfig::check(Fields& fields) const {
  constexpr std::int64_t most_shards = 1024;
  fields.check(!measures_shares() || !deterministic.present || deterministic.shards <= most_shards, "shares",
               fmt::format("measured distributes at most {} shards (deterministic has {}); give fewer", most_shards,
                           deterministic.shards));
}

}  // namespace lockstep
