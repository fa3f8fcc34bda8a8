// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/deck/run_config.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/duration.hpp"
#include "data/batch/sampler.hpp"
#include "data/dataset/dataset.hpp"
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
  const auto section = [&](std::string_view key, auto& part, std::string_view help,
                           Presence presence = Presence::optional) {
    fields.section(key, [&part](Fields& inner) { part.describe(inner); }, help, presence);
  };
  fields.other_names(other_names_of_keys());
  section("run", run, "Length of the run, when to stop early, and where to write the results");
  section("data", data, "Examples to train, validate and test on", Presence::required);
  section("model", model, "The network, as a preset or layer by layer, and the weights that it starts with",
          Presence::required);
  check_branch(fields);
  section("loss", loss, "The loss function, which training minimises");
  fields.words(
      "metrics", metrics, metric_names(),
      "metrics that evaluations compute in addition to the loss and the accuracy of classes: " + metric_meanings());
  section("optimizer", optimizer, "The optimizer, which turns gradients into updates of the parameters");
  section("schedule", schedule, "How the learning rate changes in the course of the run");
  section("batch", batch, "Batch size: how many examples a step takes");
  section("precision", precision, "Floating-point types and loss scaling");
  fields.section(
      "parallel",
      [this](Fields& inner) {
        parallel.describe(inner);
        check_parallel(inner);
      },
      "How ranks divide batches and the model, and sum gradients");
  section("providers", providers,
          "Libraries that compute matrix products, convolutions, attention and recurrent layers");
  section("device", device, "How kernels are launched on a GPU");
  section("checkpoint", checkpoint, "When checkpoints are written, and how many are kept");
  fields.optional_section(
      "loss_watch", loss_watch.present,
      [this](Fields& inner) {
        loss_watch.describe(inner);
        check_reaction(inner);
      },
      "What to do when the loss is not finite, or far above those before it (when not given: a loss that is not finite "
      "is a warning, and a second one in a row, or parameters that would not be finite, end the run)");
}

RunLength run_length(const RunConfig& config, std::int64_t examples) {
  const std::vector<RunLength::Stage> stages = config.batch.stages();
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
  check_options(config.source, config.options());
  return config;
}

std::string missing_files(const DeckNode& deck, const std::string& error) {
  std::string text;
  for (const auto& [section, key] : {std::pair("data", "file"),
                                     {"data", "validation_file"},
                                     {"data", "test_file"},
                                     {"model", "weights"},
                                     {"run", "resume"},
                                     {"run", "branch_from"}}) {
    const DeckNode* node = deck.find(section);
    if (node) node = node->find(key);
    if (node && node->kind == DeckNode::Kind::mapping) node = node->find("file");
    if (!node || node->text.empty() || node->text == "auto" || node->text == "never") continue;
    if (error.find(node->path) != std::string::npos) continue;
    try {
      require_file_of(node->path, DataPlace::of(node->text).file);
    } catch (const KeyError& missing) {
      text += fmt::format("\n{}", located(deck, missing).what());
    }
  }
  return text;
}

}  // namespace lockstep
