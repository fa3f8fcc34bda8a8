// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// What the command line says of an emulated network: each message between nodes takes at least latency + bytes /
/// bandwidth, and messages from one rank to another follow each other on one wire. Nothing computes meanwhile: a
/// message merely is not seen before its time.
struct EmulatedNetwork {
  double latency_us = 0;
  double bandwidth_gbps = 0;        ///< 10⁹ bytes a second; 0: without limit
  std::int64_t ranks_per_node = 1;  ///< ranks that share memory
};

/// Reads "latency_us=50,bandwidth_gbps=1,ranks_per_node=1", in which anything may be left out. Throws Error
/// (bad_usage).
EmulatedNetwork parse_emulated_network(const std::string& text);

/// These ranks, whose transports take that time and whose nodes have so many ranks. Throws SharedError for ranks
/// of several machines: times need one clock. Collective.
Communicator emulate_network(const Communicator& ranks, const EmulatedNetwork& network);
/// These ranks over the network that the command line names; empty: the ranks as they are. Throws SharedError where
/// ranks have been given different texts. Collective.
Communicator apply_network_option(const Communicator& ranks, const std::string& text);

}  // namespace lockstep
