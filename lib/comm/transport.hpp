// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace lockstep {

/// Messages between the ranks of a communicator, none of which waits: one may be on its way out and one on its way in
/// at a time. Two ranks receive from each other in the order in which they sent.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Begins to send; the data must stay as they are until `sent`.
  virtual void send(int peer, const void* data, std::size_t bytes) = 0;
  virtual void receive(int peer, void* data, std::size_t bytes) = 0;
  /// Whether the last message is done; true as well when there was none.
  virtual bool sent() = 0;
  virtual bool received() = 0;
};

/// What a communicator's transports are made of, where it is not MPI (Communicator::over).
class Interconnect {
 public:
  virtual ~Interconnect() = default;

  /// See make_transports.
  virtual std::vector<std::unique_ptr<Transport>> transports(const Communicator& ranks, int count) const = 0;
  /// The ranks that share memory with this one. Collective over `ranks`.
  virtual Communicator node(const Communicator& ranks) const = 0;
  /// "emulated: 50 µs, 1 GB/s".
  virtual std::string description() const = 0;
};

/// Over the communicator's network, apart from all other messages of its ranks. Collective.
std::unique_ptr<Transport> make_transport(const Communicator& ranks);
/// So many of them, apart from each other: a message of one is for the same one there. However many, they take what one
/// does of MPI's. Collective.
std::vector<std::unique_ptr<Transport>> make_transports(const Communicator& ranks, int count);

}  // namespace lockstep
