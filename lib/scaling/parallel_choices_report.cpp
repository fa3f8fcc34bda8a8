// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/parallel_choices_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "scaling/parallel_choices.hpp"

namespace lockstep {
namespace {

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
