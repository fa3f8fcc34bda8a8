// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// What must have been started before a command's work.
enum class Start {
  nothing,  ///< it needs only files and text
  plan,     ///< Kokkos, except in builds for devices: a node without a device can plan for nodes that have some
  ranks,    ///< MPI and Kokkos, in builds for devices on the device of each rank
};

/// What the command line asks for. `work` runs on every rank or, if MPI is not started, on the first of the processes
/// that a launcher has started. It returns the status of the program.
struct Command {
  Start start = Start::nothing;
  std::function<ExitStatus(const Communicator&)> work;
};

/// Declares the subcommands. The one that is parsed stores its work in `chosen`.
void declare_commands(CLI::App& app, Command& chosen);
/// Declares check.
void declare_check(CLI::App& app, Command& chosen);
/// Declares study.
void declare_study(CLI::App& app, Command& chosen);
/// Declares bench machine.
void declare_machine_bench(CLI::App& bench, Command& chosen);
/// Declares predict-scaling.
void declare_predict_scaling(CLI::App& app, Command& chosen);
/// Declares import and inspect.
void declare_file_commands(CLI::App& app, Command& chosen);
/// Declares report, info and schema.
void declare_printers(CLI::App& app, Command& chosen);

/// Returns the message about a command line that cannot be parsed. `found`: the parser's message, which is used if
/// there is no better one.
std::string usage_problem(const CLI::App& app, std::span<char* const> arguments, const CLI::ParseError& found);

}  // namespace lockstep
