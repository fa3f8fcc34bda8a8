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

/// What is wrong with the words that should be commands; empty: each is one.
std::string unknown_command(const CLI::App& app, std::span<char* const> arguments);

}  // namespace lockstep
