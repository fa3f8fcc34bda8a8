// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/parallel_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>

#include "comm/collective/algorithm.hpp"
#include "config/deck.hpp"

namespace lockstep {
namespace {

bool sends_messages(const Algorithm& algorithm) { return algorithm.all_reduce != nullptr; }

/// Whether an algorithm's sums can be divided among ranks; null: auto.
bool divides(const Algorithm* algorithm) {
  return !algorithm || algorithm->reduce_scatter || algorithm->in_node_memory;
}

/// Describes a key that names one of some algorithms, or auto.
void choose(Fields& fields, std::string_view key, const Algorithm*& chosen, std::vector<std::string_view> names,
            const std::string& help) {
  names.insert(names.begin(), "auto");
  int index = chosen ? static_cast<int>(std::ranges::find(names, chosen->name) - names.begin()) : 0;
  fields.choice(key, index, names, help);
  chosen = find_algorithm(names[static_cast<std::size_t>(index)]);
}

std::string all_reduce_help() {
  std::string help = "all-reduce algorithm that sums gradients over ranks: ";
  for (const Algorithm& algorithm : algorithms()) help += fmt::format("{} ({}), ", algorithm.name, algorithm.help);
  return help +
         "or auto: nccl where it can be used, else hierarchical, or the fastest in all_reduce_table for the size of a "
         "bucket";
}

}  // namespace

bool ParallelConfig::allows(Shard wanted) const {
  if (offload.present && !offload.parameters.empty() && wanted != Shard::parameters) return false;
  if (wanted == Shard::none) return true;
  return !local.present && !asynchronous.present && !backup.present && !compress.present && !measures_shares() &&
         divides(all_reduce) && divides(between_nodes) && all_reduce_table.empty() &&
         (wanted < Shard::gradients || overlap != Overlap::thread);
}

StrategyKind ParallelConfig::strategy(int ranks) const {
  if (runs_freely()) return StrategyKind::free;
  if (has_stepping_workers()) return StrategyKind::simulated_workers;
  if (local.present) return StrategyKind::local;
  if (asynchronous.present) return StrategyKind::simulated_gradients;
  const bool divides = ranks > 1 || offloads_parameters();
  return shard != Shard::none && divides ? StrategyKind::sharded : StrategyKind::data;
}

SumOptions ParallelConfig::sums() const {
  static constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};
  return {.all_reduce = all_reduce,
          .wire = types[static_cast<std::size_t>(wire)],
          .between_nodes = between_nodes,
          .leaders = leaders};
}

int ParallelConfig::workers(int ranks) const {
  validate_key(servers < ranks, "parallel.servers",
               "{} of {} ranks leave none to compute; give fewer, or start more ranks", servers, ranks);
  return (ranks - static_cast<int>(servers)) / static_cast<int>(asynchronous.members(ranks));
}

std::int64_t ParallelConfig::gradients_of_update(int ranks) const {
  if (!backup.present) return asynchronous.collect;
  const int workers = this->workers(ranks);
  validate_key(backup.ranks < workers, "parallel.backup.ranks",
               "{} of {} ranks that compute leave none for a step to wait for; give fewer, or start more ranks",
               backup.ranks, workers);
  return workers - backup.ranks;
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
  describe_sums(fields);
  describe_shard(fields);
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
  fields.check(
      !survive || machine.empty(), "machine",
      "cannot be combined with parallel.survive, which may change the number of ranks that it predicts for; leave it "
      "out, or give shard instead");
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
      "offload", offload.present, [this](Fields& section) { offload.describe(section, shard); },
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
  check_own_sums(fields);
  check_hierarchy(fields);
  if (shard != Shard::none) check_shard(fields);
  if (local.present) check_local(fields);
  if (measures_shares()) check_shares(fields);
  if (asynchronous.present) check_workers(fields, "asynchronous");
  if (backup.present) check_workers(fields, "backup");
  check_free(fields);
  if (all_reduce && all_reduce->by_library)
    fields.check(wire == Wire::fp32, "wire",
                 fmt::format("all_reduce: {} adds in the type that is sent; use another algorithm, or wire: fp32",
                             all_reduce->name));
  check_compress(fields);
}

void ParallelConfig::describe_sums(Fields& fields) {
  static constexpr std::string_view overlaps[] = {"auto", "none", "poll", "thread"};
  static constexpr std::string_view wires[] = {"fp32", "bf16", "fp16"};
  fields.number("bucket_mb", bucket_mb, {0.001, 1024},
                "size in megabytes of the buckets in which gradients are summed over ranks; the first and the last "
                "bucket have 1 MB at most");
  fields.number("unit_mb", unit_mb, {0.001, 65536},
                "largest size in megabytes of a unit of neighbouring layers, whose parameters are sent together; a "
                "larger layer is a unit by itself, and no bucket crosses units");
  choose(fields, "all_reduce", all_reduce, algorithm_names([](const Algorithm&) { return true; }), all_reduce_help());
  fields.path(
      "all_reduce_table", all_reduce_table,
      "file made by lockstep bench allreduce --save, which tells auto the fastest algorithm for each size in bytes");
  choose(fields, "between_nodes", between_nodes, algorithm_names(sends_messages),
         "algorithm of hierarchical sums between nodes (auto: the fastest for the number of nodes and the size)");
  fields.integer_or("leaders", leaders, "auto", at_least_one,
                    "number of ranks of each node that take part in hierarchical sums between nodes (auto: up to 4)");
  fields.choice("wire", wire, wires,
                "type in which gradients are sent between ranks that share no memory (with precision.compute: fp64 "
                "always fp64); they are added in fp32, except by nccl, which also adds in 16 bits");
  fields.choice("overlap", overlap, overlaps,
                "how sums overlap the backward pass: poll (advanced between layers), thread (by a second thread), none "
                "(after the pass); auto: the fastest of these in the first steps, but none on a single node of CPUs, "
                "whose cores would do both");
}

void ParallelConfig::describe_shard(Fields& fields) {
  static constexpr std::string_view shards[] = {"none", "optimizer", "gradients", "parameters", "auto"};
  static_assert(std::ranges::equal(shard_names, std::span(shards).first(std::size(shard_names))));
  constexpr int automatic = std::size(shard_names);
  int way = chooses_shard ? automatic : static_cast<int>(shard);
  fields.choice("shard", way, shards,
                "what ranks divide among themselves instead of each having a copy: none; optimizer (the optimizer's "
                "state; ZeRO stage 1); gradients (these too; ZeRO stage 2); parameters (these too, gathered unit by "
                "unit for as long as layers need them; ZeRO stage 3, fully sharded data parallelism); auto: the "
                "fastest of these whose step fits into memory_gb");
  fields.path("machine", machine,
              "file made by lockstep bench machine --save, by which shard: auto predicts the fastest way (when not "
              "given: the way that sends and updates least)");
  chooses_shard = way == automatic;
  shard = chooses_shard ? Shard::none : static_cast<Shard>(way);
  static constexpr std::string_view groups[] = {"all", "node"};
  fields.integer_or("shard_group", shard_group, groups, at_least_one,
                    "ranks that divide the model among themselves: all, node (those of a node) or a number of "
                    "consecutive ranks; each such group has a whole model, and gradients are then summed over groups");
  fields.boolean("share_parameters", share_parameters,
                 "whether the ranks of a node have one copy of the parameters in shared memory, with shard and where "
                 "kernels run on CPUs");
  fields.number("memory_gb", memory_gb, not_negative,
                "most memory in gigabytes (10⁹ bytes) that a step may need on a rank, by its plan; a run that needs "
                "more does not start (0: no limit)");
  fields.integer("prefetch", prefetch, {0, 16},
                 "number of units (see unit_mb) that are gathered ahead of the one in use, with shard: parameters");
}

std::vector<std::string> ParallelConfig::remarks() const {
  if (chooses_shard) return {};
  const std::string_view way = shard_names[static_cast<std::size_t>(shard)];
  const bool divides = shard != Shard::none;
  const std::tuple<const char*, bool, const char*> without_effect[] = {
      {"machine", !machine.empty(), "auto"},
      {"shard_group", !divides && (shard_group.number || shard_group.word != all),
       "optimizer, gradients or parameters"},
      {"share_parameters", !divides && !share_parameters, "optimizer, gradients or parameters"},
      {"prefetch", shard != Shard::parameters && prefetch != ParallelConfig().prefetch, "parameters"},
  };
  std::vector<std::string> remarks;
  for (const auto& [key, is_set, of] : without_effect)
    if (is_set)
      remarks.push_back(
          fmt::format("parallel.{}: has no effect with parallel.shard: {} (only with {}); leave it out", key, way, of));
  return remarks;
}

/// Refuses keys that have no use beside deterministic, asynchronous or backup.
void ParallelConfig::check_own_sums(Fields& fields) const {
  const std::pair<std::string_view, bool> of_no_use[] = {
      {"virtual_replicas", virtual_replicas != 1},
      {"all_reduce", all_reduce != nullptr},
      {"all_reduce_table", !all_reduce_table.empty()},
      {"between_nodes", between_nodes != nullptr},
      {"leaders", leaders.has_value()},
      {"wire", wire != Wire::fp32},
      {"overlap", overlap != Overlap::automatic && overlap != Overlap::none},
  };
  const char* const own_way = deterministic.present  ? "deterministic"
                              : asynchronous.present ? "asynchronous"
                              : backup.present       ? "backup"
                                                     : nullptr;
  for (const auto& [key, is_set] : of_no_use)
    fields.check(
        !own_way || !is_set, key,
        fmt::format("{} cuts batches and sums gradients in its own way, after the backward pass; leave one out",
                    own_way ? own_way : ""));
  fields.check(!group_size || (sync_batch_norm && !own_way), "group_size",
               fmt::format("is for ranks that share batch_norm's statistics, and with {} none do; leave one out",
                           own_way ? own_way : "sync_batch_norm: false"));
}

void ParallelConfig::check_hierarchy(Fields& fields) const {
  for (const auto& [key, is_set] :
       {std::pair("between_nodes", between_nodes != nullptr), {"leaders", leaders.has_value()}})
    fields.check(!is_set || sums_in_node_memory(all_reduce), key,
                 fmt::format("is for hierarchical sums, but all_reduce: {} does not distinguish nodes; leave one out",
                             all_reduce ? all_reduce->name : ""));
}

void ParallelConfig::check_shard(Fields& fields) const {
  for (const auto& [key, algorithm] : {std::pair("all_reduce", all_reduce), {"between_nodes", between_nodes}})
    fields.check(
        divides(algorithm), key,
        fmt::format("{} leaves all sums on all ranks, but shard: {} needs them divided; use one of {}",
                    algorithm ? algorithm->name : "", shard_names[static_cast<std::size_t>(shard)],
                    fmt::join(algorithm_names([&](const Algorithm& other) { return divides(&other); }), ", ")));
  fields.check(shard < Shard::gradients || overlap != Overlap::thread, "overlap",
               "divided gradients are summed between layers, not by a second thread; use poll");
  fields.check(all_reduce_table.empty(), "all_reduce_table",
               "cannot be combined with shard, which uses one algorithm for sums of all sizes; leave one out");
}

/// Checks the rules of asynchronous and backup ranks, and of their servers.
void ParallelConfig::check_free(Fields& fields) const {
  fields.check(
      !has_stepping_workers() || !asynchronous.compensates(), "asynchronous",
      "staleness: compensate corrects gradients, but with local, workers hand in the changes of several steps; use "
      "divide or none");
  fields.check(!asynchronous.present || !backup.present, "backup",
               "cannot be combined with asynchronous (steps wait for the newest gradients with backup, and do not "
               "with asynchronous); leave one out");
  fields.check(
      servers == 0 || runs_freely(), "servers",
      "are for ranks that run freely (backup, or asynchronous.schedule.free), but these ranks step together; leave "
      "it out");
  fields.check(servers == 0 || !asynchronous.groups, "servers",
               "serve single ranks, but asynchronous.groups puts several into one worker; leave one out");
}

void ParallelConfig::check_compress(Fields& fields) const {
  const auto needs = [&](bool ok, std::string_view key, std::string_view why) {
    fields.check(!compress.present || ok, key, fmt::format("{}, or leave compress out", why));
  };
  needs(shard == Shard::none, "shard", "compressed sums are not divided, but complete on all ranks; use none");
  needs(!deterministic.present, "deterministic",
        "fixed trees sum exact gradients, which compress does not send; leave it out");
  needs(!local.present, "local", "compress is for gradients that all ranks sum in each step; leave it out");
  needs(wire == Wire::fp32, "wire", "compress itself sets the format in which gradients are sent; use fp32");
  needs(sums_in_node_memory(all_reduce), "all_reduce",
        "compress sums in a node's memory, and between nodes in its own way; use auto or hierarchical");
  needs(all_reduce_table.empty(), "all_reduce_table", "compress uses one algorithm for all sizes; leave it out");
  needs(leaders.value_or(1) == 1, "leaders", "compressed sums have one leader in each node; use auto or 1");
}

void ParallelConfig::check_shares(Fields& fields) const {
  fields.check(
      shard == Shard::none, "shares",
      "measured compares the time of passes, which with shard includes waiting for other ranks' parameters and sums; "
      "leave one out");
  fields.check(
      !local.present, "shares",
      "measured spares fast ranks the wait for slow ones in each step, but groups of local do not wait in each step; "
      "leave one out");
  fields.check(virtual_replicas == 1, "virtual_replicas",
               "cuts equal shares, but shares: measured makes them unequal; leave one out");
  fields.check(!group_size, "group_size",
               "batch_norm's groups would see changing numbers of examples with shares: measured; leave one out");
  constexpr std::int64_t most_shards = 1024;
  fields.check(!deterministic.present || deterministic.shards <= most_shards, "shares",
               fmt::format("measured distributes at most {} shards (deterministic has {}); give fewer", most_shards,
                           deterministic.shards));
}

/// Refuses what goes with neither asynchronous nor backup ranks.
void ParallelConfig::check_workers(Fields& fields, std::string_view key) const {
  fields.check(shard == Shard::none, key,
               "needs whole copies of the parameters, but shard divides them among ranks; leave one out");
  fields.check(!local.present || local.asynchronous, key,
               "updates the parameters of all ranks, but local lets them differ for a while; leave one out");
  fields.check(!deterministic.present, key,
               "determines by itself which parts of a batch are summed, and in which order; leave deterministic out");
  fields.check(!compress.present, key,
               "sums exact gradients, but compress leaves errors for the next sum; leave one out");
  fields.check(!measures_shares(), key,
               "divides a batch into equal parts, but shares: measured into unequal ones; leave one out");
}

void ParallelConfig::check_local(Fields& fields) const {
  fields.check(shard == Shard::none, "local",
               "needs whole replicas, but shard divides them among all ranks; leave one out");
  fields.check(!deterministic.present, "local",
               "results depend on the number of groups, but deterministic needs the same bits with any number; leave "
               "one out");
  fields.check(!group_size, "group_size", "local.group sets which ranks share batch_norm's statistics; leave it out");
  fields.check(
      wire != Wire::fp16, "wire",
      "the changes of parameters between synchronizations of local vanish in fp16, which no loss scale prevents; use "
      "bf16 or fp32");
}

}  // namespace lockstep
