// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "optim/update_scalars.hpp"
#include "parallel/asynchronous/push_order.hpp"
#include "parallel/config/parallel_config.hpp"

namespace lockstep {

/// An event of the parameters in free-running asynchronous training. All ranks take the same events in the same order.
/// Trivially copyable, so that it can be sent as bytes.
struct StoreEvent {
  enum class Kind : std::int32_t {
    arrived,  ///< a worker says, to the rank that decides the order, that its gradient is on its way
    read,     ///< the worker gets the current parameters, and computes the gradient of `part`
    push,     ///< the worker's gradient is added
    drop,     ///< the worker's gradient has come too late, and is not added
    sync,     ///< all workers get the parameters, and nothing else is under way
  };
  Kind kind = Kind::arrived;
  std::int32_t worker = 0;
  std::int64_t part = 0;       ///< number among the parts of all batches (Sampler::part)
  std::int32_t is_update = 0;  ///< 1: the push is the last one of an update, which is done with `scalars`
  UpdateScalars scalars{};
};

/// Rules by which gradients of workers make an update.
struct FreeRules {
  int workers = 1;
  std::int64_t collect = 1;           ///< gradients of an update
  std::int64_t parts_of_batch = 1;    ///< each gradient is of one part
  std::optional<std::int64_t> bound;  ///< by how many gradients a worker may be ahead of the slowest; none: any number
  /// Whether an update takes only gradients by the newest parameters: then it is of one batch, and what comes later is
  /// dropped.
  bool is_synchronous = false;
  /// Number of workers that compute parts of a synchronous update's batch a second time. Each part of such a batch
  /// counts once, and parts count in their order.
  int duplicates = 0;
  UpdateSteps steps{};   ///< of a worker's round, if workers step by themselves; else one for each gradient
  bool records = false;  ///< entries are kept until they are taken (FreeOrder::take_entries)
};

/// Returns the rules for `ranks` ranks that run freely, up to step number `last`.
FreeRules free_rules(const ParallelConfig& config, int ranks, std::int64_t last = 0);

/// The order in which workers' gradients are applied and parameters are read: the order in which the workers come, as
/// one rank sees it. Between two synchronizations all parts of the batches in between are given out, each to the worker
/// that asks next. In synchronous updates these are the parts of one batch at a time, some of them twice, or not all
/// (FreeRules).
class FreeOrder {
 public:
  using Tell = std::function<void(const StoreEvent&)>;

  /// `seconds` is the clock that shows which worker is the slowest.
  explicit FreeOrder(
      const FreeRules& rules, std::function<double()> seconds = [timer = Timer()] { return timer.seconds(); });

  /// Takes over the first `updates` updates of the run from its record.
  void resume_after(const PushOrder& done, std::int64_t updates);
  /// Workers set out from version `version`, and synchronize at version `sync`.
  void begin(std::int64_t version, std::int64_t sync, const Tell& tell);
  /// Call when the worker has given its gradient.
  void take(int worker, const Tell& tell);

  struct Entry {
    PushOrder::Push push;
    std::int64_t part = 0;
  };
  /// Returns the pushes that have not been taken yet, which then count as taken.
  std::vector<Entry> take_entries() { return std::exchange(entries_, {}); }
  /// Numbers of pushes so far, by staleness.
  const std::vector<std::int64_t>& staleness_counts() const { return counts_; }
  /// Number of gradients that came too late.
  std::int64_t dropped() const { return dropped_; }

 private:
  struct Worker {
    std::int64_t given = 0, version = 0, part = 0;
    std::int64_t counted = -1;  ///< version to which its last gradient was given in time
    bool computes = false;
    double since = 0, took = 0;  ///< seconds: when it began its gradient; how long the one before took
  };
  Worker& worker(int number) { return workers_[static_cast<std::size_t>(number)]; }
  void count(std::int64_t staleness);
  void give_out(const Tell& tell);
  std::optional<std::int64_t> next_part(const Worker& worker);
  bool may_compute_more(const Worker& worker) const;
  std::optional<std::int64_t> part_of_slowest() const;
  bool is_complete(std::int64_t part) const { return part < pushed_ || complete_.contains(part); }
  bool is_late(const Worker& worker) const;
  void push(int number, const Tell& tell);

  FreeRules rules_;
  std::function<double()> seconds_;
  std::vector<Worker> workers_;
  std::vector<int> waiting_;              ///< workers with nothing to do, in the order in which they came
  std::map<std::int64_t, int> complete_;  ///< complete parts whose turn has not come yet, with their workers
  std::int64_t version_ = 0, sync_ = 0, next_part_ = 0;
  std::int64_t pushed_ = 0;  ///< gradients in all updates of the run
  std::vector<Entry> entries_;
  std::vector<std::int64_t> counts_;
  std::int64_t dropped_ = 0;
};

}  // namespace lockstep
