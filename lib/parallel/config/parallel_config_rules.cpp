// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "comm/collective/algorithm.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {
namespace {

/// Name of the key that cuts batches and sums gradients in a way of its own; null: there is none.
const char* own_way(const ParallelConfig& config) {
  return config.deterministic.present  ? "deterministic"
         : config.asynchronous.present ? "asynchronous"
         : config.backup.present       ? "backup"
                                       : nullptr;
}

/// Refuses keys that would change what is computed, if deterministic, asynchronous or backup did not ignore them.
void check_own_way(const ParallelConfig& config, Fields& fields) {
  const char* const way = own_way(config);
  fields.check(!way || config.virtual_replicas == 1, "virtual_replicas",
               fmt::format("{} cuts batches in its own way; leave one out", way ? way : ""));
  fields.check(!config.group_size || (config.sync_batch_norm && !way), "group_size",
               fmt::format("is for ranks that share batch_norm's statistics, and with {} none do; leave one out",
                           way ? way : "sync_batch_norm: false"));
}

void check_shard(const ParallelConfig& config, Fields& fields) {
  for (const auto& [key, algorithm] :
       {std::pair("all_reduce", config.sums.all_reduce), {"between_nodes", config.sums.between_nodes}})
    fields.check(
        sums_can_be_divided(algorithm), key,
        fmt::format(
            "{} leaves all sums on all ranks, but shard: {} needs them divided; use one of {}",
            algorithm ? algorithm->name : "", shard_names[static_cast<std::size_t>(config.sharding.shard)],
            fmt::join(algorithm_names([&](const Algorithm& other) { return sums_can_be_divided(&other); }), ", ")));
  fields.check(config.sharding.shard < Shard::gradients || config.sums.overlap != GradientSumConfig::Overlap::thread,
               "overlap", "divided gradients are summed between layers, not by a second thread; use poll");
  fields.check(config.sums.all_reduce_table.empty(), "all_reduce_table",
               "cannot be combined with shard, which uses one algorithm for sums of all sizes; leave one out");
}

void check_local(const ParallelConfig& config, Fields& fields) {
  fields.check(!config.sharding.divides(), "local",
               "needs whole replicas, but shard divides them among all ranks; leave one out");
  fields.check(!config.deterministic.present, "local",
               "results depend on the number of groups, but deterministic needs the same bits with any number; leave "
               "one out");
  fields.check(!config.group_size, "group_size",
               "local.group sets which ranks share batch_norm's statistics; leave it out");
  fields.check(
      config.sums.wire != GradientSumConfig::Wire::fp16, "wire",
      "the changes of parameters between synchronizations of local vanish in fp16, which no loss scale prevents; use "
      "bf16 or fp32");
}

void check_shares(const ParallelConfig& config, Fields& fields) {
  fields.check(
      !config.sharding.divides(), "shares",
      "measured compares the time of passes, which with shard includes waiting for other ranks' parameters and sums; "
      "leave one out");
  fields.check(
      !config.local.present, "shares",
      "measured spares fast ranks the wait for slow ones in each step, but groups of local do not wait in each step; "
      "leave one out");
  fields.check(config.virtual_replicas == 1, "virtual_replicas",
               "cuts equal shares, but shares: measured makes them unequal; leave one out");
  fields.check(!config.group_size, "group_size",
               "batch_norm's groups would see changing numbers of examples with shares: measured; leave one out");
  constexpr std::int64_t most_shards = 1024;
  fields.check(!config.deterministic.present || config.deterministic.shards <= most_shards, "shares",
               fmt::format("measured distributes at most {} shards (deterministic has {}); give fewer", most_shards,
                           config.deterministic.shards));
}

/// Refuses what goes with neither asynchronous nor backup ranks.
void check_workers(const ParallelConfig& config, Fields& fields, std::string_view key) {
  fields.check(!config.sharding.divides(), key,
               "needs whole copies of the parameters, but shard divides them among ranks; leave one out");
  fields.check(!config.local.present || config.local.asynchronous, key,
               "updates the parameters of all ranks, but local lets them differ for a while; leave one out");
  fields.check(!config.deterministic.present, key,
               "determines by itself which parts of a batch are summed, and in which order; leave deterministic out");
  fields.check(!config.compress.present, key,
               "sums exact gradients, but compress leaves errors for the next sum; leave one out");
  fields.check(!config.measures_shares(), key,
               "divides a batch into equal parts, but shares: measured into unequal ones; leave one out");
}

/// Checks the rules of asynchronous and backup ranks, and of their servers.
void check_free(const ParallelConfig& config, Fields& fields) {
  fields.check(
      !config.has_stepping_workers() || !config.asynchronous.compensates(), "asynchronous",
      "staleness: compensate corrects gradients, but with local, workers hand in the changes of several steps; use "
      "divide or none");
  fields.check(!config.asynchronous.present || !config.backup.present, "backup",
               "cannot be combined with asynchronous (steps wait for the newest gradients with backup, and do not "
               "with asynchronous); leave one out");
  fields.check(config.servers == 0 || !config.asynchronous.groups, "servers",
               "serve single ranks, but asynchronous.groups puts several into one worker; leave one out");
}

void check_compress(const ParallelConfig& config, Fields& fields) {
  const auto needs = [&](bool ok, std::string_view key, std::string_view why) {
    fields.check(!config.compress.present || ok, key, fmt::format("{}, or leave compress out", why));
  };
  needs(!config.sharding.divides(), "shard", "compressed sums are not divided, but complete on all ranks; use none");
  needs(!config.deterministic.present, "deterministic",
        "fixed trees sum exact gradients, which compress does not send; leave it out");
  needs(!config.local.present, "local", "compress is for gradients that all ranks sum in each step; leave it out");
  needs(config.sums.wire == GradientSumConfig::Wire::fp32, "wire",
        "compress itself sets the format in which gradients are sent; use fp32");
  needs(sums_in_node_memory(config.sums.all_reduce), "all_reduce",
        "compress sums in a node's memory, and between nodes in its own way; use auto or hierarchical");
  needs(config.sums.all_reduce_table.empty(), "all_reduce_table",
        "compress uses one algorithm for all sizes; leave it out");
  needs(config.sums.leaders.value_or(1) == 1, "leaders", "compressed sums have one leader in each node; use auto or 1");
}

}  // namespace

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
  check_own_way(*this, fields);
  sums.check(fields);
  if (sharding.divides()) check_shard(*this, fields);
  if (local.present) check_local(*this, fields);
  if (measures_shares()) check_shares(*this, fields);
  if (asynchronous.present) check_workers(*this, fields, "asynchronous");
  if (backup.present) check_workers(*this, fields, "backup");
  check_free(*this, fields);
  check_compress(*this, fields);
}

}  // namespace lockstep
