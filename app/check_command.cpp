// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "command_parts.hpp"
#include "commands.hpp"
#include "ops/products/device_description.hpp"
#include "run/reports/reports.hpp"
#include "scaling/machine.hpp"
#include "scaling/parallel_choices.hpp"
#include "scaling/prediction.hpp"

namespace lockstep {
namespace {

struct CheckOptions {
  int ranks = 0, nodes = 0;  ///< 0: not given
  std::optional<double> memory;
  std::string device, machine;
  bool deck_alone = false, data = false, schedule = false, time = false;
};

void declare_options(CLI::App& command, CheckOptions& options) {
  command
      .add_option("--ranks", options.ranks, "ranks to plan for (default: those it runs on, or those of its Slurm job)")
      ->check(CLI::Range(1, 10000000));
  CLI::Option* nodes = command
                           .add_option(
                               "--nodes", options.nodes,
                               "nodes to spread these ranks over evenly (default: one node per rank, sharing nothing); "
                               "also tabulates ways to run a step")
                           ->check(CLI::Range(1, 10000000));
  CLI::Option* memory =
      command
          .add_option("--memory", options.memory,
                      "gigabytes (10^9 bytes) that each rank may use in these ways (default: as in the deck, else as "
                      "in the machine file)")
          ->option_text("GB")
          ->check(saying(CLI::Number,
                         "is not a number of gigabytes (10^9 bytes); write it without a unit, as in --memory 40"));
  CLI::Option* machine = command
                             .add_option(
                                 "--machine", options.machine,
                                 "predict in one line the time and memory of these ranks on a described machine "
                                 "(predict-scaling prints more)")
                             ->option_text("FILE");
  CLI::Option* device =
      command
          .add_option(
              "--device", options.device,
              "device to plan for, which this machine need not have: the output of `lockstep info --device` on one "
              "that does")
          ->option_text("FILE");
  CLI::Option* alone = command.add_flag("--deck", options.deck_alone, "print only the resolved deck");
  command
      .add_flag("--data", options.data,
                "read all examples, and look for numbers that are not finite and classes out of range")
      ->excludes(alone);
  command
      .add_flag("--schedule", options.schedule,
                "print the learning rate and the batch over the run instead of the plan")
      ->excludes(alone);
  command
      .add_flag("--time", options.time,
                "run three steps on the ranks that it is started with, and estimate the time of the run")
      ->excludes(alone)
      ->excludes(device);
  for (CLI::Option* of_the_plan : {machine, nodes, memory}) of_the_plan->excludes(alone);
}

/// Returns the count of ranks on so many nodes. 0: as many nodes as the machine needs or, without a machine (empty), a
/// node for each rank.
RankCount count_on_nodes(int ranks, int nodes, const std::string& machine) {
  if (nodes == 0) return {ranks, machine.empty() ? ranks : static_cast<int>(read_machine(machine).nodes_of(ranks))};
  validate(nodes <= ranks, ExitStatus::bad_usage,
           "check --nodes: {} nodes are more than the {} (each node needs one); give fewer nodes, or more --ranks",
           nodes, counted(ranks, "rank"));
  validate(ranks % nodes == 0, ExitStatus::bad_usage,
           "check --nodes: {} ranks cannot be divided evenly among {} nodes; give a multiple of the nodes as --ranks",
           ranks, nodes);
  return {ranks, nodes};
}

/// Does all of `check` except the time; on rank 0.
void check(const Communicator& comm, RunConfig& config, const CheckOptions& options) {
  if (!options.device.empty()) plan_for_described_device(options.device);
  const int ranks = options.ranks > 0 ? options.ranks : requested_ranks();
  const RankCount count = count_on_nodes(ranks, options.nodes, options.machine);
  validate(!options.memory || *options.memory > 0, ExitStatus::bad_usage,
           "check --memory: {} GB is out of range (more than 0 is allowed); give the gigabytes that each rank may use",
           options.memory.value_or(0));
  std::string text = write_config(config);
  if (!options.deck_alone && !options.schedule) predict_shards(config, count);
  if (options.data) {
    const DataScan found = scan_data(config);
    text += "\n" + found.text;
    if (found.is_bad) print(comm, text);
    validate(!found.is_bad, ExitStatus::bad_data,
             "{}: some examples cannot be used (see above); correct them, or leave them out", config.data.file);
  }
  if (options.schedule) text += "\n" + schedule_report(config);
  std::optional<Error> refusal;
  std::vector<std::string> remarks;
  if (!options.schedule && !options.deck_alone) {
    const PlannedRun run = !options.machine.empty() || !options.device.empty() ? PlannedRun::elsewhere
                           : options.nodes > 0                                 ? PlannedRun::on_other_nodes
                                                                               : PlannedRun::here;
    const PlanReport plan = naming_missing_files(config.source, [&] { return plan_report(config, count, run); });
    text += "\n" + plan.text;
    refusal = plan.refusal;
    remarks = plan.remarks;
  }
  if (options.nodes != 0 || options.memory)
    text += step_variants_report(config, {count, options.memory.value_or(0), options.machine});
  if (!options.machine.empty()) text += prediction_line(config, options.machine, {ranks, options.nodes});
  print(comm, text);
  for (const std::string& remark : remarks) warn("{}", remark);
  if (refusal) throw *refusal;
}

}  // namespace

void declare_check(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("check",
                                         "Validate a deck and its files, and print what one of its steps needs");
  const auto deck = std::make_shared<DeckArguments>();
  deck->declare(*command);
  const auto options = std::make_shared<CheckOptions>();
  declare_options(*command, *options);
  command->callback([&chosen, deck, options] {
    const auto work = [deck, options](const Communicator& comm) {
      RunConfig config = deck->read(comm);
      comm.run_on_root([&] { check(comm, config, *options); });
      if (options->time) print(comm, time_report(config, comm));
      return ExitStatus::done;
    };
    chosen = {options->time ? Start::ranks : Start::plan, work};
  });
}

}  // namespace lockstep
