// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mailbox.hpp"
#include "resilience/stop_request.hpp"
#include "run/training/run_owner.hpp"
#include "study/trial_plan.hpp"
#include "study/trial_scheduler.hpp"

namespace lockstep {

/// The ranks of a study, as slots of so many ranks, each of which trains one trial after another. Rank 0 deals them
/// out, between the steps of its own trial; nobody waits for an answer but who has nothing to do. Every rank has one.
class TrialExecutor final : public RunOwner {
 public:
  /// `slot`: the part of `world` that this rank is in. `scheduler`, `stop`: of rank 0; null elsewhere.
  TrialExecutor(const TrialPlan& plan, const Communicator& world, const Communicator& slot, TrialScheduler* scheduler,
                StopRequest* stop);

  /// Trains until there is no trial left (`done`), or something wants the study to stop. Once all slots have stopped,
  /// throws what one of them has met that is no trial's fault. Collective.
  ExitStatus work();
  /// Why it has stopped; of rank 0.
  const std::string& stop_reason_of_study() const { return stopping_; }

  std::string stop_reason() override;
  bool ends_after(std::int64_t step, const Metrics& metrics) override;

 private:
  struct Slot {
    std::optional<TrialId> runs;
    bool waits = false, has_left = false;
    bool is_to_end = false, is_to_stop = false;  ///< it has been told
  };
  /// What the first rank of a slot has been told.
  struct Orders {
    std::optional<std::string> next;  ///< trial, or that there is none
    std::optional<TrialId> superfluous;
    std::string stop;
  };

  void serve();
  void serve_letters();
  void receive(const Mailbox::Letter& letter);
  void receive_as_scheduler(const Mailbox::Letter& letter);
  void deal();
  std::string next_order();
  void run_trial(const TrialId& id);
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
  Orders orders_;
  std::optional<TrialId> current_;
  bool study_has_failed_ = false;  ///< not the trial in whose midst that was found
  std::optional<Error> failure_;   ///< for which this slot's trial is not to blame
  // Of rank 0:
  std::vector<Slot> slots_;
  std::string stopping_;
};

}  // namespace lockstep
