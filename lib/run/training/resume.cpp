// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/training/resume.hpp"

#include <algorithm>
#include <filesystem>

#include "base/log.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/training_arrays.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "run/deck/deck_changes.hpp"
#include "run/training/run_state.hpp"

namespace lockstep {
namespace {

/// Returns the folders of a checkpoint that hold optimizer states: one folder, or one for each replica.
std::vector<std::string> homes_of_states(const Checkpoint& checkpoint) {
  std::vector<std::string> homes;
  const auto has = [&](const std::string& folder) {
    return std::ranges::any_of(checkpoint.arrays,
                               [&](const NamedArray& array) { return array.name.starts_with(folder); });
  };
  if (has(optimizer_folder)) return {optimizer_folder};
  for (int replica = 0; has(replica_folder(replica)); ++replica) homes.push_back(replica_folder(replica));
  if (homes.empty()) homes.push_back(optimizer_folder);
  return homes;
}

/// Throws KeyError where other layers are frozen than when the checkpoint was written.
void check_frozen(const Checkpoint& checkpoint, const std::string& file, const std::string& home,
                  const std::vector<std::string>& states, const std::vector<Parameter>& parameters) {
  if (states.empty()) return;
  const std::string prefix = home + states[0] + "/";
  if (std::ranges::none_of(checkpoint.arrays, [&](const NamedArray& array) { return array.name.starts_with(prefix); }))
    return;
  for (const auto& parameter : parameters) {
    if (parameter.kind == ParameterSpec::Kind::statistic) continue;
    const bool is_frozen = parameter.kind == ParameterSpec::Kind::frozen;
    const bool was_trained = find_array(checkpoint.arrays, prefix + parameter.name) != nullptr;
    if (is_frozen && !was_trained) continue;
    validate_key(
        is_frozen != was_trained, "model.weights.freeze",
        "{} was {} in the run that wrote {} (the frozen layers of a run cannot change); keep the list, or start a "
        "new run with model.weights: {}",
        parameter.name, was_trained ? "trained" : "frozen", file, file);
  }
}

/// Throws KeyError if the deck's batches would have come to another place in the data by now. A sampler goes on from
/// its place in the data, while the schedule and the run's length go by steps.
void check_batches(const Checkpoint& checkpoint, const std::string& file, const RunLength& length,
                   const std::string& advice) {
  RunState state;
  restore_state(checkpoint, file, [&](StateFields& fields) { state.describe_state(fields); });
  const SamplerPosition at = state.data.position;
  const std::int64_t step = step_of(checkpoint, file);
  const RunPoint wanted = length.point_of({static_cast<double>(step), TrainingSpan::Unit::steps});
  validate_key(
      at == SamplerPosition{wanted.epoch, wanted.next}, "batch.ramp",
      "would be at epoch {}, example {} after {} steps, but {} is at epoch {}, example {} (the run's length and "
      "learning rate would not match its batches); keep the points up to that step, or {}",
      wanted.epoch + 1, wanted.next, step, file, at.epoch + 1, at.next, advice);
}

}  // namespace

void require_resumed_file(const RunConfig& config) {
  const std::string& file = config.run.resume;
  const bool is_word = file.find_first_of("./") == std::string::npos;
  if (file == "auto" || file == "never") return;
  if (std::error_code code; is_word && !std::filesystem::exists(file, code))
    throw KeyError(
        "run.resume",
        fmt::format("'{}' is neither auto nor never, and there is no such file; give auto to resume, or never to "
                    "start from scratch",
                    file),
        ExitStatus::missing_file);
  require_file_of("run.resume", file);
}

Checkpoint open_branching_point(const RunConfig& config, const std::function<void()>& progress) {
  require_file_of("run.branch_from", config.run.branch_from);
  return open_checkpoint(config.run.branch_from, progress);
}

void check_own_steps(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                     const std::string& key) {
  if (!optimizer.rule().counts_steps()) return;
  const std::string ending = fmt::format("/{}/{}", next_step_state, next_step_array);
  std::optional<CheckpointReader> numbers;
  for (const NamedArray& array : checkpoint.arrays) {
    if (!array.name.ends_with(ending)) continue;
    if (!numbers) numbers.emplace(file);
    double next = 0;
    numbers->read(array.name, 0, 1, DType::f64, reinterpret_cast<std::byte*>(&next));
    validate_key(
        next == static_cast<double>(optimizer_steps_of(checkpoint, file) + 1), key,
        "workers or groups of ranks counted their own steps in the run that wrote {} (this optimizer needs to know "
        "how many steps its averages cover); resume it with its own parallel.local and parallel.asynchronous, or "
        "start a new run with model.weights: {}",
        file, file);
  }
}

void check_resume(const Checkpoint& checkpoint, const std::string& file, const RunConfig& config,
                  std::int64_t dataset_size, const std::vector<Parameter>& parameters) {
  try {
    check_training_arrays(checkpoint, file, config.optimizer, parameters);
  } catch (const ArraysDiffer& differ) {
    if (config.run.resume != "auto") throw;
    // No file was named, so the folder holds another run than this deck's.
    throw KeyError("run.output_dir",
                   fmt::format("{} holds a run with a different {} ({}); give another run.output_dir or run.name{}, "
                               "or start from scratch with run.resume=never run.overwrite=true",
                               config.output_dir(), differ.of().what, differ.difference(),
                               differ.of().what == std::string_view("optimizer")
                                   ? " (and model.weights, to start from its parameters alone)"
                                   : ""));
  }
  ExampleOrder saved;
  restore_state(checkpoint, file, [&](StateFields& fields) { saved.describe_state(fields); });
  const ExampleOrder wanted(config, dataset_size);
  const std::string advice = config.run.resume == "auto"
                                 ? "start from scratch with run.resume=never run.overwrite=true"
                                 : fmt::format("start a new run from its parameters (model.weights: {})", file);
  const auto same = [&](const char* key, std::string_view what, auto was, auto is) {
    validate_key(
        was == is, key,
        "{} {} in {} and is {} in this deck (the order of the examples would change in the middle of the run); keep "
        "it, or {}",
        what, was, file, is, advice);
  };
  same("run.seed", "was", saved.seed, wanted.seed);
  same("batch.global", "was", saved.global_batch, wanted.global_batch);
  same("data.shuffle", "was", saved.shuffle, wanted.shuffle);
  same("data.drop_last", "was", saved.drop_last, wanted.drop_last);
  same("data.sampler", "was", saved.sampler, wanted.sampler);
  same("data", "the number of training examples was", saved.dataset_size, wanted.dataset_size);
  const RunLength length = run_length(config, dataset_size);
  check_batches(checkpoint, file, length, advice);
  const std::int64_t step = step_of(checkpoint, file);
  const LocalConfig& local = config.parallel.local;
  if (config.parallel.has_stepping_workers())
    static_cast<void>(UpdateSteps{local.every, length.steps()}.updates_before(step));  // throws if it is wrong
  else if (!config.parallel.synchronizes_groups() || step < local.from_step)
    check_own_steps(checkpoint, file, config.optimizer, "parallel.local");
}

void check_branch(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                  const std::vector<Parameter>& parameters) {
  check_training_arrays(checkpoint, file, optimizer, parameters);
  check_own_steps(checkpoint, file, optimizer, "run.branch_from");
}

void check_training_arrays(const Checkpoint& checkpoint, const std::string& file, const OptimizerConfig& optimizer,
                           const std::vector<Parameter>& parameters) {
  check_arrays(checkpoint.arrays, "/model", file, parameters);
  const auto states = optimizer.state_names();
  for (const std::string& home : homes_of_states(checkpoint)) {
    check_frozen(checkpoint, file, home, states, parameters);
    for (const auto& state : states)
      check_arrays(checkpoint.arrays, home + state, file, optimizer.state_layout(state, parameters), of_optimizer);
    std::vector<std::string> known = states;
    known.insert(known.end(), {replica_parameters, mean_square_state, next_step_state});
    for (const auto& array : checkpoint.arrays)
      if (array.name.starts_with(home) &&
          std::ranges::none_of(known, [&](const auto& state) { return array.name.starts_with(home + state + "/"); }))
        throw ArraysDiffer(fmt::format("{}: holds {}, which the optimizer of the deck does not use; {}", file,
                                       array.name, of_optimizer.advice),
                           of_optimizer, fmt::format("{} is not here", array.name.substr(1)));
  }
}

void check_changes(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                   const ResumePoint& point) {
  const auto refuse = [&](const DeckChange& change) {
    throw located(
        config.source,
        KeyError(change.key,
                 fmt::format("was {} in the run in {}, which is complete, and is {} in this deck (the change would "
                             "have no effect there); choose another run.output_dir or run.name, let the run go on "
                             "(more run.epochs or run.steps, or another run.target or run.patience, whichever has "
                             "ended it), or start from scratch with run.resume=never run.overwrite=true",
                             change.was, config.output_dir(), change.is)));
  };
  for (const DeckChange& change : changes_since(checkpoint.texts, deck)) {
    if (point.complete && change.effect == DeckChange::Effect::training) refuse(change);
    if (!point.complete && change.key == "data.validation_seed")
      throw located(
          config.source,
          KeyError(change.key, fmt::format("was {} in {} and is {} in this deck (the run would validate on examples "
                                           "that it has trained on); keep it, or start from scratch with "
                                           "run.resume=never run.overwrite=true",
                                           change.was, point.file, change.is)));
  }
}

void say_what_has_changed(const RunConfig& config, const std::string& deck, const Checkpoint& checkpoint,
                          const ResumePoint& point) {
  const auto before = checkpoint.texts.find("deck");
  if (before == checkpoint.texts.end()) return;
  for (const DeckChange& change : changes_between(before->second, deck)) {
    if (change.effect == DeckChange::Effect::none)
      warn("{} was {} and is {}: has no effect on a resumed run (it matters only at step 0)", change.key, change.was,
           change.is);
    else log("{} was {} and is {} from here on", change.key, change.was, change.is);
  }
  try {
    const RunConfig then = read_run_config(parse_deck(before->second, point.file));
    const auto learning_rate = [&](const RunConfig& of) {
      return of.optimizer.rule().learning_rate *
             LearningRateSchedule(of.schedule, run_length(of, point.examples)).factor(point.applied, point.step);
    };
    const double was = learning_rate(then), is = learning_rate(config);
    if (was != is)
      log("the learning rate of step {} is {:.4g} (it would have been {:.4g} with the previous deck)", point.step + 1,
          is, was);
  } catch (const Error&) {  // the deck is of another version
  }
}

}  // namespace lockstep
