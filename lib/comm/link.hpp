// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/spin_backoff.hpp"

namespace lockstep {

/// Messages between the ranks of a communicator, none of which waits: one may be on its way out and one on its way in
/// at a time. Two ranks receive from each other in the order in which they sent.
class Link {
 public:
  virtual ~Link() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins to send; the data must stay as they are until `sent`.
  virtual void send(int peer, const void* data, std::size_t bytes) = 0;
  virtual void receive(int peer, void* data, std::size_t bytes) = 0;
  /// Whether the last message is done; true as well when there was none.
  virtual bool sent() = 0;
  virtual bool received() = 0;
};

/// Through MPI, apart from all other messages of the communicator's ranks. Collective.
std::unique_ptr<Link> mpi_link(const Communicator& comm);

/// A network that one machine can be measured with: each message takes at least latency + bytes / bandwidth, and
/// a link's messages from one rank to another follow each other on its wire. (Each link has wires of its own.) Nothing
/// computes meanwhile: a message merely is not seen before its time.
struct EmulatedNetwork {
  double latency_us = 0;
  double bandwidth_gbps = 0;  ///< 10⁹ bytes a second; 0: without limit
};

/// Messages that take their time, between ranks whose `node` differs. Collective.
std::unique_ptr<Link> emulated_link(const Communicator& comm, const EmulatedNetwork& network, std::vector<int> node);

}  // namespace lockstep
