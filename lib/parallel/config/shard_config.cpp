// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/config/shard_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <tuple>

namespace lockstep {

void ShardConfig::describe(Fields& fields) {
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
  fields.number("unit_mb", unit_mb, {0.001, 65536},
                "largest size in megabytes of a unit of neighbouring layers, whose parameters are sent together; a "
                "larger layer is a unit by itself, and no bucket crosses units");
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

std::vector<std::string> ShardConfig::remarks() const {
  if (chooses_shard) return {};
  const std::string_view way = shard_names[static_cast<std::size_t>(shard)];
  const bool divides = shard != Shard::none;
  const std::tuple<const char*, bool, const char*> without_effect[] = {
      {"machine", !machine.empty(), "auto"},
      {"shard_group", !divides && (shard_group.number || shard_group.word != all),
       "optimizer, gradients or parameters"},
      {"share_parameters", !divides && !share_parameters, "optimizer, gradients or parameters"},
      {"prefetch", shard != Shard::parameters && prefetch != ShardConfig().prefetch, "parameters"},
  };
  std::vector<std::string> remarks;
  for (const auto& [key, is_set, of] : without_effect)
    if (is_set)
      remarks.push_back(
          fmt::format("parallel.{}: has no effect with parallel.shard: {} (only with {}); leave it out", key, way, of));
  return remarks;
}

}  // namespace lockstep
