// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "run/deck/run_config.hpp"

// What several commands are made of.
namespace lockstep {

/// DECK [key.path=value …], shared by the commands that read a deck.
struct DeckArguments {
  std::string file;
  std::vector<std::string> overrides;

  void declare(CLI::App& command);
  /// Rank 0 reads the file, and all ranks read its text.
  RunConfig read(const Communicator& comm) const;
};

/// Of commands that stop at a checkpoint, and go on when who reads their log has gone. Before MPI starts, which may
/// take a while.
void take_stop_signals();

/// A check of an option's value: `problem` is said of what does not pass `check`.
std::function<std::string(const std::string&)> saying(const CLI::Validator& check, const std::string& problem);

/// Text that is a command's result goes to standard output whole. Throws io_error, as on a full disk; a reader that has
/// gone wants no more.
void print(const std::string& text);
/// On rank 0.
void print(const Communicator& comm, const std::string& text);

/// Work of one process, whatever the number of ranks.
ExitStatus on_root(const Communicator& comm, const std::function<void()>& work);

/// Throws bad_usage where --data of a command names a group of its own (FILE:/GROUP), and --split another one.
/// Collective.
void check_split(const Communicator& comm, const CLI::App& command);

/// The option of commands whose ranks may measure another network: its text.
std::shared_ptr<std::string> declare_network(CLI::App& command);

}  // namespace lockstep
