// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/transport.hpp"
#include "optim/optimizer.hpp"
#include "parallel/asynchronous/free_order.hpp"
#include "parallel/groups/replica_update.hpp"
#include "parallel/reducers/deterministic_reducer.hpp"
#include "parallel/sharded_state.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Returns the slice, of `all` parameters, that rank `rank` of `ranks` keeps. The first `servers` ranks keep all of
/// them; without servers, each rank keeps a slice. Empty for a rank that keeps none.
ElementRange kept_slice(ElementRange all, int rank, int ranks, int servers);

/// Slices of the parameters, and the messages that carry them between free-running ranks. The first ranks are servers,
/// the others are workers. Each server keeps a slice; without servers, each worker does. A keeper sends the values of
/// its slice to readers, and workers send each keeper its slice of their gradients. Values and gradients of each pair
/// of ranks have a transport of their own, so that no message waits for another. Nothing here waits for other ranks.
class SliceExchange {
 public:
  /// Divides `all` among the keepers. Collective.
  SliceExchange(const Communicator& ranks, int servers, ElementRange all);

  int rank() const { return ranks_.rank(); }
  int rank_of_worker(int worker) const { return servers_ + worker; }
  bool is_server(int rank) const { return rank < servers_; }
  bool keeps_slice(int rank) const { return servers_ == 0 || is_server(rank); }
  /// See kept_slice.
  ElementRange slice_of(int rank) const { return kept_slice(all_, rank, ranks_.size(), servers_); }

  // A keeper sends the values of its slice to one other rank at a time, and receives that rank's gradients of the
  // slice. The memory must stay until the message has been sent, or received.
  void send_values(int reader, const Tensor& slice);
  bool has_sent_values(int reader) const { return values_[places_after(reader)]->sent(); }
  void receive_gradients(int worker, const Tensor& slice);
  bool has_received_gradients(int worker) const { return gradients_[places_before(worker)]->received(); }

  // Every rank receives the slices of the other keepers into its buffer of values, and sends each of them its slice
  // from the buffer of gradients.
  void receive_values(const ParameterBuffer& parameters);
  bool has_received_values() const;
  void send_gradients(const ParameterBuffer& parameters);
  bool has_sent_gradients() const;
  /// Sends the values of this rank's slice to all other ranks.
  void send_values_to_all(const Tensor& slice);
  bool has_sent_values() const;

 private:
  std::size_t size() const { return values_.size(); }
  // Ranks are a circle: the rank so many places after this one, or before it, and how many places that is.
  int rank_after(std::size_t places) const;
  int rank_before(std::size_t places) const;
  std::size_t places_after(int rank) const;
  std::size_t places_before(int rank) const;

  Communicator ranks_;
  int servers_;
  ElementRange all_;
  /// Number d sends to the rank d places after this one, and receives from the rank d places before it.
  std::vector<std::unique_ptr<Transport>> values_, gradients_;
};

/// The newest parameters of free-running asynchronous training, or a fraction of them. Each rank keeps a slice: it adds
/// up what all workers give to the slice, updates the slice, and sends it to readers. All slices take the same events
/// (StoreEvent) in the same order, so a reader gets one version. Slices are kept by the workers, or by the ranks before
/// them (servers). Messages make progress where `advance` is called, which does not wait for other ranks.
///
/// Where workers step by themselves, they give differences instead of gradients, and an OuterOptimizer makes the
/// update.
class ParameterStore {
 public:
  /// Divides this fraction of `parameters` among the servers, or else the workers (kept_slice). `ranks` are one rank of
  /// each server or worker. `examples` is the number of examples of each gradient. Collective.
  ParameterStore(const ParallelConfig& config, const FreeRules& rules, const Communicator& ranks,
                 ParameterBuffer& parameters, ElementRange fraction, std::int64_t examples);

  /// Numbers that a rank keeping `slice` parameters has besides the buffer.
  static double numbers(const ParallelConfig& config, const FreeRules& rules, double slice);

  /// Takes the parameters of the buffer as the newest ones.
  void adopt(const ExecSpace& space, std::int64_t version);
  void add(const StoreEvent& event) { events_.push_back(event); }
  /// Does what can be done without waiting; returns whether that was anything.
  bool advance(const ExecSpace& space, Optimizer& optimizer);

  /// Holds back updates while others read values in the buffer, because updates borrow its memory.
  void hold_updates(bool hold) { holds_updates_ = hold; }

  /// Returns the event that this worker goes on with, once its parameters are in the buffer; else none.
  std::optional<StoreEvent> take_turn();
  /// Begins to send the gradients in the buffer, which must stay as they are until the next turn.
  void give(const ExecSpace& space);

  /// Whether this worker's last gradient was dropped.
  bool has_dropped() const { return has_dropped_; }

  std::int64_t version() const { return version_; }
  /// Sum of squares of this rank's slice of the last update's sum of gradients. Waits for the device.
  double square(const ExecSpace& space) const;
  /// Adds the outer optimizer's velocity that this rank gives to checkpoints.
  void add_sharded_states(std::vector<ShardedState>& all) const;

 private:
  /// What this rank keeps for another worker, or for itself.
  struct Worker {
    OwnedTensor read;      ///< the slice as it was sent to the worker
    OwnedTensor gradient;  ///< the slice of the worker's gradient, as it came
    std::int64_t version = 0;
  };

  int rank_of(const StoreEvent& event) const { return slices_.rank_of_worker(event.worker); }
  Worker& worker(int rank) { return workers_[static_cast<std::size_t>(rank)]; }
  bool handle(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event);
  bool serve_read(const ExecSpace& space, const StoreEvent& event);
  bool push(const ExecSpace& space, Optimizer& optimizer, const StoreEvent& event);
  bool drop(const StoreEvent& event);
  bool take_given();
  bool sync(const ExecSpace& space, const StoreEvent& event);
  void correct(const ExecSpace& space, const Worker& worker) const;
  void update(const ExecSpace& space, Optimizer& optimizer, const UpdateScalars& scalars);

  AsynchronousConfig config_;
  ParameterBuffer& parameters_;
  std::int64_t examples_;
  OwnedTensor values_;           ///< this rank's slice
  std::vector<Worker> workers_;  ///< indexed by rank
  SliceExchange slices_;         ///< after the memory of its messages, which it must not outlive
  ElementRange own_;
  std::int64_t collect_;  ///< gradients of an update
  OrderedSum sum_;        ///< their sum
  std::optional<OuterOptimizer> outer_;
  std::deque<StoreEvent> events_;
  std::optional<StoreEvent> turn_;
  bool has_dropped_ = false;
  std::int64_t version_ = 0;
  bool has_given_ = false;  ///< since this rank took its turn
  bool holds_updates_ = false;
};

}  // namespace lockstep
