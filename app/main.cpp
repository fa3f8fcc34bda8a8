// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>
#include <csignal>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "base/log.hpp"
#include "base/process.hpp"
#include "base/version.hpp"
#include "comm/device_all_reduce.hpp"
#include "comm/topology.hpp"
#include "commands.hpp"
#include "core/device.hpp"
#include "core/execution.hpp"
#include "io/hdf5.hpp"
#include "run/resilience/signals.hpp"

namespace {

using namespace lockstep;

int exit_code(ExitStatus status) { return static_cast<int>(status); }

/// Starts Kokkos, for commands that compute or plan.
void start_kokkos(Start start, std::optional<Kokkos::ScopeGuard>& kokkos, const Communicator& comm) {
  if (start == Start::nothing || (start == Start::plan && runs_on_device)) return;
  comm.run_collectively([] {
    validate(device_count() > 0, ExitStatus::internal,
             "this program computes on {}, but there is no device here (a login node?); run it in a job that has one",
             ExecSpace::name());
  });
  record_kernels();
  Kokkos::InitializationSettings settings;
  if constexpr (is_a_device)
    if (const auto device = device_for(Topology(comm).node.rank(), device_count())) settings.set_device_id(*device);
  kokkos.emplace(settings);
  if constexpr (is_a_device)
    for (const std::string& remark : shared_devices(comm.gather_to_root(own_device_place()))) warn_line(remark);
}

/// Errors that every rank has (Communicator::run_collectively) are reported once, by rank 0. An error of a single rank
/// is reported by that rank and ends all ranks, since others may be waiting for it.
int run_command(const Command& command, const Communicator& comm) {
  try {
    std::optional<Kokkos::ScopeGuard> kokkos;
    start_kokkos(command.start, kokkos, comm);
    return exit_code(command.work(comm));
  } catch (const std::exception& exception) {
    const bool shared = dynamic_cast<const SharedError*>(&exception) != nullptr;
    const Error error = as_error(exception);
    if (comm.is_root() || !shared) error_line(error.what());
    if (!shared && comm.size() > 1) comm.abort(error.status());
    return exit_code(error.status());
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit on file sizes then returns an error
  schedule_as_batch();
  skip_hdf5_at_exit();
  CLI::App app{"Lockstep: data-parallel neural-network training", "lockstep"};
  app.set_version_flag("--version", fmt::format("lockstep {} ({})", version(), git_hash()));
  app.require_subcommand(1);
  Command command;
  declare_commands(app, command);
  // Without MPI, the first rank works and reports for all. The others end at once with status 0: at another status,
  // launchers would end the first one, which may not have reported yet what is wrong.
  const bool is_first = launched_rank().rank == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return is_first ? app.exit(done) : exit_code(ExitStatus::done);
  } catch (const CLI::ParseError& error) {
    if (!is_first) return exit_code(ExitStatus::done);
    error_line(usage_problem(app, std::span(argv, static_cast<std::size_t>(argc)).subspan(1), error));
    return exit_code(ExitStatus::bad_usage);
  } catch (const std::system_error& failure) {  // no thread for signals
    const Error error = as_error(failure);
    error_line(error.what());
    return exit_code(error.status());
  }
  if (command.start != Start::ranks)
    return is_first ? run_command(command, Communicator::alone()) : exit_code(ExitStatus::done);

  MpiSession mpi(argc, argv);
  const Communicator comm = Communicator::world();
  enable_log(comm.is_root());
  report_aborts(comm.rank());
  if (const int started = started_together(); started > comm.size())
    warn(
        "{} processes were started together, but MPI knows of {}: each works by itself; if they were meant as one run, "
        "the launcher does not fit the MPI library; use its own mpirun, or srun --mpi=pmix (srun --mpi=list names "
        "others), or flux run -o pmi=pmix",
        started, comm.size());
  return run_command(command, comm);
}
