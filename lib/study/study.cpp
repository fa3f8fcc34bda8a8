// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/study.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/duration.hpp"
#include "base/heartbeat.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "io/output_file.hpp"
#include "optim/schedule.hpp"
#include "run/experiment/provenance.hpp"
#include "run/folder/run_lock.hpp"
#include "run/resilience/signals.hpp"
#include "run/training/run_state.hpp"
#include "study/ledger.hpp"
#include "study/results.hpp"
#include "study/trial_executor.hpp"
#include "study/trial_scheduler.hpp"

namespace lockstep {
namespace fs = std::filesystem;

namespace {

/// Reads from the study's checkpoint the step, the batch and the learning rate of the step that would have followed.
/// Throws missing_file, bad_data, and DeckError if the study's batches lack that batch. Collective.
void read_branching_point(StudyConfig& study, const Communicator& world) {
  BranchOptions& branch = study.branch_from;
  if (!branch.present) return;
  std::array<double, 3> found{};
  world.run_on_root([&] {
    const std::string file = study.branch_file();
    const Checkpoint checkpoint = open_checkpoint(file);
    StepCount count;
    RunState state;
    ExampleOrder order;
    restore_state(checkpoint, file, [&](StateFields& fields) {
      count.describe_state(fields);
      state.describe_state(fields);
      order.describe_state(fields);
    });
    const RunConfig run = read_run_config(parse_deck(checkpoint.texts.at("deck"), file));
    const RunLength length = run_length(run, order.dataset_size);
    found = {static_cast<double>(count.optimizer_steps()),
             static_cast<double>(
                 std::min(length.batch_at(state.data.position.epoch, state.data.position.next), order.dataset_size)),
             run.optimizer.rule().learning_rate *
                 LearningRateSchedule(run.schedule, length).factor(count.applied(), count.done)};
  });
  world.broadcast({found.data(), found.size()});
  branch.step = static_cast<std::int64_t>(found[0]);
  branch.batch = static_cast<std::int64_t>(found[1]);
  branch.learning_rate = found[2];
  world.run_collectively([&] {
    with_positions(study.source, [&] {
      validate_key(std::ranges::find(study.batches, *branch.batch) != study.batches.end(), "batches",
                   "lacks {}, the batch that {} was trained with, to which the others are compared; add it",
                   *branch.batch, branch.checkpoint);
    });
  });
}

void check_ranks(const StudyConfig& study, int ranks) {
  validate_key(study.ranks_per_trial <= ranks, "ranks_per_trial",
               "{} is more than the number of ranks, {}; start the study on more ranks", study.ranks_per_trial, ranks);
  validate_key(ranks % study.ranks_per_trial == 0, "ranks_per_trial",
               "{} ranks cannot be divided into slots of {}; start the study on a multiple", ranks,
               study.ranks_per_trial);
}

/// Throws if a network that has learned nothing has reached the goal already. Collective over the ranks of a slot.
void check_start(const TrialPlan& plan, const Communicator& slot) {
  const GoalOptions& goal = plan.study().goal;
  const RunConfig base = plan.base_deck();
  const Untrained start = open_untrained(base, slot);
  slot.run_collectively([&] {
    validate_key(start.data.validation != nullptr, "goal.metric",
                 "is measured on validation data, but the base deck has none; give it some");
  });
  const std::optional<Metrics> metrics = start.trainer->evaluate(*start.data.validation);
  const std::optional<double> value = goal.metric.value_of(*metrics);
  slot.run_collectively([&] {
    validate_key(metrics->find(goal.metric.name()).has_value(), "goal.metric",
                 "{} is not measured in evaluations of the base deck; add it to its metrics", goal.metric.text());
    validate_key(!value || !goal.is_reached_by(*value), "goal.value",
                 "is reached at step 0, with {} = {:.4g} (so there is nothing to train for); give a better value",
                 goal.metric.text(), value.value_or(0));
  });
}

std::string line_of(const TrialPlan& plan, const TrialRecord& record, std::int64_t feasible) {
  std::vector<std::string> what;  // the settings or, for a repetition, which has none, the seed
  for (const auto& [key, value] : record.settings) what.push_back(fmt::format("{} {}", key, value));
  if (what.empty()) what.push_back(fmt::format("seed {}", record.seed));
  return fmt::format("{}: trial {} {} at step {} ({}){}; {} of {} feasible", plan.groups()[record.id.group].name,
                     record.id.index, outcome_names[static_cast<std::size_t>(record.outcome)], record.steps(),
                     fmt::join(what, ", "), record.message.empty() ? "" : ": " + record.message, feasible,
                     plan.study().trials());
}

/// Returns the fingerprints of the base deck's data, as YAML; empty if these cannot be opened, which trials report.
/// Complete on rank 0 of the slot only. Collective over the ranks of a slot.
std::string fingerprints_of_data(const TrialPlan& plan, const Communicator& slot) {
  const RunConfig base = plan.base_deck();
  std::string text;
  try {
    const SharedReading reading(slot, base.source);
    const Datasets data = open_datasets(base.data, static_cast<std::uint64_t>(base.run.seed), reading);
    for (const auto& [split, print] : data_fingerprints(provenance(slot, data, reading)))
      text += fmt::format("{}: \"{}\"\n", split, print);
  } catch (const SharedError&) {
    text.clear();
  }
  return text;
}

/// What rank 0 has: the study's folder, its ledger, and the scheduler.
class Coordinator {
 public:
  Coordinator(const TrialPlan& plan) : plan_(plan), folder_(plan.study().folder()) {
    refuse_foreign_files(folder_);
    std::error_code code;
    fs::create_directories(folder_ / "trials", code);
    validate(!code, ExitStatus::cannot_create,
             "{}: the study's folder cannot be created ({}); choose another output_dir", folder_.string(),
             code.message());
    lock_.emplace(folder_, RunLock::study);
    ledger_.emplace(folder_ / "ledger.jsonl", folder_ / "trials", plan.identity());
    keep_study(folder_, plan);
    remove_leftovers();
    scheduler_.emplace(plan, ledger_->records(), [this](const TrialRecord& record) { commit(record); });
    stop_.emplace(end_of_job(duration_of(plan.study().wall_time)), folder_ / "stop");
  }

  /// Seconds that slots have spent on trials whose end this process has seen.
  double seconds_of_trials() const { return seconds_of_trials_; }
  TrialScheduler& scheduler() { return *scheduler_; }
  StopRequest& stop() { return *stop_; }
  const Ledger& ledger() const { return *ledger_; }
  const fs::path& folder() const { return folder_; }

 private:
  void commit(const TrialRecord& record) {
    const UsesFiles files;
    lock_->require();
    const std::optional<TrialId> before = best(record.id.group);
    ledger_->append(record);
    seconds_of_trials_ += record.seconds;
    if (best(record.id.group) != record.id) remove_checkpoints(record.id);
    else if (before) remove_checkpoints(*before);
    TrialLog::study_line(record.outcome == TrialOutcome::failed ? LogLevel::warning : LogLevel::info,
                         line_of(plan_, record, scheduler_->feasible(record.id.group)));
  }

  /// Removes what a killed process had no time to remove.
  void remove_leftovers() const {
    for (std::size_t group = 0; group < plan_.groups().size(); ++group) {
      const std::optional<TrialId> best = this->best(group);
      for (const TrialRecord& record : ledger_->records())
        if (record.id.group == group && record.id != best) remove_checkpoints(record.id);
    }
  }

  /// Removes a trial's checkpoints. An ensemble keeps those of all its members.
  void remove_checkpoints(const TrialId& id) const {
    std::error_code ignored;
    if (!plan_.study().is_ensemble()) fs::remove_all(plan_.folder(id) / "checkpoints", ignored);
  }

  std::optional<TrialId> best(std::size_t group) const {
    const TrialRecord* best = best_of(ledger_->records(), group, plan_.study().goal);
    return best ? std::optional<TrialId>(best->id) : std::nullopt;
  }

  const TrialPlan& plan_;
  fs::path folder_;
  std::optional<RunLock> lock_;
  std::optional<Ledger> ledger_;
  std::optional<TrialScheduler> scheduler_;
  std::optional<StopRequest> stop_;
  double seconds_of_trials_ = 0;
};

}  // namespace

ExitStatus run_study(StudyConfig study, const std::string& base, const Communicator& world) {
  read_branching_point(study, world);
  std::optional<TrialPlan> plan;
  std::unique_ptr<Coordinator> coordinator;
  world.run_collectively([&] {
    with_positions(study.source, [&] { check_ranks(study, world.size()); });
    plan.emplace(study, base);
    if (world.is_root()) coordinator = std::make_unique<Coordinator>(*plan);
  });
  const int slot_number = world.rank() / static_cast<int>(study.ranks_per_trial);
  const Communicator slot = world.split(slot_number);
  const int slots = world.size() / slot.size();
  const bool is_new = !world.any_rank(coordinator && !coordinator->ledger().records().empty());
  std::string data;
  world.run_in_parts(slot, [&] {
    if (slot_number != 0) return;
    if (is_new) with_positions(study.source, [&] { check_start(*plan, slot); });
    data = fingerprints_of_data(*plan, slot);
  });
  world.run_collectively([&] {
    if (coordinator && !data.empty()) keep_data(coordinator->folder(), data, !is_new);
  });
  if (coordinator)
    log("{}: {} of {}, on {} of {}{}", study.folder(), counted(plan->groups().size(), "group"),
        counted(study.trials(), "feasible trial"), counted(slots, "slot"), counted(slot.size(), "rank"),
        is_new ? "" : fmt::format("; continues after {}", counted(coordinator->ledger().records().size(), "trial")));
  TrialExecutor executor(*plan, world, slot, coordinator ? &coordinator->scheduler() : nullptr,
                         coordinator ? &coordinator->stop() : nullptr);
  const Timer timer;
  const ExitStatus status = executor.work();
  const double seconds = timer.seconds();
  world.run_collectively([&] {
    if (!coordinator) return;
    coordinator->stop().done();
    if (status == ExitStatus::stopped_early)
      return log("stopped: {}; the same command continues from there", executor.stop_reason_of_study());
    const StudyReport report = study_report(coordinator->folder());
    log("{}", report.text);
    log("{} on {}, busy {:.1f} % of the time", duration_text(seconds), counted(slots, "slot"),
        100 * coordinator->seconds_of_trials() / (seconds * slots));
    write_files(report, coordinator->folder());
    validate(
        report.shortcomings.empty(), ExitStatus::internal,
        "{}: {} (see the messages in ledger.jsonl and trials/*/log.txt); give other settings and another output_dir",
        study.folder(), report.shortcomings);
  });
  return status;
}

}  // namespace lockstep
