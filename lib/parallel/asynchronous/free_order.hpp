// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/asynchronous_config.hpp"
#include "optim/step_scalars.hpp"
#include "parallel/asynchronous/push_order.hpp"

namespace lockstep {

/// What happens to the parameters of free-running asynchronous training. All ranks take the same events in the same
/// order; of bytes alone, so that it can travel.
struct StoreEvent {
  enum class Kind : std::int32_t {
    given,  ///< a worker says that its gradient is on its way: for the rank that decides the order
    read,   ///< the worker gets the parameters as they are now, and computes the gradient of `part`
    push,   ///< the worker's gradient is added
    meet,   ///< all workers get the parameters, and nothing else is under way
  };
  Kind kind = Kind::given;
  std::int32_t worker = 0;
  std::int64_t part = 0;       ///< of the batches (PartRequest)
  std::int32_t is_update = 0;  ///< the push is the last one of an update, which is done with these:
  StepScalars scalars{};
};

/// The order in which workers' gradients are applied, and parameters read: that in which the workers come, as one rank
/// finds it. A worker that is further ahead of the slowest than the bound waits. Between two meetings all parts of the
/// batches between them are given out, each once, to whoever asks next. Keeps the record.
class FreeOrder {
 public:
  using Tell = std::function<void(const StoreEvent&)>;

  FreeOrder(int workers, const AsynchronousConfig& config);

  /// What the run has done so far, as a record has it.
  void go_on_behind(const PushOrder& done, std::int64_t updates);
  /// Workers set out from version `version`, and meet at version `meeting`.
  void begin(std::int64_t version, std::int64_t meeting, const Tell& tell);
  /// The worker has given its gradient.
  void take(int worker, const Tell& tell);

  struct Entry {
    PushOrder::Push push;
    std::int64_t part = 0;
  };
  /// Those pushes that are not taken yet, and that they are now.
  std::vector<Entry> take_entries() { return std::exchange(entries_, {}); }
  /// Pushes by their staleness.
  const std::vector<std::int64_t>& staleness_counts() const { return counts_; }

 private:
  struct Worker {
    std::int64_t given = 0, version = 0, part = 0;
  };
  void count(std::int64_t staleness);
  void give_out(const Tell& tell);

  std::vector<Worker> workers_;
  std::int64_t collect_;
  std::optional<std::int64_t> bound_;
  std::vector<int> waiting_;  ///< workers without anything to do, in the order in which they came
  std::int64_t version_ = 0, meeting_ = 0, pushed_ = 0, next_part_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> counts_;
};

}  // namespace lockstep
