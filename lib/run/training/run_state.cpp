// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_state.hpp"

#include <algorithm>
#include <filesystem>

#include "base/heartbeat.hpp"
#include "base/log.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/deck/deck_changes.hpp"
#include "run/deck/deck_values.hpp"
#include "run/experiment/provenance.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/resume.hpp"

namespace lockstep {
namespace {

/// Whether losses of the checkpoint's run and of one with the resolved `deck` cannot be compared, on whatever data.
bool has_other_losses(const Checkpoint& checkpoint, const std::string& deck) {
  return std::ranges::any_of(changes_since(checkpoint.texts, deck), [](const DeckChange& change) {
    return is_below(change.key, "loss") || is_below(change.key, "data.normalize") || is_below(change.key, "data.scale");
  });
}

}  // namespace

void CurveRecord::describe_state(StateFields& fields) {
  fields.integer("step", step);
  fields.real("loss", numbers.metrics.loss);
  if (fields.has("accuracy", numbers.metrics.accuracy.has_value())) {
    double accuracy = numbers.metrics.accuracy.value_or(0);
    fields.real("accuracy", accuracy);
    numbers.metrics.accuracy = accuracy;
  }
  fields.real("grad_norm", numbers.gradient_norm);
  fields.flag("left_out", skipped);
  fields.flag("logged", logged);
}

ExampleOrder::ExampleOrder(const RunConfig& config, std::int64_t size)
    : seed(config.run.seed),
      global_batch(config.batch.global),
      dataset_size(size),
      shuffle(config.data.shuffle),
      drop_last(config.data.drop_last),
      sampler(DataConfig::sampler_names[static_cast<std::size_t>(config.data.sampler)]) {}

void ExampleOrder::describe_state(StateFields& fields) {
  fields.integer("seed", seed);
  fields.integer("global_batch", global_batch);
  fields.integer("dataset_size", dataset_size);
  fields.flag("shuffle", shuffle);
  fields.flag("drop_last", drop_last);
  fields.text("sampler", sampler);
}

void RunState::describe_state(StateFields& fields) {
  fields.integer("epoch", data.position.epoch);
  fields.integer("next_example", data.position.next);
  fields.integer("evaluated_step", evaluation.evaluated_step);
  bool& owes = evaluation.owes_evaluation;
  if (fields.has("owes_evaluation", owes)) fields.flag("owes_evaluation", owes);
  else owes = false;
  fields.integer("metrics_rows", curves.metrics_rows);
  fields.integer("rollbacks", data.rollbacks);
  if (fields.has("went_back_to", data.went_back_to >= 0)) fields.integer("went_back_to", data.went_back_to);
  else data.went_back_to = -1;
  std::optional<CurveRecord>& record = curves.record;
  if (!fields.has("record", record.has_value())) {
    record.reset();
    return;
  }
  if (!record) record.emplace();
  fields.section("record", [&](StateFields& section) { record->describe_state(section); });
}

void restore_state(const Checkpoint& checkpoint, const std::string& file, const StateFields::Describe& describe) {
  try {
    restore_state(checkpoint.texts.at("state"), describe);
  } catch (const std::exception& error) {
    throw Error(ExitStatus::bad_data,
                fmt::format("{}: does not hold the state of a run ({}); use a checkpoint that this version wrote (for "
                            "parameters alone: model.weights)",
                            file, error.what()));
  }
}

std::int64_t step_of(const Checkpoint& checkpoint, const std::string& file) {
  std::int64_t step = 0;
  restore_state(checkpoint, file, [&](StateFields& fields) { fields.integer("step", step); });
  return step;
}

std::int64_t optimizer_steps_of(const Checkpoint& checkpoint, const std::string& file) {
  StepCount count;
  restore_state(checkpoint, file, [&](StateFields& fields) { count.describe_state(fields); });
  return count.optimizer_steps();
}

RunCheckpointState::RunCheckpointState(const PreparedRun& prepared, const RunPaths& folder, RunState& state,
                                       Selection& selection, Progress& progress)
    : prepared_(prepared),
      folder_(folder),
      trainer_(prepared.trainer()),
      state_(state),
      selection_(selection),
      progress_(progress),
      transfer_(prepared.comm, prepared.run_trainer->sharded_states()) {}

void RunCheckpointState::describe(StateFields& fields) {
  trainer_.describe_state(fields);
  state_.describe_state(fields);
  selection_.describe_state(fields);
  ExampleOrder order(prepared_.config, prepared_.examples());  // check_resume has made sure that it is the checkpoint's
  order.describe_state(fields);
}

std::map<std::string, std::string> RunCheckpointState::texts() {
  std::map<std::string, std::string> texts{{"deck", prepared_.text}, {"provenance", prepared_.provenance}};
  if (const std::string vocabulary = prepared_.data.train->vocabulary(); !vocabulary.empty())
    texts["vocabulary"] = vocabulary;
  state_.curves.metrics_rows = progress_.file()->rows();
  texts["state"] = state_text([this](StateFields& fields) { describe(fields); });
  return texts;
}

void RunCheckpointState::restore(const Checkpoint& checkpoint, const std::string& file) {
  with_positions(prepared_.config.source, [&] {
    check_resume(checkpoint, file, prepared_.config, prepared_.examples(), trainer_.model().parameters().parameters());
  });
  const auto provenance = checkpoint.texts.find("provenance");
  auto now = data_fingerprints(prepared_.provenance),
       before = provenance == checkpoint.texts.end() ? now : data_fingerprints(provenance->second);
  if (now != before)
    warn("{}: was written with data that differ from the present data; the run continues with the present data", file);
  if (provenance != checkpoint.texts.end()) warn_of_other_input_type(*prepared_.data.train, provenance->second, file);
  restored_.emplace(file);
  restore_state(checkpoint, file, [&](StateFields& fields) { describe(fields); });
  LossWatch& loss_watch = trainer_.loss_watch();
  const bool other_losses = has_other_losses(checkpoint, prepared_.text);
  if (other_losses || now["train"] != before["train"]) loss_watch.forget_losses();
  const bool other_data = now["validation"] != before["validation"];
  if (other_losses || other_data) loss_watch.forget_validation_losses();
  if ((other_losses || other_data) && selection_.forget_evaluations())
    log("{} from here on: earlier evaluations count neither for run.patience and run.target nor for "
        "checkpoint.keep_best",
        other_data ? "validation data differ" : "losses are not comparable");
  selection_.forget_best([&](std::int64_t step) {  // its checkpoint is in another folder, or removed
    return step != trainer_.steps() && !std::filesystem::exists(folder_.checkpoints() / checkpoint_name(step));
  });
}

void RunCheckpointState::branch() {
  const RunConfig& config = prepared_.config;
  const std::string& file = config.run.branch_from;
  const Checkpoint checkpoint = with_positions(
      config.source, [&] { return open_branching_point(config, [] { heartbeat().beat(); }); });
  with_positions(config.source,
                 [&] { check_branch(checkpoint, file, config.optimizer, trainer_.model().parameters().parameters()); });
  warn_of_trained_examples(checkpoint.texts, file, config);
  restored_.emplace(file);
  StepCount count;
  double learning_rate = 0;
  restore_state(checkpoint, file, [&](StateFields& fields) {
    count.describe_state(fields);
    describe_last_learning_rate(fields, count, learning_rate);
  });
  const std::int64_t steps = count.optimizer_steps();
  trainer_.update().branch_after(steps, learning_rate);
  log("{}: the run starts from its parameters and optimizer state, the result of {} steps", file, steps);
}

void RunCheckpointState::share() {
  const auto described = [this](StateFields& fields) { describe(fields); };
  std::string text = state_text(described);
  prepared_.comm.broadcast(text);
  restore_state(text, described);
  heartbeat().step = trainer_.steps() + 1;
  share_numbers();
  prepared_.run_trainer->share_parameters();
}

/// Sends each rank its part of the checkpoint that rank 0 has read, if it has. Collective.
void RunCheckpointState::share_numbers() {
  prepared_.comm.run_collectively([&] {
    if (!prepared_.comm.is_root()) return transfer_.serve();
    const CheckpointTransfer::Turn turn(transfer_);
    if (restored_) restore_numbers(transfer_, *restored_, [] { heartbeat().beat(); });
    restored_.reset();
  });
}

}  // namespace lockstep
