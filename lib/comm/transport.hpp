// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Non-blocking messages between the ranks of a communicator, with at most one outgoing and one incoming at a time.
/// Messages from one rank to another are received in the order sent.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Starts sending; the data must stay unchanged until `sent`.
  virtual void send(int peer, const void* data, std::size_t bytes) = 0;
  virtual void receive(int peer, void* data, std::size_t bytes) = 0;
  /// True if the last message is complete, or if there was none.
  virtual bool sent() = 0;
  virtual bool received() = 0;
};

/// Provider of a communicator's transports other than MPI (Communicator::over).
class Interconnect {
 public:
  virtual ~Interconnect() = default;

  /// Implements make_transports.
  virtual std::vector<std::unique_ptr<Transport>> transports(const Communicator& ranks, int count) const = 0;
  /// Returns the ranks that share memory with this one. Collective over `ranks`.
  virtual Communicator node(const Communicator& ranks) const = 0;
  /// "emulated: 50 µs, 1 GB/s".
  virtual std::string description() const = 0;
};

/// Creates a transport over the communicator's network, with messages separate from all others of its ranks.
/// Collective.
std::unique_ptr<Transport> make_transport(const Communicator& ranks);
/// Creates `count` transports with separate messages: the i-th of one rank talks to the i-th of another. Together they
/// use no more MPI communicators than one does. Collective.
std::vector<std::unique_ptr<Transport>> make_transports(const Communicator& ranks, int count);

/// Creates a transport over MPI, with messages separate from all others of these ranks, sent in pieces of at most
/// `largest_piece` bytes (at most INT_MAX). Collective.
std::unique_ptr<Transport> mpi_transport(const Communicator& ranks, std::size_t largest_piece = std::size_t{1} << 30);
/// Creates `count` transports on one communicator, distinguished by their message tags. Collective.
std::vector<std::unique_ptr<Transport>> mpi_transports(const Communicator& ranks, int count,
                                                       std::size_t largest_piece = std::size_t{1} << 30);

}  // namespace lockstep
