// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/transport.hpp"

namespace lockstep {

/// Messages through MPI, apart from all others of the communicator's ranks, and in pieces of at most so many bytes
/// (INT_MAX or less). Collective.
std::unique_ptr<Transport> mpi_transport(const Communicator& ranks, std::size_t largest_piece = std::size_t{1} << 30);
/// So many, apart from each other by the tags of their messages.
std::vector<std::unique_ptr<Transport>> mpi_transports(const Communicator& ranks, int count,
                                                       std::size_t largest_piece = std::size_t{1} << 30);

}  // namespace lockstep
