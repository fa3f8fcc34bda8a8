// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/run_state.hpp"

#include "checkpoint/state_text.hpp"

namespace lockstep {

void StepRecord::describe_state(StateFields& fields) {
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
  std::optional<StepRecord>& record = curves.record;
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

}  // namespace lockstep
