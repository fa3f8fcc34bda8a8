// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/transport.hpp"

namespace lockstep {

/// Creates a transport over MPI, with messages separate from all others of these ranks, sent in pieces of at most
/// `largest_piece` bytes (at most INT_MAX). Collective.
std::unique_ptr<Transport> mpi_transport(const Communicator& ranks, std::size_t largest_piece = std::size_t{1} << 30);
/// Creates `count` transports on one communicator, distinguished by their message tags. Collective.
std::vector<std::unique_ptr<Transport>> mpi_transports(const Communicator& ranks, int count,
                                                       std::size_t largest_piece = std::size_t{1} << 30);

}  // namespace lockstep
