// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "comm/mailbox.hpp"
#include "data/open_datasets.hpp"
#include "run/deck/run_config.hpp"
#include "run/resilience/signals.hpp"
#include "run/resilience/watchdog.hpp"
#include "run/training/run_owner.hpp"
#include "study/trial_plan.hpp"
#include "study/trial_scheduler.hpp"
#include "train/trainer.hpp"

namespace lockstep {

/// A deck's data, and its network before the first step.
struct Untrained {
  Datasets data;
  std::unique_ptr<Trainer> trainer;
};

/// Opens the data and initialises the network. Throws for whatever is wrong with the deck, its data, or the parameters
/// that it names. Collective.
Untrained open_untrained(const RunConfig& config, const Communicator& ranks);

/// While this exists, the log of a trial goes to the trial's file `log.txt`, except lines of the study. There is at
/// most one at a time.
class TrialLog {
 public:
  /// `speaks`: whether this rank is the first of its slot; others log nothing. Makes the folder.
  TrialLog(const std::filesystem::path& folder, bool speaks);
  TrialLog(const TrialLog&) = delete;
  TrialLog& operator=(const TrialLog&) = delete;
  ~TrialLog();

  /// Writes a line of the study to the program's own log.
  static void study_line(LogLevel level, std::string_view line);

 private:
  LogSink sink();

  std::filesystem::path path_;
  std::ofstream file_;
  bool spoke_;
  static inline TrialLog* current = nullptr;
};

/// Runs a study's trials on slots of ranks, each of which trains one trial after another. Rank 0 deals out trials
/// between the steps of its own; only slots without a trial wait for an answer. Every rank has one.
class TrialExecutor final : public RunOwner {
 public:
  /// `slot`: the ranks of `world` in this rank's slot. `scheduler`, `stop`: on rank 0; null elsewhere.
  TrialExecutor(const TrialPlan& plan, const Communicator& world, const Communicator& slot, TrialScheduler* scheduler,
                StopRequest* stop);

  /// Trains until no trial is left (`done`), or until something stops the study (`stopped_early`). Once all slots have
  /// stopped, throws an error that a slot has met if that is no trial's fault. Collective.
  ExitStatus work();
  /// Why the study has stopped; on rank 0.
  const std::string& stop_reason_of_study() const { return stopping_; }

  std::string stop_reason() override;
  bool ends_after(std::int64_t step, const Metrics& metrics) override;
  Watchdog* watchdog() override { return &watchdog_; }

 private:
  struct Slot {
    std::optional<TrialId> runs;
    bool waits = false, has_left = false;
    bool is_to_end = false, is_to_stop = false;  ///< the slot has been told so
  };
  /// Orders that this rank has received.
  struct Orders {
    std::optional<std::string> next;  ///< which trial to run, or that none is left
    // To the first rank of a slot:
    std::optional<TrialId> superfluous;
    std::string stop;
  };

  /// How a trial has ended, or was stopped, which another start continues.
  enum class End { done, diverged, failed, stopped };
  struct Outcome {
    End end = End::done;
    std::string why;         ///< empty if it is done
    std::int64_t steps = 0;  ///< that its trainer has done
  };

  void serve();
  void serve_letters();
  void stop_study(const std::string& reason);
  void receive(const Mailbox::Letter& letter);
  void receive_as_scheduler(const Mailbox::Letter& letter);
  void deal();
  std::string next_order();
  void run_trial(const TrialId& id);
  Outcome train(const TrialId& id);
  Outcome outcome_of(const TrialId& id, const Error& error, bool has_begun);
  std::string divergence_of_earlier_start(const TrialId& id) const;
  bool is_shared(const Error& error) const;
  bool base_deck_can_begin() const;
  void report_earlier_evaluations(const TrialId& id, std::int64_t until);
  bool is_leader() const { return slot_.is_root(); }

  const TrialPlan& plan_;
  Communicator world_;
  Communicator slot_;
  TrialScheduler* scheduler_;
  StopRequest* stop_;
  Mailbox mailbox_;
  Watchdog watchdog_;
  Orders orders_;
  std::optional<TrialId> current_;
  bool has_told_signal_ = false;   ///< rank 0 has been told of this rank's signal
  bool study_has_failed_ = false;  ///< an error in serving letters concerns the study, not the trial that was running
  std::optional<Error> failure_;   ///< an error for which this slot's trial is not to blame
  // On rank 0:
  std::vector<Slot> slots_;
  std::string stopping_;
};

}  // namespace lockstep
