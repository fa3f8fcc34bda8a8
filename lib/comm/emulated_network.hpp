// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// Parameters of --emulate-network. Each message between nodes takes at least latency + bytes / bandwidth, and messages
/// from one rank to another share one wire. The emulation uses no processor time: it only delays when a message is
/// seen.
struct EmulatedNetwork {
  double latency_us = 0;
  double bandwidth_gbps = 0;        ///< 10⁹ bytes per second; 0: unlimited
  std::int64_t ranks_per_node = 1;  ///< number of ranks that share memory
};

/// Parses "latency_us=50,bandwidth_gbps=1,ranks_per_node=1", each part of which is optional. Throws Error (bad_usage).
EmulatedNetwork parse_emulated_network(const std::string& text);

/// Returns the ranks with transports that are delayed accordingly, in nodes of `ranks_per_node` ranks. Throws
/// SharedError for ranks on several machines, because delays need a common clock. Collective.
Communicator emulate_network(const Communicator& ranks, const EmulatedNetwork& network);
/// Returns the ranks over the network described by `text`, the option's value, or unchanged if it is empty. Throws
/// SharedError if ranks have different texts. Collective.
Communicator apply_network_option(const Communicator& ranks, const std::string& text);

}  // namespace lockstep
