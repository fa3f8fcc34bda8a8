// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/reports/reports.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/duration.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/text_file.hpp"
#include "comm/communicator.hpp"
#include "config/deck.hpp"
#include "core/device.hpp"
#include "core/execution.hpp"
#include "ops/products/device_description.hpp"
#include "parallel/groups/local_group.hpp"
#include "parallel/parallel_memory.hpp"
#include "parameters/block_file.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/folder/run_folder.hpp"
#include "run/trainers/training_checks.hpp"
#include "run/training/batch_feed.hpp"
#include "run/training/resume.hpp"
#include "run/training/run_state.hpp"
#include "train/choose_shard.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// Throws what a run would throw if the folder of offloaded states is of no use, or has no room for `bytes`: those of a
/// node's ranks.
void check_offload_folder(const std::string& folder, double bytes) {
  const ScratchFile tried(folder);
  const fs::space_info space = fs::space(folder);
  validate(bytes <= static_cast<double>(space.available), ExitStatus::io_error,
           "scratch file in {}: there is no room for {} of the ranks of a node (it has {}); make room", folder,
           bytes_text(bytes), bytes_text(static_cast<double>(space.available)));
}

/// Checks that groups which average in nodes lie within these, with the same number of consecutive ranks on each.
void check_groups_on_nodes(const ParallelConfig& parallel, RankCount count) {
  if (!parallel.synchronizes_groups()) return;
  std::vector<int> node_of;
  for (int rank = 0; rank < count.all; ++rank) node_of.push_back(rank / (count.all / count.nodes));
  check_local_groups(parallel.local, node_of);
}

std::string layer_table(const Graph& graph) {
  std::string text = fmt::format("{:<20} {:<18} {:<14} {:>12}  {}\n", "layer", "type", "output", "parameters",
                                 "names in files");
  for (const auto& node : graph.nodes()) {
    std::int64_t count = 0;
    std::string names;
    for (const auto& parameter : node.parameters) {
      if (!names.empty()) names += ", ";
      if (!parameter.tied_to.empty()) {
        names += fmt::format("{} of {}", parameter.name, parameter.tied_to);
        continue;
      }
      count += parameter.shape.count();
      names += fmt::format("{} [{}]", parameter.name, fmt::join(parameter.shape.extents(), ", "));
    }
    text += fmt::format("{:<20} {:<18} {:<14} {:>12}  {}\n", node.name, node.layer->type(), to_string(node.shape),
                        count > 0 ? std::to_string(count) : "", names);
  }
  return text;
}

/// Whether a run has ended in this folder after the checkpoint's step, and nothing is left to do.
bool is_complete(const RunFolder& folder, const Checkpoint& checkpoint, const ResumePoint& point,
                 const RunConfig& config) {
  Selection selection(config.selection());
  restore_state(checkpoint, point.file, [&](StateFields& fields) { selection.describe_state(fields); });
  return folder.has_ended() && (point.step >= run_length(config, point.examples).steps() || selection.ends_run());
}

/// Says what the first step begins with. Reads and checks it, and the folder, as a run of the resolved `deck` does.
std::string starting_point(const RunConfig& config, const std::string& deck, const Experiment& experiment,
                           PlannedRun run) {
  const auto parameters = ParameterLayout(experiment.graph.layer_specs(), config.dtype()).parameters();
  RunFolder folder(config);
  require_resumed_file(config);
  if (run == PlannedRun::elsewhere && folder.resumes_automatically()) {
    if (!list_checkpoints(folder.checkpoints()).empty())
      return "the newest checkpoint of its folder, which is not read (the plan is for another machine)";
  } else if (const auto checkpoint = folder.find_checkpoint()) {
    ResumePoint point{.file = folder.resumed_from(), .examples = experiment.data.train->size()};
    point.step = step_of(*checkpoint, point.file);
    check_resume(*checkpoint, point.file, config, point.examples, parameters);
    point.complete = is_complete(folder, *checkpoint, point, config);
    check_changes(config, deck, *checkpoint, point);
    if (!point.complete) folder.check(point.step, deck);
    return fmt::format("{}, after step {}", point.file, point.step);
  }
  std::string start = fmt::format("initial values from seed {}", config.run.seed);
  const WeightsConfig& weights = config.model.weights;
  if (weights.present) start = choose_weights(weights, read_weights(weights), experiment.graph, parameters).text;
  if (const std::string& file = config.run.branch_from; !file.empty()) {
    const Checkpoint checkpoint = open_branching_point(config);
    check_branch(checkpoint, file, config.optimizer, parameters);
    start = fmt::format("{}: its parameters and optimizer state, the result of {} steps", file,
                        optimizer_steps_of(checkpoint, file));
  }
  folder.check(0, deck);
  return start;
}

std::string interval_text(std::int64_t count, const char* what) {
  return count == 1 ? what : fmt::format("{} {}s", count, what);
}

/// Says how long the run is, as in "12000 in 10 epochs of 1200".
std::string steps_text(const RunConfig& config, std::int64_t examples) {
  const RunLength length = run_length(config, examples);
  constexpr auto epochs_unit = TrainingSpan::Unit::epochs;
  const std::int64_t steps = length.steps();
  const double epochs = length.count_at(steps, epochs_unit);
  const std::string end = config.run.target.present || config.run.patience.present
                              ? ", or fewer by run.target or run.patience"
                              : "";
  const std::string limits = end_of_run_text(config, examples);
  const std::string first = fmt::format("{}{}", length.step_of({1, epochs_unit}),
                                        config.batch.ramp.empty() ? "" : " (the first)");
  if (epochs == std::floor(epochs))
    return fmt::format("{} in {} epoch{} of {}{}{}", steps, epochs, epochs == 1 ? "" : "s", first, limits, end);
  return fmt::format("{} in {:.3g} epochs of {}{}{}", steps, epochs, first, limits, end);
}

/// Says when the run evaluates, as in "every 2 epochs, 5 in all". The last evaluation comes at the end, whatever the
/// interval.
std::string evaluations_text(const RunConfig& config, const Datasets& data) {
  if (!data.validation) return "none: there are no validation examples";
  const RunOptions::Interval every = config.run.evaluation_interval();
  if (every.count == 0) return "at the end";
  const RunLength length = run_length(config, data.train->size());
  const auto unit = every.in_steps ? TrainingSpan::Unit::steps : TrainingSpan::Unit::epochs;
  const double all = std::ceil(length.count_at(length.steps(), unit) / static_cast<double>(every.count));
  return fmt::format("every {}, {:.0f} in all", interval_text(every.count, every.in_steps ? "step" : "epoch"), all);
}

/// Says when checkpoints are written, as in "every 500 steps, every 10 minutes, at the end; the newest 2 are kept".
std::string checkpoints_text(const CheckpointOptions& options) {
  std::string text;
  if (!options.regular()) return "only at the end (give checkpoint.every_minutes: 15 to save more often)";
  if (options.every_steps > 0) text += fmt::format("every {}, ", interval_text(options.every_steps, "step"));
  if (options.every_epochs > 0) text += fmt::format("every {}, ", interval_text(options.every_epochs, "epoch"));
  if (options.every_minutes > 0) text += fmt::format("every {}, ", duration_text(60 * options.every_minutes));
  if (options.keep_best.present) text += "after the best evaluations, ";
  return text + "at the end" + (options.keep > 0 ? fmt::format("; the newest {} are kept", options.keep) : "");
}

/// Names the device that the plans are for, and the part of its memory that `step` bytes take. Empty if kernels run on
/// the host.
std::string planned_for(double step) {
  if (!runs_on_device) return "";
  const DeviceDescription* device = described_device();
  if (device == nullptr)
    return device_count() > 0 ? ""
                              : "no device: there is none here, and device libraries plan for a particular one; give "
                                "`check --device FILE`";
  const double share = step / static_cast<double>(device->memory_bytes);
  return fmt::format("{} with {} of memory; a step {}", device->name,
                     bytes_text(static_cast<double>(device->memory_bytes)),
                     share < 1 ? fmt::format("takes {:.3g} % of it", 100 * share)
                               : "does not fit; use smaller micro-batches, model.activation_checkpointing, or more "
                                 "ranks");
}

/// Rows of a name and a text each.
class Rows {
 public:
  template <class... Arguments>
  void add(std::string_view name, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += fmt::format("{:<21}{}\n", name, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Says what a run learns from, and for how long.
std::string run_rows(const RunConfig& config, const Experiment& experiment, const BatchPartition& partition) {
  const auto& [train, validation, test] = experiment.data;
  const std::int64_t examples = train->size();
  Rows rows;
  rows.add("input", "{} ({})", to_string(experiment.graph.input_shape()), train->description());
  rows.add("examples", "{} to train on, {} to validate on, {} to test on", examples,
           validation ? validation->size() : 0, test ? test->size() : 0);
  rows.add("parameters", "{}", experiment.graph.parameter_count());
  rows.add("steps", "{}", steps_text(config, examples));
  rows.add("evaluations", "{}", evaluations_text(config, experiment.data));
  rows.add("checkpoints", "{}", checkpoints_text(config.checkpoint));
  rows.add("step", "{}, at most {} at once", batch_text(config, partition, examples),
           partition.largest_micro_batch(std::min(config.batch.largest(), examples)));
  return rows.take();
}

/// Bytes of a rank's offloaded state, of which the version to be written is kept in addition to the current one.
double offloaded_bytes(const CheckpointOptions& checkpoint, const MemoryEstimate& memory) {
  return memory.offloaded * (checkpoint.regular() ? 2 : 1);
}

/// Says what a step takes of a rank's memory.
std::string step_memory_rows(const RunConfig& config, const Graph& graph, const MemoryEstimate& memory,
                             RankCount count) {
  Rows rows;
  rows.add("memory of a step",
           "{} per rank (parameters {}, gradients {}, optimizer {}, activations {}, workspace {}, batches {})",
           bytes_text(memory.total()), bytes_text(memory.parameters + memory.rounded), bytes_text(memory.gradients),
           bytes_text(memory.states), bytes_text(memory.activations), bytes_text(memory.workspace),
           bytes_text(memory.batches));
  if (memory.offloaded > 0)
    rows.add(memory.elsewhere > 0 ? "state and parameters" : "optimizer's state", "{} per rank in {}",
             bytes_text(offloaded_bytes(config.checkpoint, memory)),
             config.parallel.offload.is_to_memory() ? "the host's memory" : config.parallel.offload.optimizer);
  if (count.all > 1 && config.optimizer.rule().divides())
    rows.add("by parallel.shard", "{} per rank", memory_by_shard(config, graph, memory, count));
  return rows.take();
}

/// Says what the process takes of a rank's memory.
std::string process_memory_rows(const CheckpointOptions& checkpoint, const MemoryEstimate& memory) {
  // resident_bytes() holds what is there already, as it will be in `train`: the program, the data, and what the
  // libraries have planned. It lacks code of the libraries that only a running step brings into memory (about this much
  // on x86), and MPI, of which one process has about this much (Open MPI 5).
  constexpr double code_bytes = 9e6, mpi_bytes = 8.5e6;
  const double missing = code_bytes + (mpi_has_started() ? 0 : mpi_bytes);
  const double copy = checkpoint.regular() ? memory.checkpoint : 0;
  Rows rows;
  rows.add("peak memory", "{} per rank, including the program and the data in memory",
           bytes_text(memory.total() + copy + missing + static_cast<double>(resident_bytes())));
  return rows.take();
}

PlanReport report(const RunConfig& given, RankCount count, PlannedRun run) {
  RunConfig config = given;
  const int ranks = count.all;
  check_deck(config, ranks);
  Experiment experiment = open_experiment(config);
  std::string start;
  std::optional<Error> refusal;
  try {
    start = starting_point(config, write_config(config), experiment, run);
  } catch (const Error& error) {  // thrown after the plan, which is of use all the same
    const auto* const of_key = dynamic_cast<const KeyError*>(&error);
    refusal = of_key ? located(config.source, *of_key) : error;
    start = fmt::format("nothing: this deck cannot be trained in {}", config.output_dir());
  }
  const std::int64_t train = experiment.data.train->size();
  check_examples(config, train, ranks);
  const PushOrder pushes = planned_pushes(config, train, Communicator::alone());
  config.parallel.asynchronous.recorded = {pushes.members(), pushes.workers()};
  if (const std::string& file = config.parallel.sums.all_reduce_table; !file.empty())
    static_cast<void>(read_text_file(file));
  const Graph& graph = experiment.graph;
  const BatchPartition partition = batch_partition(config, graph, ranks);
  const RankCount together = synchronous_ranks(config.parallel, count);
  check_shard_groups(config.parallel, together.all, together.nodes);
  // Unless nodes are given, a node for each rank is the least favourable case for memory and time, not a statement.
  if (run == PlannedRun::on_other_nodes || count.nodes < count.all) check_groups_on_nodes(config.parallel, count);
  const bool whole_sums = has_whole_sums(config.parallel, expected_devices(ranks));  // KeyError if unavailable
  MemoryEstimate memory = memory_estimate(config, experiment.graph, *experiment.data.train, count);
  const std::optional<ShardChoice> chosen = resolve_shard(config, graph, memory, together, whole_sums);
  if (chosen) static_cast<ModelMemory&>(memory) = model_memory(config, graph, memory.plan, count);
  check_memory(config, graph, memory, count);

  std::vector<std::string> remarks = run_remarks(given, graph, partition, train);
  const ParallelConfig::Offload& offload = config.parallel.offload;
  if (offload.present && !offload.is_to_memory() && run != PlannedRun::elsewhere) {
    try {
      check_offload_folder(offload.optimizer, offloaded_bytes(config.checkpoint, memory) * count.all / count.nodes);
    } catch (const Error& error) {
      if (run == PlannedRun::on_other_nodes)
        remarks.push_back(fmt::format("parallel.offload: on this machine, {}", error.what()));
      else if (!refusal) refusal = error;
    }
  }

  Rows operations, choices, others;
  operations.add(
      "operations per step", "{:.4g} GFLOP (large products, forward and backward, all ranks)",
      1e-9 * training_flops(graph, memory.plan, 1) * static_cast<double>(std::min(config.batch.largest(), train)));
  if (chosen) choices.add("parallel.shard", "{}", chosen->why);
  if (config.parallel.compress.present && count.nodes == 1)
    choices.add("parallel.compress", "nothing is compressed: all ranks are on one node");
  if (const std::string device = planned_for(memory.total()); !device.empty()) others.add("planned for", "{}", device);
  others.add("starts from", "{}", start);
  const double summed = ranks == 1 ? 0
                                   : static_cast<double>(graph.parameter_count()) *
                                         static_cast<double>(size_of(master_dtype(config.dtype())));
  if (config.parallel.sharding.divides()) {
    const ParameterLayout layout(graph.layer_specs(), config.dtype());
    const auto largest = largest_part(config.parallel, layout, together, may_share_parameters(config.parallel));
    const int group = shard_group_size(config.parallel, together.all, together.nodes);
    if (std::optional<std::string> remark = remark_on_parts(config.parallel, static_cast<double>(largest),
                                                            static_cast<double>(layout.trained_size()) / group))
      remarks.push_back(std::move(*remark));
  }
  others.add("all-reduced per step", "{} per rank", bytes_text(summed));
  return {layer_table(graph) + "\n" + run_rows(config, experiment, partition) + operations.take() +
              step_memory_rows(config, graph, memory, count) + choices.take() +
              process_memory_rows(config.checkpoint, memory) + others.take(),
          refusal, std::move(remarks)};
}

/// Returns the steps to show: those where something begins, and some at even distances.
std::set<std::int64_t> telling_steps(const RunConfig& config, const RunLength& length) {
  constexpr std::int64_t evenly = 20;
  const std::int64_t last = length.steps() - 1;
  std::set<std::int64_t> steps{0, last};
  for (std::int64_t i = 1; i < evenly; ++i) steps.insert(i * length.steps() / evenly);
  const auto around = [&](std::int64_t step) {
    for (const std::int64_t near : {step - 1, step})
      if (near >= 0 && near <= last) steps.insert(near);
  };
  around(length.step_of(training_span_of(config.schedule.warmup)));
  for (const RunLength::Stage& stage : config.batch.stages()) around(length.step_of(stage.begin));
  return steps;
}

}  // namespace

std::string schedule_report(const RunConfig& config) {
  return with_positions(config.source, [&] {
    const RunLength length = run_length(config, open_experiment(config).data.train->size());
    const LearningRateSchedule schedule(config.schedule, length);
    std::string text = fmt::format("{:>12} {:>10} {:>14} {:>8} {:>14}\n", "step", "epoch", "examples", "batch",
                                   "learning rate");
    for (const std::int64_t step : telling_steps(config, length))
      text += fmt::format("{:>12} {:>10.4g} {:>14.0f} {:>8} {:>14.6g}\n", step + 1,
                          length.count_at(step, TrainingSpan::Unit::epochs),
                          length.count_at(step, TrainingSpan::Unit::examples), length.batch_at_step(step),
                          config.optimizer.rule().learning_rate * schedule.factor(step));
    return text;
  });
}

PlanReport plan_report(const RunConfig& config, RankCount ranks, PlannedRun run) {
  return with_positions(config.source, [&] { return report(config, ranks, run); });
}

}  // namespace lockstep
