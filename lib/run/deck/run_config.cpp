// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/run_config.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/duration.hpp"
#include "data/sampler.hpp"
#include "run/deck/other_names.hpp"

namespace lockstep {

void RunOptions::describe(Fields& fields) {
  fields.folder_name("name", name, "name of the run, which also names its folder unless output_dir is given");
  fields.path("output_dir", output_dir, "folder for all files that the run writes (when not given: `runs/<name>`)");
  fields.integer(
      "seed", seed, {0, 9007199254740992.0},
      "seed of everything random, such as initial parameters and the order of examples; the same seed on the same "
      "number of ranks and threads gives the same run, bit for bit");
  fields.integer("epochs", epochs, {1, 1e9}, "stop after this many passes over the training data");
  fields.integer("steps", steps, {1, 1e12}, "stop after this many steps (with epochs too: whichever comes first)");
  fields.optional_section(
      "target", target.present, [this](Fields& section) { target.describe(section); },
      "Ends the run early, once an evaluation reaches a given value");
  fields.optional_section(
      "patience", patience.present, [this](Fields& section) { patience.describe(section); },
      "Ends the run early, once validation no longer improves (early stopping)");
  fields.path("resume", resume,
              "auto: resume from the newest checkpoint in output_dir, if there is one; never: start from scratch; "
              "otherwise the path of the checkpoint to resume from");
  fields.path("branch_from", branch_from,
              "path of a checkpoint of another run, whose parameters and optimizer state this run starts with; steps, "
              "batches and learning rates start from 0 and follow this deck");
  fields.boolean("overwrite", overwrite, "whether the files of an earlier run in output_dir may be deleted");
  fields.integer("log_every", log_every, at_least_one,
                 "steps between two lines of the log, and between two rows of metrics.csv");
  fields.text(
      "evaluate_every", evaluate_every,
      "interval between evaluations: a number of epochs, as 2, or of steps, as \"500 steps\" (0: only at the end)",
      Presence::optional,
      {.pattern = "[0-9]{1,9}( (epochs?|steps?))?", .words = "a number of epochs, as 2, or \"500 steps\""});
  fields.text(
      "wall_time", wall_time,
      "time that the run may take from the start of the program, as \"2:00:00\", \"1-12:00:00\" (with days) or "
      "\"90 min\"; before it is over, the run writes a checkpoint and ends with exit status 75 (when not given: only "
      "the batch job's time limit counts)",
      Presence::optional,
      {.pattern = "([0-9.]+-)?[0-9.]+:[0-9.]+:[0-9.]+|[0-9.]+ *(s|min|h|d)",
       .words =
           "a duration, as \"2:00:00\" (hours, minutes, seconds), \"1-12:00:00\" (with days) or \"90 min\" (s, min, "
           "h, d)"});
  fields.integer("hang_timeout", hang_timeout, not_negative,
                 "seconds without progress of a rank after which the run is ended, with a report and exit status 76; "
                 "10 times as long in set-up and around checkpoints, twice as long for a whole node that stalls in a "
                 "step (0: no limit, but ranks that die are still reported; when not given: the larger of 30 s and 10 "
                 "median steps, and at least 300 s while data are read or files and the log are written, in "
                 "evaluations, and for other nodes)");
  fields.check(wall_time.empty() || wall_limit(), "wall_time", problem_of_duration(wall_time));
  const bool evaluates = evaluation_interval().count > 0;
  for (const auto& [present, key] : {std::pair(target.present, "target"), {patience.present, "patience"}})
    fields.check(
        !present || evaluates, "evaluate_every",
        fmt::format("0 cannot be combined with run.{} (which is checked in evaluations, and there would be none "
                    "before the end); give an interval in epochs or steps",
                    key));
  static constexpr std::string_view ends[] = {"epochs", "steps"};
  fields.need(Needs::at_least_one, ends, "the run would not end");
}

RunOptions::Interval RunOptions::evaluation_interval() const {
  Interval interval{.in_steps = evaluate_every.find("step") != std::string::npos};
  std::from_chars(evaluate_every.data(), evaluate_every.data() + evaluate_every.size(), interval.count);
  return interval;
}

std::optional<double> RunOptions::wall_limit() const { return duration_of(wall_time); }

void CheckpointOptions::describe(Fields& fields) {
  fields.meant_by_value("every_steps");
  fields.integer("every_steps", every_steps, not_negative, "steps between two checkpoints (0: none by steps)");
  fields.integer("every_epochs", every_epochs, not_negative, "epochs between two checkpoints (0: none by epochs)");
  fields.number("every_minutes", every_minutes, not_negative, "minutes between two checkpoints (0: none by time)");
  fields.integer("keep", keep, not_negative, "number of newest checkpoints that are kept (0: all)");
  fields.integer("neighbours_every", neighbours_every, not_negative,
                 "steps between copies of the ranks' state in the memory of their own node and of the next one; a run "
                 "that was killed resumes from them if they are newer than its checkpoints (0: no copies)");
  fields.optional_section(
      "keep_best", keep_best.present, [this](Fields& section) { keep_best.describe(section); },
      "Writes a checkpoint after each evaluation that is among the best, and keeps these; the link checkpoints/best "
      "names the best one");
}

namespace {

std::string metric_meanings() {
  std::string text;
  for (const MetricKind& kind : metric_kinds())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", kind.name, kind.help);
  return text;
}

}  // namespace

void RunConfig::describe(Fields& fields) {
  fields.other_names(other_names_of_keys());
  // clang-format off
  fields.section("run", [&](Fields& f) { run.describe(f); },
                 "Length of the run, when to stop early, and where to write the results");
  fields.section("data", [&](Fields& f) { data.describe(f); }, "Examples to train, validate and test on",
                 Presence::required);
  fields.section("model", [&](Fields& f) { model.describe(f); },
                 "The network, as a preset or layer by layer, and the weights that it starts with", Presence::required);
  fields.check(run.branch_from.empty() || !model.weights.present, "run.branch_from",
               "cannot be combined with model.weights (a branch takes its parameters from the checkpoint); remove "
               "one of them");
  fields.section("loss", [&](Fields& f) { loss.describe(f); }, "The loss function, which training minimises");
  fields.words("metrics", metrics, metric_names(),
               "metrics that evaluations compute in addition to the loss and the accuracy of classes: " +
                   metric_meanings());
  fields.section("optimizer", [&](Fields& f) { optimizer.describe(f); },
                 "The optimizer, which turns gradients into updates of the parameters");
  fields.section("schedule", [&](Fields& f) { schedule.describe(f); },
                 "How the learning rate changes in the course of the run");
  fields.section("batch", [&](Fields& f) { batch.describe(f); }, "Batch size: how many examples a step takes");
  fields.section("precision", [&](Fields& f) { precision.describe(f); }, "Floating-point types and loss scaling");
  fields.section("parallel", [&](Fields& f) {
    parallel.describe(f);
    f.check(parallel.wire != ParallelConfig::Wire::fp16 || precision.scales_loss(), "wire",
            "sums of gradients overflow in fp16 unless a loss scale keeps them small; use bf16, or set precision.loss_scale");
    f.check(parallel.shard == ParallelConfig::Shard::none || optimizer.rule().divides(), "shard",
            optimizer.type + " keeps averages of whole rows and columns, which cannot be sharded; use another optimizer, or shard: none");
    if (const AsynchronousConfig& asynchronous = parallel.asynchronous; asynchronous.present) {
      f.check(!precision.scales_loss(), "asynchronous",
              "gradients of workers would have different loss scales (precision.loss_scale, which fp16 has); compute in bf16, or leave one out");
      f.check(!asynchronous.compensates() || optimizer.type == "sgd", "asynchronous",
              "staleness: compensate is an estimate for steps along the gradient, but " + optimizer.type + " takes other steps; use sgd, or another staleness");
    }
    if (parallel.runs_freely()) {
      const bool backs_up = parallel.backup.present;
      const auto refuse = [&](bool is_set, const std::string& why) {
        f.check(!is_set, backs_up ? "backup" : "asynchronous", (backs_up ? "" : "schedule: {free: true} ") + why);
      };
      refuse(memory_is_separate, "keeps the parameters in host memory, but this build computes on devices; use a build for CPUs, or leave it out");
      refuse(backs_up && precision.scales_loss(), "lets each rank check its own gradient, but gradients of a scaled loss (precision.loss_scale, which fp16 has) are checked by all ranks together; compute in bf16, or leave one out");
      const bool updates_parts = !parallel.has_stepping_workers();
      refuse(updates_parts && (!optimizer.rule().divides() || optimizer.type == "lars" || optimizer.type == "lamb"),
             "divides each update among ranks that do not wait for each other, but " + optimizer.type + " needs whole parameters; use another optimizer");
      refuse(updates_parts && optimizer.rule().clip_norm > 0, "gives each rank a part of an update, but optimizer.clip_norm needs the norm of the whole gradient; use clip_value, or leave one out");
      refuse(optimizer.averages(), "updates parameters between steps, but optimizer.ema_decay averages them after each step; leave one out");
      refuse(parallel.offload.present, "needs the optimizer's state in memory; leave parallel.offload out");
    }
    f.check(!parallel.has_stepping_workers() || !memory_is_separate, "local",
            "with asynchronous workers keeps parameters in host memory, but this build computes on devices; use a build for CPUs, or leave one out");
    if (parallel.local.present) {
      f.check(!optimizer.averages(), "local",
              "gives each group of ranks its own moving average (optimizer.ema_decay), but evaluations need a single one; leave one out");
    }
    f.check(!parallel.offload.present || optimizer.offloads(), "offload",
            optimizer.type + (optimizer.rule().divides() ? " has no state here that could be offloaded; remove it"
                                                  : " keeps averages of whole rows and columns, which are small and span all blocks; remove it, or use another optimizer"));
    f.check(!parallel.offload.present || !memory_is_separate || parallel.offload.is_to_memory(), "offload",
            "this build computes on devices, which cannot read the state from files; give optimizer: memory (the host's), or use a build for CPUs");
    f.check(!parallel.offload.is_to_memory() || memory_is_separate, "offload",
            "optimizer: memory is host memory, where this build computes, so nothing would be saved; give a folder on a disk (./memory for one of that name), or remove it");
    f.check(!parallel.offload.present || !parallel.local.present, "offload",
            "local averages or resets states where groups synchronize, and needs them in memory; leave one out");
    f.check(!parallel.compress.present || !precision.scales_loss(), "compress",
            "the compression error of a step whose scaled gradients overflow is lost; use precision.compute bf16 or fp32, without loss_scale, or leave compress out");
    f.check(!parallel.compress.corrects_momentum() || optimizer.rule().gradient_momentum().factor > 0, "compress",
            "method: dgc applies the momentum of sgd before it compresses, but there is none (optimizer.type, momentum, dampening); use sgd with momentum and without dampening, or method: topk");
    f.check(!parallel.compress.corrects_momentum() || !optimizer.clips(), "compress",
            "method: dgc sends sums of several steps' gradients, but optimizer.clip_norm and clip_value are for gradients of single steps; leave them out, or use method: topk");
  }, "How ranks divide batches and the model, and sum gradients");
  fields.section("providers", [&](Fields& f) { providers.describe(f); },
                 "Libraries that compute matrix products, convolutions, attention and recurrent layers");
  fields.section("device", [&](Fields& f) { device.describe(f); }, "How kernels are launched on a GPU");
  fields.section("checkpoint", [&](Fields& f) {
    checkpoint.describe(f);
    f.check(checkpoint.neighbours_every == 0 || !parallel.offload.present, "neighbours_every",
            "copies the optimizer's state to memory, but parallel.offload is there to save memory; leave one out");
  }, "When checkpoints are written, and how many are kept");
  fields.optional_section("loss_watch", loss_watch.present, [&](Fields& f) {
    loss_watch.describe(f);
    const bool rolls_back = loss_watch.on_anomaly == LossWatchConfig::Action::rollback;
    f.check(!rolls_back || checkpoint.regular(), "on_anomaly",
            "rollback needs checkpoints to go back to; set checkpoint.every_steps, every_epochs or every_minutes");
    f.check(!rolls_back || data.shuffle, "on_anomaly",
            "rollback continues with the examples in another order, but data.shuffle is false; use skip or stop");
    f.check(!parallel.compress.keeps_errors() || loss_watch.on_anomaly != LossWatchConfig::Action::skip, "on_anomaly",
            "a skipped gradient would come back through parallel.compress.error_feedback; use rollback or stop");
  },
                          "What to do when the loss is not finite, or far above those before it (when not given: a "
                          "loss that is not finite is a warning, and a second one in a row, or parameters that would "
                          "not be finite, end the run)");
  fields.check(!loss_watch.present || !parallel.local.present, "loss_watch",
               "watches the losses of all ranks, but parallel.local lets groups of ranks train on their own; leave one out");
  fields.check(!loss_watch.present || !parallel.runs_freely(), "loss_watch",
               fmt::format("watches the losses of all ranks, but parallel.{} lets each rank train on its own; leave one out",
                           parallel.backup.present ? "backup" : "asynchronous.schedule.free"));
  // clang-format on
}

RunLength run_length(const RunConfig& config, std::int64_t examples) {
  const std::vector<RunLength::Stage> stages = config.batch.stages();
  for (const RunLength::Stage& stage : stages)
    validate_key(!config.data.drop_last || stage.batch <= examples,
                 stage.begin.count > 0 ? "batch.ramp" : "batch.global",
                 "{} examples are more than the {} training examples (data.drop_last would leave none); use fewer",
                 stage.batch, examples);
  const RunLength length(examples, config.data.drop_last, stages, config.run.epochs, config.run.steps);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    validate_key(length.step_of(stages[i].begin) > length.step_of(stages[i - 1].begin), "batch.ramp",
                 "{} is not after the point before it; put the points in order", config.batch.ramp[i - 1].first);
  }
  return length;
}

std::string end_of_run_text(const RunConfig& config, std::int64_t examples) {
  if (!config.run.epochs || !config.run.steps) return "";
  RunConfig by_epochs = config;
  by_epochs.run.steps.reset();
  const std::int64_t steps = run_length(by_epochs, examples).steps();
  if (steps == *config.run.steps) return "";
  return steps < *config.run.steps ? fmt::format(" (run.epochs; run.steps would be {})", *config.run.steps)
                                   : fmt::format(" (run.steps; run.epochs would be {})", steps);
}

RunConfig read_run_config(DeckNode deck) {
  RunConfig config;
  read_config(deck, config);
  config.source = std::move(deck);
  return config;
}

namespace {

void mark_as_stored(DeckNode& node) {
  node.is_stored = true;
  for (DeckNode& item : node.items) mark_as_stored(item);
  for (DeckNode::Entry& entry : node.entries) mark_as_stored(entry.value);
}

}  // namespace

RunConfig read_stored_config(const std::string& text, const std::string& file) {
  DeckNode deck = parse_deck(text, file);
  mark_as_stored(deck);
  for (DeckNode::Entry& section : deck.entries) {
    std::vector<DeckNode::Entry>& keys = section.value.entries;
    if (section.key == "parallel") {
      std::erase_if(keys, [](const DeckNode::Entry& entry) { return entry.key == "emulate"; });  // an old key
      for (DeckNode::Entry& entry : keys)
        if (entry.key == "replicas") entry.key = "virtual_replicas";
    }
    if (section.key == "run")  // earlier versions took times such as "1:90:00"
      std::erase_if(keys, [](const DeckNode::Entry& entry) {
        return entry.key == "wall_time" && !duration_of(entry.value.text);
      });
    if (section.key != "schedule") continue;
    const bool falls = std::ranges::any_of(
        keys, [](const DeckNode::Entry& entry) { return entry.key == "type" && entry.value.text != "constant"; });
    if (!falls) std::erase_if(keys, [](const DeckNode::Entry& entry) { return entry.key == "final_fraction"; });
    for (DeckNode::Entry& entry : keys) {
      if (entry.key != "warmup_steps") continue;
      entry.key = "warmup";
      if (entry.value.text != "0") entry.value.text += " steps";
    }
  }
  return read_run_config(std::move(deck));
}

}  // namespace lockstep
