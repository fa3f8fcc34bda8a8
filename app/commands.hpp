// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>

#include "comm/communicator.hpp"

namespace lockstep {

/// What must have started before a command's work.
enum class Start {
  nothing,  ///< files and text are all that it needs
  plan,     ///< Kokkos, unless it computes on devices: a node without any can plan for those that have them
  ranks,    ///< MPI, and Kokkos on the device of each rank
};

/// What the command line asked for. `work` runs on every rank, or, where MPI does not start, on the first one of those
/// that a launcher has started; it says how the program is to end.
struct Command {
  Start start = Start::nothing;
  std::function<ExitStatus(const Communicator&)> work;
};

/// Declares the subcommands; the one that is parsed stores its work in `chosen`.
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

/// The message about a command line that cannot be parsed. `found`: what the parser says, for want of something better.
std::string usage_problem(const CLI::App& app, std::span<char* const> arguments, const std::string& found);

}  // namespace lockstep
