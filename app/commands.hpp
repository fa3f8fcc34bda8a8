// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

#include "comm/communicator.hpp"

namespace lockstep {

/// What the command line asked for: runs on every rank, after MPI has started, and says how the program is to end.
using Command = std::function<ExitStatus(const Communicator&)>;

/// Declares the subcommands; the one that is parsed stores its work in `chosen`.
void declare_commands(CLI::App& app, Command& chosen);

}  // namespace lockstep
