// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "study/trial_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "base/text_file.hpp"
#include "comm/spin_backoff.hpp"
#include "config/deck.hpp"
#include "run/experiment/experiment.hpp"
#include "run/experiment/starting_weights.hpp"
#include "run/training/prepared_run.hpp"
#include "run/training/resume.hpp"
#include "run/training/training_run.hpp"
#include "study/results.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// Letters to rank 0, and letters from it.
constexpr const char *waits = "waits", *report = "report", *ended = "ended", *stopped = "stopped",
                     *signalled = "signalled";
constexpr const char *run = "run", *superfluous = "superfluous", *stop = "stop", *leave = "leave";

/// In a trial's folder: the error of a rank that has diverged in a step of its own. Such a rank ends the whole study;
/// the next start counts the trial as diverged.
constexpr const char* divergence_file = "diverged.txt";

Json json_of(const TrialId& id) { return {id.group, id.index}; }
TrialId id_of(const Json& json) { return {json.at(0), json.at(1)}; }

/// Whether other settings might have avoided an error.
enum class Blame { settings, unclear, surroundings };

/// Disks and folders are the same for every trial, and may be back when the study is started again; a signal may come
/// while a run waits for its folder. A missing file may be the trial's own, and data may not fit the trial's network.
Blame blame_of(ExitStatus status) {
  switch (status) {
    case ExitStatus::bad_data:
    case ExitStatus::missing_file: return Blame::unclear;
    case ExitStatus::cannot_create:
    case ExitStatus::io_error:
    case ExitStatus::stopped_early: return Blame::surroundings;
    default: return Blame::settings;
  }
}

}  // namespace

Untrained open_untrained(const RunConfig& config, const Communicator& ranks) {
  const SharedReading reading(ranks, config.source);
  Experiment experiment = open_experiment(config, reading);
  Untrained untrained{.data = std::move(experiment.data), .trainer = nullptr};
  untrained.trainer = make_trainer(config, std::move(experiment.graph), std::move(experiment.loss),
                                   *untrained.data.train, ranks);
  initialize_on_all_ranks(config, untrained.trainer->model(), ranks);
  untrained.trainer->share_parameters();
  return untrained;
}

TrialLog::TrialLog(const std::filesystem::path& folder, bool speaks)
    : path_(folder / "log.txt"), spoke_(enable_log(speaks)) {
  if (!speaks) return;
  std::filesystem::create_directories(folder);
  file_.open(path_, std::ios::app);
  current = this;
  set_log_sink(sink());
}

TrialLog::~TrialLog() {
  set_log_sink({});
  current = nullptr;
  enable_log(spoke_);
}

/// The sink has a mutex because other threads than the step's write as well. It throws if the line cannot be written;
/// the next one is tried all the same.
LogSink TrialLog::sink() {
  return [this](LogLevel level, std::string_view line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    file_ << (level == LogLevel::warning ? "warning: " : "") << line << std::endl;
    const int error = errno;
    if (file_.good()) return;
    file_.clear();
    throw Error(ExitStatus::io_error, fmt::format("{}: {}", path_.string(), std::strerror(error)));
  };
}

void TrialLog::study_line(LogLevel level, std::string_view line) {
  if (current) set_log_sink({});
  level == LogLevel::warning ? warn_line(line) : log_line(line);
  if (current) set_log_sink(current->sink());
}

TrialExecutor::TrialExecutor(const TrialPlan& plan, const Communicator& world, const Communicator& slot,
                             TrialScheduler* scheduler, StopRequest* stop)
    : plan_(plan),
      world_(world),
      slot_(slot),
      scheduler_(scheduler),
      stop_(stop),
      mailbox_(world),
      watchdog_(world, slot, plan.hang_timeout()) {
  if (scheduler_) slots_.resize(static_cast<std::size_t>(world.size() / slot.size()));
}

ExitStatus TrialExecutor::work() {
  for (;;) {
    const Json json = Json::parse(next_order());
    if (json.contains(leave)) break;
    run_trial(id_of(json.at(run)));
  }
  if (scheduler_)
    wait_until([this] {
      serve();
      return std::ranges::all_of(slots_, &Slot::has_left);
    });
  mailbox_.wait_until_sent();
  world_.run_collectively([this] {
    if (failure_) throw *failure_;
  });
  const bool has_stopped = world_.any_rank(!stopping_.empty());
  return has_stopped ? ExitStatus::stopped_early : ExitStatus::done;
}

/// The first rank of a slot gets the order, and passes it on. Rank 0 learns of a signal to any rank that waits.
std::string TrialExecutor::next_order() {
  if (is_leader()) mailbox_.send(Json{{waits, true}}.dump(), 0);
  wait_until([this] {
    serve();
    const std::string signal = StopRequest::signal();
    if (!scheduler_ && !signal.empty() && !std::exchange(has_told_signal_, true))
      mailbox_.send(Json{{signalled, fmt::format("{} (rank {} on {})", signal, world_.rank(), host_name())}}.dump(), 0);
    return orders_.next.has_value();
  });
  std::string order = *std::exchange(orders_.next, std::nullopt);
  if (is_leader())
    for (int member = 1; member < slot_.size(); ++member) mailbox_.send(order, world_.rank() + member);
  return order;
}

void TrialExecutor::serve() {
  try {
    serve_letters();
  } catch (...) {
    study_has_failed_ = true;
    throw;
  }
}

/// Reads the letters that have arrived; rank 0 also deals out trials.
void TrialExecutor::serve_letters() {
  bool changed = false;
  if (scheduler_ && stopping_.empty()) {
    constexpr double margin = 2;  // seconds
    const std::string reason = stop_->reason(margin);
    changed = !reason.empty();
    if (changed) stop_study(reason);
  }
  while (const std::optional<Mailbox::Letter> letter = mailbox_.take()) {
    receive(*letter);
    changed = true;
  }
  if (!scheduler_) return;
  if (changed) deal();
  if (changed) serve_letters();  // letters of rank 0 to itself
}

void TrialExecutor::stop_study(const std::string& reason) {
  stopping_ = reason;
  TrialLog::study_line(LogLevel::info, fmt::format("{}: the study stops, each trial at a checkpoint", reason));
}

void TrialExecutor::receive(const Mailbox::Letter& letter) {
  const Json json = Json::parse(letter.text);
  if (json.contains(run) || json.contains(leave)) orders_.next = letter.text;
  else if (json.contains(superfluous)) orders_.superfluous = id_of(json[superfluous]);
  else if (json.contains(stop)) orders_.stop = json[stop];
  else receive_as_scheduler(letter);
}

void TrialExecutor::receive_as_scheduler(const Mailbox::Letter& letter) {
  const Json json = Json::parse(letter.text);
  Slot& slot = slots_[static_cast<std::size_t>(letter.from / slot_.size())];
  if (json.contains(waits)) {
    slot.waits = true;
  } else if (json.contains(report)) {
    const Json& value = json.at("value");
    scheduler_->report(id_of(json[report]),
                       {json.at("step"), value.is_null() ? std::nullopt : std::optional<double>(value)});
  } else if (json.contains(ended)) {
    slot.runs.reset();
    scheduler_->ended(id_of(json[ended]), {.diverged = json.at("diverged"),
                                           .failed = json.at("failed"),
                                           .message = json.at("message"),
                                           .steps = json.at("steps"),
                                           .seconds = json.at("seconds"),
                                           .slot = letter.from / slot_.size()});
  } else if (json.contains(stopped)) {
    slot.runs.reset();
    scheduler_->interrupted(id_of(json[stopped]));
    if (stopping_.empty()) stopping_ = json.at("reason");
  } else if (json.contains(signalled)) {
    if (stopping_.empty()) stop_study(json[signalled]);
  }
}

void TrialExecutor::deal() {
  const auto tell = [this](const Slot& slot, const Json& json) {
    mailbox_.send(json.dump(), static_cast<int>(&slot - slots_.data()) * slot_.size());
  };
  for (const TrialId& id : scheduler_->superfluous())
    for (Slot& slot : slots_)
      if (slot.runs == id && !std::exchange(slot.is_to_end, true)) tell(slot, {{superfluous, json_of(id)}});
  for (Slot& slot : slots_) {
    if (!stopping_.empty() && slot.runs && !std::exchange(slot.is_to_stop, true)) tell(slot, {{stop, stopping_}});
    if (!slot.waits) continue;
    const std::optional<TrialId> id = stopping_.empty() ? scheduler_->next() : std::nullopt;
    if (!id && stopping_.empty() && !scheduler_->is_finished())
      continue;  // a running trial may turn out to be infeasible
    slot.waits = false;
    slot.has_left = !id;
    slot.is_to_end = false;
    slot.runs = id;
    tell(slot, id ? Json{{run, json_of(*id)}} : Json{{leave, true}});
  }
}

void TrialExecutor::run_trial(const TrialId& id) {
  const Timer timer;
  orders_.superfluous.reset();
  current_ = id;
  const Outcome outcome = train(id);
  current_.reset();
  if (!is_leader()) return;
  if (outcome.end == End::stopped) mailbox_.send(Json{{stopped, json_of(id)}, {"reason", outcome.why}}.dump(), 0);
  else
    mailbox_.send(Json{{ended, json_of(id)},
                       {"diverged", outcome.end == End::diverged},
                       {"failed", outcome.end == End::failed},
                       {"message", outcome.why},
                       {"steps", outcome.steps},
                       {"seconds", timer.seconds()}}
                      .dump(),
                  0);
}

TrialExecutor::Outcome TrialExecutor::train(const TrialId& id) {
  std::optional<TrialLog> trial_log;  // to the end of the run
  std::optional<TrainingRun> training;
  Outcome outcome;
  try {
    if (std::string earlier = divergence_of_earlier_start(id); !earlier.empty())
      return {.end = End::diverged, .why = std::move(earlier)};
    RunConfig deck;
    slot_.run_collectively([&] {
      trial_log.emplace(plan_.folder(id), is_leader());
      deck = plan_.deck(id);
    });
    training.emplace(deck, slot_, this);
    slot_.run_on_root([&] { report_earlier_evaluations(id, training->trainer().steps()); });
    if (training->run() == ExitStatus::stopped_early)
      outcome = {.end = End::stopped,
                 .why = fmt::format("{} in {}", training->stopped_by(), plan_.folder(id).string())};
  } catch (const DivergedError& error) {
    outcome = {.end = End::diverged, .why = error.what()};
  } catch (const SeparateStepError& error) {
    if (slot_.size() > 1) {
      std::ofstream(plan_.folder(id) / divergence_file) << error.what();
      throw;
    }
    outcome = {.end = End::diverged, .why = error.what()};
  } catch (const Error& error) {
    if (study_has_failed_ || !is_shared(error)) throw;
    outcome = outcome_of(id, error, training.has_value());
  }
  if (training) outcome.steps = training->trainer().steps();
  return outcome;
}

/// Finds out whether an error is the trial's fault, or stops the study. `has_begun`: the error came in training.
TrialExecutor::Outcome TrialExecutor::outcome_of(const TrialId& id, const Error& error, bool has_begun) {
  const Blame blame = blame_of(error.status());
  if (blame == Blame::settings || (blame == Blame::unclear && !has_begun && base_deck_can_begin()))
    return {.end = End::failed, .why = error.what()};
  if (error.status() != ExitStatus::stopped_early)
    failure_ = Error(error.status(), fmt::format("{} ({} is not finished: the same command continues it)", error.what(),
                                                 plan_.folder(id).string()));
  return {.end = End::stopped, .why = error.what()};
}

/// Takes the message that a rank of this trial has left before it ended the study; empty: there is none.
std::string TrialExecutor::divergence_of_earlier_start(const TrialId& id) const {
  std::string message;
  slot_.run_collectively([&] {
    const std::filesystem::path file = plan_.folder(id) / divergence_file;
    if (!is_leader() || !std::filesystem::exists(file)) return;
    message = read_text_file(file.string());
    std::filesystem::remove(file);
  });
  slot_.broadcast(message);
  return message;
}

/// An error of a single rank ends all ranks, since others of the slot would wait for it.
bool TrialExecutor::is_shared(const Error& error) const {
  return slot_.size() == 1 || dynamic_cast<const SharedError*>(&error);
}

/// Whether a trial without settings of its own could begin now. Collective over the slot.
bool TrialExecutor::base_deck_can_begin() const {
  try {
    const RunConfig base = plan_.base_deck();
    open_untrained(base, slot_);
    slot_.run_on_root([&] {
      if (!base.run.branch_from.empty()) open_branching_point(base);
    });
  } catch (const Error& error) {
    if (!is_shared(error)) throw;
    return false;
  }
  return true;
}

/// Reports the evaluations of an earlier process, up to the checkpoint from which the trial goes on.
void TrialExecutor::report_earlier_evaluations(const TrialId& id, std::int64_t until) {
  for (const TrialReport& earlier : read_curve(plan_.folder(id) / "metrics.csv", plan_.study().goal))
    if (earlier.step <= until)
      mailbox_.send(
          Json{{report, json_of(id)}, {"step", earlier.step}, {"value", earlier.value ? Json(*earlier.value) : Json()}}
              .dump(),
          0);
}

std::string TrialExecutor::stop_reason() {
  if (!is_leader()) return "";
  serve();
  return orders_.stop;
}

bool TrialExecutor::ends_after(std::int64_t step, const Metrics& metrics) {
  bool ends = false;
  if (is_leader()) {
    const std::optional<double> value = plan_.study().goal.value_of(metrics);
    mailbox_.send(Json{{report, json_of(*current_)}, {"step", step}, {"value", value ? Json(*value) : Json()}}.dump(),
                  0);
    serve();
    ends = orders_.superfluous == current_;
  }
  return slot_.any_rank(ends);
}

}  // namespace lockstep
