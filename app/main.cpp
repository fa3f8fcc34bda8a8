// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <csignal>
#include <exception>
#include <new>
#include <span>
#include <string>

#include "base/log.hpp"
#include "base/scheduling.hpp"
#include "base/version.hpp"
#include "commands.hpp"

namespace {

using namespace lockstep;

int exit_code(ExitStatus status) { return static_cast<int>(status); }

/// Errors that every rank has (Communicator::run_collectively) are said once, by rank 0. An error of one
/// rank alone is said by that rank, and ends all of them: the others may be waiting for it.
int run_command(const Command& command, const Communicator& comm) {
  std::string message;
  ExitStatus status = ExitStatus::internal;
  bool shared = false;
  try {
    return exit_code(command(comm));
  } catch (const SharedError& error) {
    message = error.what(), status = error.status(), shared = true;
  } catch (const Error& error) {
    message = error.what(), status = error.status();
  } catch (const std::bad_alloc&) {
    message = out_of_memory;
  } catch (const std::exception& error) {
    message = fmt::format("{}; this is a fault of Lockstep, please report it", error.what());
  }
  if (comm.is_root() || !shared) error_line(message);
  if (!shared && comm.size() > 1) comm.abort(status);
  return exit_code(status);
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error of who writes one
  schedule_as_batch();
  CLI::App app{"Lockstep: data-parallel neural-network training", "lockstep"};
  app.set_version_flag("--version", fmt::format("lockstep {} ({})", version(), git_hash()));
  app.require_subcommand(1);
  Command command;
  declare_commands(app, command);
  std::exception_ptr not_a_command;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error&) {
    not_a_command = std::current_exception();
  }

  MpiSession mpi(argc, argv);
  const Communicator comm = Communicator::world();
  enable_log(comm.is_root());
  try {
    if (not_a_command) std::rethrow_exception(not_a_command);
  } catch (const CLI::Success& done) {
    return comm.is_root() ? app.exit(done) : exit_code(ExitStatus::done);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_command(app, std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
    if (comm.is_root())
      error_line(fmt::format("command line: {}; see lockstep --help", unknown.empty() ? error.what() : unknown));
    return exit_code(ExitStatus::bad_usage);
  }
  return run_command(command, comm);
}
