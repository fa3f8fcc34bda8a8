// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/transport.hpp"
#include "nn/parameters/parameter_buffer.hpp"

namespace lockstep {

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
  /// Empty for ranks that keep none.
  ElementRange slice_of(int rank) const;

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

}  // namespace lockstep
