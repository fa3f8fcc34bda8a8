// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "comm/collective/algorithm.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {
namespace {

/// Adds a key that goes with all others.
void add_plain(std::vector<Option>& options, const char* key, std::vector<std::string> example) {
  options.push_back({.key = key, .example = std::move(example)});
}

std::string use_one_of(const std::function<bool(const Algorithm&)>& is_wanted) {
  return fmt::format("use one of auto, {}", fmt::join(algorithm_names(is_wanted), ", "));
}

/// Adds the keys that name algorithms.
void add_algorithms(std::vector<Option>& options, const GradientSumConfig& sums) {
  const auto divides = [](const Algorithm& algorithm) { return sums_can_be_divided(&algorithm); };
  const auto knows_nodes = [](const Algorithm& algorithm) { return sums_in_node_memory(&algorithm); };
  for (const Algorithm& algorithm : algorithms()) {
    Option option{.key = "parallel.all_reduce",
                  .value = fmt::format(": {}", algorithm.name),
                  .is_used = sums.all_reduce == &algorithm,
                  .example = {fmt::format("parallel.all_reduce={}", algorithm.name)}};
    if (!divides(algorithm))
      option.takes.push_back({Capability::divisible_sums, "it leaves all sums on all ranks", use_one_of(divides)});
    if (!knows_nodes(algorithm))
      option.takes.push_back({Capability::node_sums, "it does not distinguish nodes", use_one_of(knows_nodes)});
    if (algorithm.by_library)
      option.takes.push_back(
          {Capability::fp32_additions, "the library adds in the type that is sent", "use another algorithm"});
    add_value(options, std::move(option));
  }
  const CapabilityUse between{Capability::node_sums, "it is about what travels between nodes"};
  const auto sends = [](const Algorithm& algorithm) { return algorithm.all_reduce != nullptr; };
  for (const Algorithm& algorithm : algorithms()) {
    if (!sends(algorithm)) continue;
    Option option{.key = "parallel.between_nodes",
                  .value = fmt::format(": {}", algorithm.name),
                  .is_used = sums.between_nodes == &algorithm,
                  .needs = {between},
                  .example = {fmt::format("parallel.between_nodes={}", algorithm.name)}};
    if (!divides(algorithm))
      option.takes.push_back({Capability::divisible_sums, "it leaves all sums on all ranks",
                              use_one_of([&](const Algorithm& other) { return sends(other) && divides(other); })});
    add_value(options, std::move(option));
  }
  Option leaders{.key = "parallel.leaders",
                 .is_used = sums.leaders.has_value(),
                 .needs = {between},
                 .example = {"parallel.leaders=2"}};
  if (sums.leaders != 1)
    leaders.takes.push_back({Capability::one_sender, "several ranks of a node send", "use leaders: 1"});
  options.push_back(std::move(leaders));
  options.push_back({.key = "parallel.all_reduce_table",
                     .is_used = !sums.all_reduce_table.empty(),
                     .takes = {{Capability::one_algorithm, "it has one for each size"}},
                     .example = {"parallel.all_reduce_table=table.yaml"}});
}

/// Adds the keys that say in which form gradients travel.
void add_forms(std::vector<Option>& options, const ParallelConfig& config) {
  using Wire = GradientSumConfig::Wire;
  const CapabilityUse travel{Capability::fp32_wire, "they travel in 16 bits", "use wire: fp32"},
      additions{Capability::fp32_additions, "sums in 16 bits would lose small gradients", "use wire: fp32"};
  options.push_back({.key = "parallel.wire",
                     .value = ": bf16",
                     .is_used = config.sums.wire == Wire::bf16,
                     .needs = {additions},
                     .takes = {travel},
                     .example = {"parallel.wire=bf16"}});
  options.push_back(
      {.key = "parallel.wire",
       .value = ": fp16",
       .is_used = config.sums.wire == Wire::fp16,
       .needs = {additions,
                 {Capability::sums_of_gradients, "a loss scale keeps only these within the range of fp16", "use bf16"}},
       .takes = {travel},
       .example = {"parallel.wire=fp16", "precision.loss_scale={}"}});
  Option compress{.key = "parallel.compress",
                  .is_used = config.compress.present,
                  .needs = {{Capability::common_steps, "it compresses what all ranks sum in each step"},
                            {Capability::one_algorithm, "it compresses buckets of all sizes in the same way"},
                            {Capability::node_sums, "nodes sum exactly, and compress what travels between them"},
                            {Capability::one_sender, "one rank keeps the errors of its part"},
                            {Capability::fp32_wire, "it sets the format itself"},
                            {Capability::unscaled_gradients, "what a step that overflows leaves over would be lost"}},
                  .takes = {{Capability::exact_sums, "errors stay for the next sum"},
                            {Capability::divisible_sums, "its sums are complete on all ranks"}},
                  .example = {"parallel.compress={}"}};
  if (config.compress.error_feedback)
    compress.takes.push_back({Capability::forgotten_gradients, "its error_feedback brings them back"});
  options.push_back(std::move(compress));
  add_plain(options, "parallel.bucket_mb", {"parallel.bucket_mb=0.001"});
  options.push_back({.key = "parallel.overlap",
                     .value = ": thread",
                     .is_used = config.sums.overlap == GradientSumConfig::Overlap::thread,
                     .takes = {{Capability::sums_between_layers, "a second thread advances them", "use poll"}},
                     .example = {"parallel.overlap=thread"}});
}

/// Adds the keys that say how ranks divide the model, and where the optimizer's state is.
void add_divisions(std::vector<Option>& options, const ParallelConfig& config) {
  const ShardConfig& sharding = config.sharding;
  for (const Shard shard : {Shard::optimizer, Shard::gradients, Shard::parameters}) {
    const std::string name(shard_names[static_cast<std::size_t>(shard)]);
    Option option{
        .key = "parallel.shard",
        .value = ": " + name,
        .is_used = sharding.shard == shard,
        .needs = {{Capability::divisible_sums, "each rank updates its part"},
                  {Capability::one_algorithm, "the algorithm decides which rank owns which elements"},
                  {Capability::divisible_states, "ranks divide it among themselves"}},
        .takes = {{Capability::whole_parameters, "it divides them among ranks"},
                  {Capability::own_pass_times, "passes include the wait for other ranks' parameters and sums"}},
        .example = {"parallel.shard=" + name}};
    if (shard >= Shard::gradients)
      option.needs.push_back({Capability::sums_between_layers, "gradients are divided as soon as layers have them"});
    add_value(options, std::move(option));
  }
  const char* const parameters = "parallel.shard=parameters";
  add_plain(options, "parallel.unit_mb", {parameters, "parallel.unit_mb=0.001"});
  add_plain(options, "parallel.prefetch", {parameters, "parallel.prefetch=0"});
  add_plain(options, "parallel.shard_group", {parameters, "parallel.shard_group=1"});
  add_plain(options, "parallel.share_parameters", {parameters, "parallel.share_parameters=false"});
  add_plain(options, "parallel.memory_gb", {"parallel.memory_gb=1"});
  options.push_back({.key = "parallel.audit_every",
                     .is_used = config.audit_every > 0,
                     .needs = {{Capability::run_loop, "it compares between steps"}},
                     .example = {"parallel.audit_every=2"}});
  options.push_back({.key = "parallel.survive",
                     .is_used = config.survive,
                     .needs = {{Capability::run_loop, "it begins the run again with fewer ranks"}},
                     .takes = {{Capability::fixed_ranks, "the run continues with fewer ranks"}},
                     .example = {"parallel.survive=true"}});
  options.push_back({.key = "parallel.machine",
                     .is_used = !sharding.machine.empty(),
                     .needs = {{Capability::fixed_ranks, "it predicts times on this number of ranks", "name a shard"}},
                     .example = {"parallel.machine=machine.yaml"}});
  options.push_back({.key = "parallel.offload",
                     .is_used = config.offload.present,
                     .needs = {{Capability::some_states, "it keeps the state elsewhere"},
                               {Capability::divisible_states, "it reads and writes the state block by block"}},
                     .takes = {{Capability::states_in_memory, "it keeps the state elsewhere"}},
                     .example = {"parallel.offload={optimizer: .}"}});
}

/// Adds the keys that say how batches are cut, with steps that all ranks take together.
void add_shares(std::vector<Option>& options, const ParallelConfig& config) {
  const CapabilityUse own_parts{Capability::one_share, "it cuts batches in its own way"},
      own_statistics{Capability::common_statistics, "each part of a batch has statistics of its own"};
  options.push_back(
      {.key = "parallel.deterministic",
       .is_used = config.deterministic.present,
       .needs = {{Capability::exact_sums, "its trees add gradients in a fixed order"},
                 {Capability::same_bits, "equal bits are its purpose"}},
       .takes = {{Capability::free_order, "its tree fixes the parts and their order"}, own_parts, own_statistics},
       .example = {"parallel.deterministic={shards: 4}"}});
  options.push_back({.key = "parallel.shares",
                     .value = ": measured",
                     .is_used = config.measures_shares(),
                     .needs = {{Capability::own_pass_times, "it compares the speed of ranks"},
                               {Capability::common_steps, "it spares fast ranks the wait for slow ones in each step"},
                               {Capability::run_loop, "it deals out examples"}},
                     .takes = {{Capability::equal_parts, "slow ranks get fewer examples"},
                               {Capability::one_share, "slow ranks get fewer examples"},
                               {Capability::common_statistics, "numbers of examples change"}},
                     .example = {"parallel.shares=measured"}});
  options.push_back({.key = "parallel.virtual_replicas",
                     .is_used = config.virtual_replicas != 1,
                     .needs = {{Capability::one_share, "it cuts a rank's share into equal parts"}},
                     .takes = {{Capability::one_share, "it cuts shares into parts"}},
                     .example = {"parallel.virtual_replicas=2"}});
  options.push_back({.key = "parallel.sync_batch_norm",
                     .value = ": false",
                     .is_used = !config.sync_batch_norm,
                     .takes = {{Capability::common_statistics, "each rank has statistics of its own"}},
                     .example = {"parallel.sync_batch_norm=false"}});
  options.push_back({.key = "parallel.group_size",
                     .is_used = config.group_size.has_value(),
                     .needs = {{Capability::common_statistics, "it says how many ranks share them"}},
                     .example = {"parallel.group_size=1"}});
}

/// Adds `local` and its keys.
void add_local_steps(std::vector<Option>& options, const ParallelConfig& config) {
  const LocalConfig& local = config.local;
  options.push_back({.key = "parallel.local",
                     .is_used = local.present,
                     .needs = {{Capability::states_in_memory, "each group has a state of its own"},
                               {Capability::run_loop, "it synchronizes between steps"}},
                     .takes = {{Capability::common_steps, "groups of ranks step by themselves"},
                               {Capability::common_parameters, "groups differ until they synchronize"},
                               {Capability::same_bits, "results depend on the number of groups"},
                               {Capability::sums_of_gradients, "it sums changes of parameters, which vanish in fp16"},
                               {Capability::common_statistics, "local.group sets which ranks share them"},
                               {Capability::single_steps, "workers hand in the changes of several steps"}},
                     .example = {"parallel.local={every: 4}"}});
  const auto add_key = [&](const char* key, const char* value, bool is_used, std::vector<CapabilityUse> needs,
                           std::vector<CapabilityUse> takes, const char* example) {
    const std::string path = fmt::format("parallel.local.{}", key);
    options.push_back({.key = path,
                       .value = value,
                       .is_used = local.present && is_used,
                       .needs = std::move(needs),
                       .takes = std::move(takes),
                       .example = {"parallel.local={every: 4}", fmt::format("{}={}", path, example)}});
  };
  const CapabilityUse joint{Capability::joint_synchronizations, "it changes how all groups synchronize"},
      in_parts{Capability::whole_synchronizations, "parameters are synchronized in parts, or while groups step"},
      groups{Capability::own_groups, "it sets the size of groups"};
  const auto whole = [](const char* why) { return CapabilityUse{Capability::whole_parameters, why}; };
  add_key("from_step", "", local.from_step > 0, {joint, whole("ranks are divided anew after that step")}, {}, "2");
  add_key("node_every", "", local.node_every.has_value(),
          {joint,
           {Capability::whole_synchronizations, "nodes average all parameters"},
           {Capability::several_groups, "groups of a node average among themselves"}},
          {{Capability::unlike_groups, "it makes those of a node equal", "use group: node instead of node_every"}},
          "2");
  add_key("fragments", "", local.fragments > 1, {joint, whole("fragments are of all parameters")}, {in_parts}, "2");
  add_key("delay", "", local.delay > 0, {joint, whole("sums are of all parameters")}, {in_parts}, "1");
  add_key("outer", ": adasum", local.outer == LocalConfig::Outer::adasum,
          {{Capability::joint_synchronizations, "it compares the changes of all groups", "use average or nesterov"},
           {Capability::whole_synchronizations, "it compares changes to whole tensors", "use average or nesterov"},
           {Capability::unlike_groups, "Adasum compares the changes of different groups", "use average or nesterov"},
           whole("it compares whole tensors")},
          {}, "adasum");
  add_key("group", "", local.group && *local.group != 1, {groups}, {}, "2");
  add_key("group", ": node", !local.group, {groups}, {{Capability::several_groups, "a node is one group"}}, "node");
}

/// Adds the ways of training in which ranks need not wait for each other.
void add_workers(std::vector<Option>& options, const ParallelConfig& config) {
  const AsynchronousConfig& asynchronous = config.asynchronous;
  const char* const simulated = "parallel.asynchronous={collect: 2, schedule: {simulate: {ranks: 2}}}";
  const char* const freely = "parallel.asynchronous.schedule={free: true}";
  const std::vector<CapabilityUse> needs{{Capability::whole_parameters, "workers read all of them"},
                                         {Capability::free_order, "sums follow from the order in which gradients come"},
                                         {Capability::exact_sums, "each gradient is applied by itself"},
                                         {Capability::equal_parts, "each gradient is of one part of a batch"},
                                         {Capability::run_loop, "it deals out parts of batches"}};
  const std::vector<CapabilityUse> takes{
      {Capability::one_share, "it cuts batches in its own way"},
      {Capability::common_statistics, "each part of a batch has statistics of its own"}};
  const CapabilityUse host{Capability::host_memory, "ranks read parameters there at any time"};
  const CapabilityUse fixed_parts{Capability::whole_batches, "ranks take equal parts of each batch"};
  // With local steps, workers make their own updates.
  const auto add_free = [&](Option& option) {
    option.needs.push_back(host);
    option.needs.push_back({Capability::states_in_memory, "ranks that serve parameters update it at any time"});
    option.takes.push_back({Capability::common_steps, "ranks do not wait for each other"});
    option.takes.push_back(fixed_parts);
    if (config.has_stepping_workers()) return;
    option.needs.push_back({Capability::partial_updates, "ranks that do not wait for each other divide each update"});
    option.needs.push_back({Capability::equal_weights, "an update is divided by its number of examples"});
    option.takes.push_back({Capability::whole_norm, "each rank knows a part of an update"});
  };

  Option asynchronously{.key = "parallel.asynchronous",
                        .is_used = asynchronous.present,
                        .needs = needs,
                        .takes = takes,
                        .example = {simulated}};
  asynchronously.needs.push_back({Capability::unscaled_gradients, "workers would have different loss scales"});
  asynchronously.takes.push_back({Capability::newest_parameters, "it applies those by older parameters, too"});
  asynchronously.takes.push_back({Capability::joint_synchronizations, "workers do not wait for each other"});
  asynchronously.takes.push_back(
      {Capability::own_groups, "asynchronous.groups sets the ranks of a worker", "give asynchronous.groups"});
  options.push_back(std::move(asynchronously));
  Option runs_freely{.key = "parallel.asynchronous.schedule.free",
                     .is_used = asynchronous.present && asynchronous.free,
                     .example = {simulated, freely}};
  add_free(runs_freely);
  options.push_back(std::move(runs_freely));
  options.push_back({.key = "parallel.asynchronous.groups",
                     .is_used = asynchronous.present && asynchronous.groups.has_value(),
                     .takes = {{Capability::workers_of_one_rank, "several ranks are one worker"}},
                     .example = {simulated, freely, "parallel.asynchronous.groups=1"}});
  options.push_back({.key = "parallel.asynchronous.staleness",
                     .value = ": compensate",
                     .is_used = asynchronous.compensates(),
                     .needs = {{Capability::single_steps, "it corrects gradients", "use divide or none"},
                               {Capability::gradient_steps, "its correction is derived for updates along the gradient",
                                "use another staleness"}},
                     .example = {simulated, "parallel.asynchronous.staleness=compensate"}});
  options.push_back({.key = "parallel.local",
                     .value = " with parallel.asynchronous",
                     .is_used = config.has_stepping_workers(),
                     .needs = {host},
                     .takes = {fixed_parts},
                     .example = {"parallel.local={every: 4}", simulated}});

  Option backup{.key = "parallel.backup",
                .is_used = config.backup.present,
                .needs = needs,
                .takes = takes,
                .example = {"parallel.backup=1"}};
  backup.needs.push_back({Capability::newest_parameters, "it drops gradients by older parameters"});
  backup.needs.push_back({Capability::common_parameters, "an update changes them on all ranks"});
  backup.needs.push_back({Capability::unscaled_gradients, "each rank checks its gradient by itself"});
  add_free(backup);
  options.push_back(std::move(backup));
  options.push_back({.key = "parallel.servers",
                     .is_used = config.servers > 0,
                     .needs = {{Capability::workers_of_one_rank, "they serve single ranks"}},
                     .example = {simulated, freely, "parallel.servers=1"}});
}

}  // namespace

std::vector<Option> ParallelConfig::options() const {
  std::vector<Option> all;
  add_divisions(all, *this);
  add_shares(all, *this);
  add_local_steps(all, *this);
  add_workers(all, *this);
  add_forms(all, *this);
  add_algorithms(all, sums);
  return all;
}

}  // namespace lockstep
