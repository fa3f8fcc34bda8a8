// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/timer.hpp"
#include "optim/step_scalars.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/asynchronous/update_steps.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// What happens to the parameters of free-running asynchronous training. All ranks take the same events in the same
/// order; of bytes alone, so that it can travel.
struct StoreEvent {
  enum class Kind : std::int32_t {
    given,  ///< a worker says that its gradient is on its way: for the rank that decides the order
    read,   ///< the worker gets the parameters as they are now, and computes the gradient of `part`
    push,   ///< the worker's gradient is added
    drop,   ///< the worker's gradient has come too late, and is not
    sync,   ///< all workers get the parameters, and nothing else is under way
  };
  Kind kind = Kind::given;
  std::int32_t worker = 0;
  std::int64_t part = 0;       ///< of the batches (PartRequest)
  std::int64_t steps = 0;      ///< that the worker does with it, or has done
  std::int32_t is_update = 0;  ///< the push is the last one of an update, which is done with these:
  StepScalars scalars{};
};

/// The rules by which gradients of workers make an update.
struct FreeRules {
  int workers = 1;
  std::int64_t collect = 1;           ///< gradients of an update
  std::int64_t parts_of_batch = 1;    ///< each gradient is of one
  std::optional<std::int64_t> bound;  ///< of how many gradients more than the slowest a worker may begin
  /// Whether updates are of gradients by the newest parameters alone: each is of one batch, and what comes later is
  /// dropped.
  bool is_synchronous = false;
  /// Workers that compute parts of a synchronous update's batch a second time. Of such a batch each part counts once,
  /// in the order of parts.
  int duplicates = 0;
  UpdateSteps steps{};    ///< that workers do, where they step by themselves; else one for each gradient
  bool by_speed = false;  ///< slow workers do fewer
  bool records = false;   ///< what is done is kept until it is taken (FreeOrder::take_entries)
};

/// Of so many ranks that run freely, up to step number `last`.
FreeRules free_rules(const ParallelConfig& config, int ranks, std::int64_t last = 0);

/// The order in which workers' gradients are applied, and parameters read: that in which the workers come, as one rank
/// finds it. Between two synchronizations all parts of the batches between them are given out, each to whoever asks
/// next; of synchronous updates those of one batch at a time, some twice, or fewer than all (FreeRules).
class FreeOrder {
 public:
  using Tell = std::function<void(const StoreEvent&)>;

  /// `seconds`: a clock, by which workers are slow.
  explicit FreeOrder(
      const FreeRules& rules, std::function<double()> seconds = [timer = Timer()] { return timer.seconds(); });

  /// What the run has done so far, as a record has it.
  void go_on_after(const PushOrder& done, std::int64_t updates);
  /// Workers set out from version `version`, and synchronize at version `sync`.
  void begin(std::int64_t version, std::int64_t sync, const Tell& tell);
  /// The worker has given its gradient.
  void take(int worker, const Tell& tell);

  struct Entry {
    PushOrder::Push push;
    std::int64_t part = 0;
  };
  /// Those pushes that are not taken yet, and that they are now.
  std::vector<Entry> take_entries() { return std::exchange(entries_, {}); }
  /// Pushes so far, by their staleness.
  const std::vector<std::int64_t>& staleness_counts() const { return counts_; }
  /// Gradients that came too late.
  std::int64_t dropped() const { return dropped_; }

 private:
  struct Worker {
    std::int64_t given = 0, version = 0, part = 0;
    std::int64_t counted = -1;  ///< version to which it has given its last gradient that was not late
    bool computes = false;
    double since = 0, took = 0;  ///< seconds, of the gradient that it computes, and of the one before
    std::int64_t steps = 0;      ///< of that which it computes
    std::deque<double> paces;    ///< seconds that its last steps took, each on the average of a round
  };
  Worker& worker(int number) { return workers_[static_cast<std::size_t>(number)]; }
  void count(std::int64_t staleness);
  void give_out(const Tell& tell);
  std::optional<std::int64_t> next_part(const Worker& worker);
  bool may_compute_more(const Worker& worker) const;
  std::optional<std::int64_t> part_of_slowest() const;
  bool is_complete(std::int64_t part) const { return part < pushed_ || complete_.contains(part); }
  bool is_late(const Worker& worker) const;
  std::int64_t steps_of(const Worker& begins) const;
  void push(int number, const Tell& tell);

  FreeRules rules_;
  std::function<double()> seconds_;
  std::vector<Worker> workers_;
  std::vector<int> waiting_;              ///< workers without anything to do, in the order in which they came
  std::map<std::int64_t, int> complete_;  ///< workers of parts whose turn has not come yet
  std::int64_t version_ = 0, sync_ = 0, next_part_ = 0;
  std::int64_t pushed_ = 0;  ///< gradients, of all updates of the run
  std::vector<Entry> entries_;
  std::vector<std::int64_t> counts_;
  std::int64_t dropped_ = 0;
};

}  // namespace lockstep
