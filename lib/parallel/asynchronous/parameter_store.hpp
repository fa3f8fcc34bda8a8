// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "comm/transport.hpp"
#include "optim/optimizer.hpp"
#include "parallel/asynchronous/free_order.hpp"
#include "parallel/asynchronous/ordered_sum.hpp"
#include "parallel/local/outer_optimizer.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// The newest parameters of free-running asynchronous training, or a fraction of them, of which each rank keeps a
/// slice: it adds up what all workers give to it, updates it, and sends it to who reads. All slices take the same
/// events (StoreEvent) in the same order, so whoever reads gets one version. Slices are kept by the workers, or by
/// ranks before them (servers): what is on its way goes on when `advance` is called, and nothing else waits.
///
/// Where workers step by themselves, what they give are differences, not gradients, and an OuterOptimizer updates.
class ParameterStore {
 public:
  /// Divides this fraction of `parameters` among the servers, or the workers, which then own (ParameterBuffer::own)
  /// their slices; or, where they step by themselves, each worker all, and servers nothing. `ranks` are one of each. Of
  /// `examples` each gradient is. Collective.
  ParameterStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                 ParameterBuffer& parameters, ParameterRange fraction, std::int64_t examples);

  /// Numbers that each rank that keeps `slice` parameters has beside the buffer.
  static double numbers(const ParallelConfig& config, const FreeRules& rules, double slice);

  /// The parameters of the buffer are the newest.
  void adopt(const ExecSpace& space, std::int64_t version);
  void add(const StoreEvent& event) { events_.push_back(event); }
  /// Does what can be done now; whether that was anything.
  bool advance(const ExecSpace& space, Optimizer& optimizer);

  /// Updates wait meanwhile, since they borrow the buffer's places: others read the values there.
  void hold_updates(bool hold) { holds_updates_ = hold; }

  /// The event that this worker goes on with, once the parameters that it brings are in the buffer.
  std::optional<StoreEvent> take_turn();
  /// The gradients in the buffer begin their way; they stay as they are until the next turn.
  void give(const ExecSpace& space);

  /// Whether this worker's last gradient was dropped.
  bool has_dropped() const { return has_dropped_; }

  std::int64_t version() const { return version_; }
  /// Of this rank's slice of the last update's sum of gradients. Waits.
  double square(const ExecSpace& space) const;
  /// What this rank gives to checkpoints of the outer optimizer's states.
  void add_sharded_states(std::vector<ShardedState>& all) const;

 private:
  /// What this rank has of another worker, or of itself.
  struct Worker {
    OwnedTensor read;      ///< the slice as it was sent
    OwnedTensor gradient;  ///< the slice of its gradient, as it came
    std::int64_t version = 0;
    std::unique_ptr<Transport> values, gradients;  ///< to the rank so many places after this one, and from before
  };
  /// A rank `distance` places after this one, around the circle.
  int rank_after(int distance) const { return (ranks_.rank() + distance) % ranks_.size(); }
  int rank_before(int distance) const { return (ranks_.rank() + ranks_.size() - distance) % ranks_.size(); }
  int distance_to(int rank) const { return (rank + ranks_.size() - ranks_.rank()) % ranks_.size(); }
  bool keeps_slice(int rank) const { return servers_ == 0 || rank < servers_; }
  ParameterRange slice_of(int rank) const;
  /// The rank of the worker that an event is of.
  int rank_of(const StoreEvent& event) const { return servers_ + event.worker; }
  Worker& worker(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  Transport& values_to(int rank) { return *workers_[static_cast<std::size_t>(distance_to(rank))].values; }
  Transport& gradients_from(int rank) {
    return *workers_[static_cast<std::size_t>((ranks_.size() - distance_to(rank)) % ranks_.size())].gradients;
  }
  static void send(Transport& transport, int rank, const Tensor& numbers);
  bool handle(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event);
  bool lend(const ExecSpace& space, const StoreEvent& event);
  bool push(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event);
  bool drop(const StoreEvent& event);
  bool take_given();
  bool sync(const ExecSpace& space, const StoreEvent& event);
  void expect_values();
  void correct(const ExecSpace& space, const Worker& worker) const;
  void update(const ExecSpace& space, Optimizer& optimizer, const StepScalars& scalars);

  AsynchronousConfig config_;
  Communicator ranks_;
  ParameterBuffer& parameters_;
  ParameterRange fraction_;
  std::int64_t examples_;
  int servers_;
  ParameterRange own_;
  OwnedTensor values_;    ///< the slice
  std::int64_t collect_;  ///< gradients of an update
  OrderedSum sum_;        ///< theirs
  std::optional<OuterOptimizer> outer_;
  std::vector<Worker> workers_;  ///< by rank; transports by distance
  std::deque<StoreEvent> events_;
  std::optional<StoreEvent> turn_;
  bool has_dropped_ = false;
  std::int64_t version_ = 0;
  bool has_given_ = false;  ///< since it took its turn
  bool holds_updates_ = false;
};

}  // namespace lockstep
