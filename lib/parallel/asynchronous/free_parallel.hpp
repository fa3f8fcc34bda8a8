// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/mailbox.hpp"
#include "optim/gradient_scale.hpp"
#include "parallel/asynchronous/parameter_store.hpp"
#include "parallel/asynchronous/worker_group.hpp"
#include "parallel/asynchronous/worker_steps.hpp"
#include "parallel/parallel_strategy.hpp"

namespace lockstep {

/// Training as the workers come, each of which is a rank, or a group of neighbouring ones. It computes the gradient of
/// one part of a batch after the other by the parameters that a ParameterStore has at the time: asynchronously, or with
/// backup ranks (FreeRules). Rank 0 decides in what order gradients are applied and parameters read (FreeOrder), and
/// tells all. What ranks want of each other goes on between the layers of their passes. Where the run looks at its
/// parameters nothing is under way, and the ranks meet.
///
/// Each fraction of the parameters (WorkerGroup) has a store, among those ranks that have the same place in their
/// groups: a rank reads and gives its fraction there, and has the others from the ranks of its group. No rank waits for
/// a store but where it reads, and then until all of its group have read; so ranks of a group may wait for each other
/// from there until they have given.
///
/// A step is one gradient, judged by its worker's ranks alone, and part of an update; the one behind the last before a
/// meeting has no examples, and stands for all updates since the meeting before.
///
/// Where workers step by themselves (WorkerSteps), they give what a round of steps has changed, in the place of a
/// gradient, and an update counts for as many steps of the run. Each has states of the optimizer of its own.
class FreeParallel final : public ParallelStrategy, ParameterArrival {
 public:
  /// `group`: the ranks of this one's worker. Collective.
  FreeParallel(const ParallelConfig& config, const Communicator& ranks, const Topology& group, WorkersCourse course,
               ParameterBuffer& parameters);

  void go_on_behind(std::int64_t steps, std::int64_t optimizer_steps) override;
  void update_by(Optimizer& optimizer, Coefficients coefficients) override;
  Dealing dealing() const override { return Dealing::as_they_come; }
  std::int64_t parts_of_batch() const override { return rules_.parts * group_.size(); }
  std::int64_t examples_of_update(std::int64_t) const override { return update_examples(); }
  PartRequest next_part(const ExecSpace& space) override;

  StepRanks begin_step(const ExecSpace& space, std::int64_t number, const BatchPlan& batch,
                       const std::function<void()>& before_change) override;
  bool end_step(const ExecSpace& space, Optimizer& optimizer, double learning_rate,
                const std::function<void()>& before_change) override;
  bool is_local(std::int64_t) const override { return !meets_; }
  bool ranks_have_same_states() const override { return false; }

  void gradient_ready(const ExecSpace& space, ParameterRange) override { advance(space); }
  void shard_done(const ExecSpace& space) override;
  void finish_gradients(const ExecSpace& space, const std::function<void()>& meanwhile) override;
  Tensor gradient_square(const ExecSpace& space) override;
  Tensor nonfinite_gradients(const ExecSpace& space) override;
  void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars* step, double) override;
  ParameterArrival* parameter_arrival(Optimizer&) override { return this; }
  void share(const ExecSpace& space, Optimizer& optimizer) override;
  std::vector<HeldNumbers> held_numbers(const Optimizer& optimizer) const override;
  bool held_numbers_change_early() const override { return true; }
  GradientCounts gradient_counts(std::int64_t) const override {
    return {order_.staleness_counts(), order_.dropped() * part_examples()};
  }
  double take_exposed_seconds() override {
    return std::exchange(exposed_seconds_, 0.0) + group_.take_exposed_seconds();
  }

 private:
  bool have_arrived(const ExecSpace& space, std::int64_t) override {
    advance(space);
    return true;
  }
  void await(const ExecSpace&, std::int64_t) override {}
  template <class Done>
  void serve_until(const ExecSpace& space, const Done& done);
  bool advance(const ExecSpace& space);
  void take(const StoreEvent& event);
  void tell(StoreEvent event);
  void begin();
  void give(const ExecSpace& space);
  PartRequest request(std::int64_t part) const { return {.part = part * group_.size() + group_.ranks().rank()}; }
  void write_record();
  /// The number of this worker; servers come before the first one.
  int number() const { return group_.number() - (group_.count() - rules_.workers); }
  std::int64_t part_examples() const { return course_.batch / rules_.parts; }
  std::int64_t update_examples() const { return rules_.collect * part_examples(); }
  /// Steps of the run since the last meeting.
  std::int64_t steps_since() const { return steps_.behind(store_.version()) - steps_.behind(version_); }

  AsynchronousConfig config_;
  FreeRules rules_;
  UpdateSteps steps_;
  Communicator ranks_;
  WorkerGroup group_;
  WorkersCourse course_;
  ParameterBuffer& parameters_;
  ParameterStore store_;
  /// What a worker has that steps by itself.
  struct Own {
    WorkerSteps steps;
    OwnSteps count;
    GradientSquare square;
  };
  std::optional<Own> own_;
  Mailbox mailbox_;
  FreeOrder order_;  ///< of rank 0
  Optimizer* optimizer_ = nullptr;
  Coefficients coefficients_;
  bool is_under_way_ = false;                     ///< since the last meeting
  bool meets_ = true, is_first_ = true;           ///< of the steps since the last meeting
  std::int64_t version_ = 0, store_version_ = 0;  ///< of the last meeting; as rank 0 has told of it
  std::int64_t optimizer_steps_ = 0;              ///< see go_on_behind
  std::int64_t examples_ = 0;                     ///< of what was added since the last meeting
  double factor_ = 0;                             ///< gradient_square's, of the last update's sum
  bool has_file_ = false;                         ///< the record's, of this process
  OwnedTensor square_;
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
