// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>

#include "comm/transport.hpp"

namespace lockstep {

/// Messages through MPI, apart from all others of the communicator's ranks. Collective.
std::unique_ptr<Transport> mpi_transport(const Communicator& ranks);

}  // namespace lockstep
