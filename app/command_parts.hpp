// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"

// Parts that several commands have in common.
namespace lockstep {

/// The arguments DECK [key.path=value …] of the commands that read a deck.
struct DeckArguments {
  std::string file;
  std::vector<std::string> overrides;

  void declare(CLI::App& command);
  /// Rank 0 reads the file and sends its text to all ranks. Collective.
  RunConfig read(const Communicator& comm) const;
};

/// For commands that stop at a checkpoint: handles stop signals from now on, and ignores SIGPIPE, so that they go on if
/// the reader of their log has gone. To be called before MPI starts, which may take a while.
void take_stop_signals();

/// Returns a check of an option's value that reports `problem` for values that do not pass `check`.
std::function<std::string(const std::string&)> saying(const CLI::Validator& check, const std::string& problem);

/// Writes a command's result to standard output as a whole. Throws io_error, as on a full disk; a reader that has gone
/// is no error.
void print(const std::string& text);
/// Prints on rank 0 only.
void print(const Communicator& comm, const std::string& text);

/// Returns the value of --data with the group that --split names; empty without --data. Throws bad_usage if the value
/// names another group already (FILE:/GROUP). Collective.
std::string data_place(const Communicator& comm, const CLI::App& command);

/// Declares the option of commands whose ranks may emulate another network; returns its text.
std::shared_ptr<std::string> declare_network(CLI::App& command);

}  // namespace lockstep
