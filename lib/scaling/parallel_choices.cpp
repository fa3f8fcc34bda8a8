// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/parallel_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "parallel/parallel_memory.hpp"
#include "scaling/prediction.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {
namespace {

/// A machine for which only the schedules matter, not the speed.
Machine any_machine(RankCount ranks, Precision precision) {
  Machine machine;
  machine.ranks_per_node = ranks.all / ranks.nodes;
  machine.products = {{precision, 1, 1}};
  machine.memory_gbps = machine.reduce_gbps = 1;
  machine.node = machine.sum = machine.network = {.latency_us = 1, .bandwidth_gbps = 1};
  return machine;
}

/// Numbers of examples to compute at once, the largest first; `planned` is that of the deck.
std::vector<std::int64_t> micro_batches(const Workload& workload, int ranks, std::int64_t planned) {
  const BatchPartition partition = workload.partition(ranks);
  const bool looks_at_all = std::ranges::any_of(
      workload.graph().nodes(), [](const GraphNode& node) { return node.layer->traits().needs_statistics; });
  if (looks_at_all) return {planned};
  const std::int64_t share = std::max<std::int64_t>(1, partition.largest_share(workload.batch()));
  std::vector<std::int64_t> micro{planned};
  for (const std::int64_t parts : {1, 2, 4, 8}) micro.push_back((share + parts - 1) / parts);
  std::ranges::sort(micro, std::greater());
  const auto same = std::ranges::unique(micro);
  micro.erase(same.begin(), same.end());
  return micro;
}

/// Order of ways to divide: the least division comes first, but none at all last, as each rank then makes the whole
/// update (shards_by_speed).
int order_of(Shard shard) { return shard == Shard::none ? 4 : static_cast<int>(shard); }

auto key_of(const ParallelChoice& variant) {
  const auto nearly = [](double bytes) { return std::llround(200 * std::log1p(bytes)); };  // to half a percent
  const double seconds = variant.seconds.value_or(std::numeric_limits<double>::infinity());
  return std::tuple(!variant.fits, seconds, variant.offloads, variant.offloads_parameters, nearly(variant.sent),
                    variant.checkpointing, -variant.micro, order_of(variant.shard), variant.memory);
}

class Enumeration {
 public:
  Enumeration(Workload& workload, const Machine& machine, RankCount ranks)
      : workload_(workload),
        predictor_(machine, workload),
        sums_(machine, workload.config().parallel),
        ranks_(ranks),
        given_micro_(workload.config().batch.micro),
        groups_(groups()),
        may_offload_(workload.config().optimizer.offloads() && !workload.config().parallel.local.present) {}

  /// Adds the ways with these micro-batches and activations, which have one plan. `is_of_deck`: the micro-batches are
  /// those of the deck.
  void add(Checkpointing checkpointing, std::int64_t micro, bool is_of_deck) {
    workload_.change([&](TrainingConfig& config) {
      config.parallel.sharding.take(Shard::none);
      config.parallel.offload.present = false;
      config.model.checkpointing = checkpointing;
      config.batch.micro = micro;
      if (is_of_deck) config.batch.micro = given_micro_;
    });
    std::optional<MemoryEstimate> planned;
    if (!can_be_built([&] { planned = workload_.plan(ranks_); })) return;
    MemoryEstimate& memory = *planned;
    // Leaves out ways that compute something twice without saving memory.
    if (checkpointing == Checkpointing::none) kept_[micro] = memory.activations;
    else if (memory.activations >= kept_[micro]) return;
    for (const Shard shard : {Shard::none, Shard::optimizer, Shard::gradients, Shard::parameters})
      for (const NumberOrWord& group : groups_)
        for (const bool shares : {true, false}) {
          workload_.change([&](TrainingConfig& config) {
            config.parallel.sharding.take(shard);
            config.parallel.sharding.shard_group = group;
            config.parallel.sharding.share_parameters = shares;
            config.parallel.offload.present = false;
          });
          can_be_built([&] {
            if (is_possible())
              add_variant({.shard = shard,
                           .group = group,
                           .shares = shares,
                           .checkpointing = checkpointing,
                           .micro = micro,
                           .is_micro_of_deck = is_of_deck},
                          memory);
          });
        }
  }
  std::vector<ParallelChoice> variants;

 private:
  /// Does `plan`; returns false if the way cannot be built, because these ranks or other keys of the deck rule it out.
  static bool can_be_built(const std::function<void()>& plan) {
    try {
      plan();
      return true;
    } catch (const KeyError&) {
      return false;
    }
  }

  /// Whether the workload's way is possible, and not another one under a different name.
  bool is_possible() const {
    const RunConfig& config = workload_.config();
    const ParallelConfig& parallel = config.parallel;
    const bool is_first_group = is_same(parallel.sharding.shard_group, groups_.front());
    if (!parallel.sharding.divides()) return is_first_group && !parallel.sharding.share_parameters;
    if (!config.optimizer.rule().divides() || !parallel.allows(parallel.sharding.shard)) return false;
    if (shard_group_size(parallel, ranks_.all, ranks_.nodes) == 1) return passes_alone();
    return !parallel.sharding.share_parameters || ranks_that_share(parallel, ranks_) > 1;
  }

  /// Whether offloading is possible for parameters that one rank has completely.
  bool passes_alone() const {
    const ParallelConfig& parallel = workload_.config().parallel;
    return may_offload_ && parallel.sharding.shard == Shard::parameters &&
           is_same(parallel.sharding.shard_group, groups_.front()) && !parallel.sharding.share_parameters;
  }

  static bool is_same(const NumberOrWord& a, const NumberOrWord& b) { return a.number == b.number && a.word == b.word; }

  /// Groups of all ranks, of a node, and of the deck, as far as these differ.
  std::vector<NumberOrWord> groups() const {
    std::vector<NumberOrWord> some;
    std::set<int> sizes;
    const auto add = [&](const NumberOrWord& group) {
      ParallelConfig config = workload_.config().parallel;
      config.sharding.shard = Shard::optimizer;
      config.sharding.shard_group = group;
      can_be_built([&] {
        check_shard_groups(config, ranks_.all, ranks_.nodes);
        const int size = shard_group_size(config, ranks_.all, ranks_.nodes);
        if (ranks_.all % size == 0 && sizes.insert(size).second) some.push_back(group);
      });
    };
    add({.number = {}, .word = ShardConfig::all});
    add({.number = {}, .word = ShardConfig::node});
    add(workload_.config().parallel.sharding.shard_group);
    return some;
  }

  /// Adds the way with its states in memory and, if that saves memory, with states elsewhere, and with parameters there
  /// too.
  void add_variant(ParallelChoice variant, MemoryEstimate& memory) {
    plan_model_of(memory);
    Prediction step = predictor_.predict_step(ranks_.all, memory, sums_);
    variant.memory = step.memory;
    variant.sent = step.sent;
    variant.messages = step.messages;
    variant.seconds = step.step();
    const bool divides = shard_group_size(workload_.config().parallel, ranks_.all, ranks_.nodes) > 1;
    if (divides || variant.shard == Shard::none) variants.push_back(variant);
    if (!may_offload_) return;
    variant.offloads = true;
    for (const bool parameters : {false, true}) {
      if (parameters ? variant.shard != Shard::parameters : !divides && variant.shard != Shard::none) continue;
      workload_.change([&](TrainingConfig& config) {
        config.parallel.offload.present = true;
        config.parallel.offload.parameters = parameters ? "elsewhere" : "";
      });
      plan_model_of(memory);
      variant.offloads_parameters = parameters;
      if (parameters) step = predictor_.predict_step(ranks_.all, memory, sums_);  // all parameters travel in units
      else step.states = predictor_.states_seconds(ranks_.all, memory);
      variant.sent = step.sent;
      variant.messages = step.messages;
      variant.seconds = step.states ? std::optional(step.step()) : std::nullopt;
      if (memory.total() < std::exchange(variant.memory, memory.total())) variants.push_back(variant);
    }
    workload_.change([&](TrainingConfig& config) { config.parallel.offload.present = false; });
  }

  void plan_model_of(MemoryEstimate& memory) const {
    static_cast<ModelMemory&>(memory) = model_memory(workload_.config(), workload_.graph(), memory.plan, ranks_);
  }

  Workload& workload_;
  Predictor predictor_;
  SumsOfRanks sums_;
  RankCount ranks_;
  std::optional<std::int64_t> given_micro_;  ///< the deck's batch.micro
  std::vector<NumberOrWord> groups_;
  bool may_offload_;
  std::map<std::int64_t, double> kept_;  ///< bytes of activations by micro-batch, if all activations are kept
};

constexpr std::string_view checkpointings[] = {"none", "blocks"};

std::string_view name_of(Shard shard) { return shard_names[static_cast<std::size_t>(shard)]; }
std::string_view name_of(Checkpointing checkpointing) {
  return checkpointings[static_cast<std::size_t>(checkpointing)];
}

/// Returns, for each way to divide, the first three ways with states in memory, and the first with states elsewhere,
/// without parameters and with these, in the given order.
std::vector<ParallelChoice> best_of_each(const std::vector<ParallelChoice>& variants) {
  std::array<std::array<int, 3>, std::size(shard_names)> taken{};
  std::vector<ParallelChoice> best;
  for (const ParallelChoice& variant : variants)
    if (const std::size_t kind = variant.offloads_parameters ? 2
                                 : variant.offloads          ? 1
                                                             : 0;
        taken[static_cast<std::size_t>(variant.shard)][kind]++ < (variant.offloads ? 1 : 3))
      best.push_back(variant);
  return best;
}

/// Name of the variant's group; empty: the model is not divided.
std::string group_of(const ParallelChoice& variant) {
  if (variant.shard == Shard::none) return "";
  if (variant.group.number) return std::to_string(*variant.group.number);
  return variant.group.word == ShardConfig::node ? "node" : "all";
}

constexpr std::string_view columns = "{:<11} {:<6} {:<5} {:<11} {:<6} {:>8} {:>12} {:<4} {:>12} {:>9} {:>9}\n";

/// Where the optimizer's state is. "both": the state and the parameters are elsewhere.
std::string_view state_of(const ParallelChoice& variant) {
  if (variant.offloads_parameters) return "both";
  if (memory_is_separate) return variant.offloads ? "host" : "device";
  return variant.offloads ? "disk" : "memory";
}

std::string row(const ParallelChoice& variant, double limit, bool has_machine) {
  return fmt::format(columns, name_of(variant.shard), group_of(variant), variant.shares ? "node" : "rank",
                     name_of(variant.checkpointing), state_of(variant), variant.micro, bytes_text(variant.memory),
                     limit > 0 && variant.fits ? "fits" : "", bytes_text(variant.sent), std::llround(variant.messages),
                     variant.seconds ? milliseconds_text(*variant.seconds, 4)
                     : has_machine   ? "unknown"
                                     : "");
}

std::string keys_of(const ParallelChoice& variant, const ParallelConfig::Offload& deck) {
  std::string text = fmt::format("parallel.shard={}", name_of(variant.shard));
  if (variant.shard != Shard::none)
    text += fmt::format(" parallel.shard_group={} parallel.share_parameters={}", group_of(variant), variant.shares);
  text += fmt::format(" model.activation_checkpointing={}", name_of(variant.checkpointing));
  if (!variant.is_micro_of_deck) text += fmt::format(" batch.micro={}", variant.micro);
  const std::string place = memory_is_separate ? "memory" : "FOLDER";
  if (variant.offloads && !deck.present) text += fmt::format(" parallel.offload.optimizer={}", place);
  if (variant.offloads_parameters && deck.parameters.empty())
    text += fmt::format(" parallel.offload.parameters={}", deck.present ? deck.optimizer : place);
  if (variant.offloads && !variant.offloads_parameters && !deck.parameters.empty())
    text += ", without parallel.offload.parameters";
  if (!variant.offloads && deck.present) text += ", without parallel.offload";
  return text;
}

/// Says which variant is the best, and why.
std::string choice_of(const std::vector<ParallelChoice>& variants, double limit, bool has_machine,
                      const ParallelConfig::Offload& deck) {
  const auto fit = std::ranges::count_if(variants, &ParallelChoice::fits);
  if (fit == 0) {
    const ParallelChoice& least = *std::ranges::min_element(variants, {}, &ParallelChoice::memory);
    return fmt::format(
        "best                 none fits: {} is the least that any of {} ways needs, and {} is allowed; {}\n",
        bytes_text(least.memory), variants.size(), bytes_text(limit), "use more ranks, or a smaller network");
  }
  const std::string of = limit > 0
                             ? fmt::format("{} ways that fit into {}, of {}", fit, bytes_text(limit), variants.size())
                             : fmt::format("{} ways, without a limit of memory (--memory GB)", fit);
  return fmt::format("best                 {}\n                     {} of {}\n", keys_of(variants.front(), deck),
                     !has_machine
                         ? "chosen for states in memory, then for least traffic and recomputation, then for a divided "
                           "optimizer (--machine FILE finds the fastest),"
                     : variants.front().seconds
                         ? "the fastest"
                         : "whose time is unknown (the machine's file has neither disk_gbps nor host_copy_gbps),",
                     of);
}

}  // namespace

std::vector<ParallelChoice> parallel_choices(Workload& workload, const std::optional<Machine>& machine, RankCount ranks,
                                             double limit) {
  const TrainingConfig given = workload.config();
  const Machine used = machine ? *machine : any_machine(ranks, given.precision.compute);
  Enumeration all(workload, used, ranks);
  const std::int64_t planned = workload.partition(ranks.all).largest_micro_batch(workload.batch());
  for (const std::int64_t micro : micro_batches(workload, ranks.all, planned))
    for (const Checkpointing checkpointing : {Checkpointing::none, Checkpointing::blocks})
      all.add(checkpointing, micro, micro == planned);
  workload.change([&](TrainingConfig& config) { config = given; });
  for (ParallelChoice& variant : all.variants) {
    if (!machine) variant.seconds.reset();
    variant.fits = limit == 0 || variant.memory <= limit;
  }
  std::ranges::sort(all.variants, {}, key_of);
  return all.variants;
}

std::string step_variants_report(const RunConfig& config, const ParallelChoiceOptions& options) {
  const auto [ranks, memory_gb, file] = options;
  std::optional<Machine> machine;
  if (!file.empty()) {
    machine = read_machine(file);
    if (ranks.all % ranks.nodes == 0) machine->ranks_per_node = ranks.all / ranks.nodes;
  }
  const double limit = 1e9 * (memory_gb > 0                            ? memory_gb
                              : config.parallel.sharding.memory_gb > 0 ? config.parallel.sharding.memory_gb
                              : machine && machine->memory_gb          ? *machine->memory_gb
                                                                       : 0);
  return with_positions(config.source, [&] {
    const char* const none = "\nways                 not listed: ";
    if (const auto not_these = not_predicted(config.parallel)) return fmt::format("{}{}\n", none, not_these->why);
    Workload workload(config);
    if (ranks.all > workload.batch())
      return fmt::format("{}{} ranks are more than the {} examples of a batch\n", none, ranks.all, workload.batch());
    const std::vector<ParallelChoice> variants = parallel_choices(workload, machine, ranks, limit);
    if (variants.empty()) return fmt::format("{}none can be built on {}\n", none, counted(ranks.all, "rank"));
    std::string text = fmt::format("\nways on {} of {}\n", counted(ranks.all, "rank"), counted(ranks.nodes, "node"));
    text += fmt::format(columns, "shard", "group", "copy", "recomputed", "state", "micro", "memory/rank", "",
                        "sent/step", "messages", "step, ms");
    for (const ParallelChoice& variant : best_of_each(variants)) text += row(variant, limit, machine.has_value());
    return text + choice_of(variants, limit, machine.has_value(), config.parallel.offload);
  });
}

}  // namespace lockstep
