// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains like `lockstep train`, but one rank misbehaves in a phase of a step: hanging_rank RANK STEP PHASE[:N] WAY
// DECK. It does so when it enters that phase for the N-th time from the step on (in a free run, all until a
// synchronization is one step). If the run survives that, it stops itself by SIGUSR1 some steps later.
#include <signal.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "config/deck.hpp"
#include "run/resilience/signals.hpp"
#include "run/training/training_run.hpp"

using namespace lockstep;

std::atomic<std::uint64_t> turns = 0;

// External functions, so that stack traces show their names.
[[gnu::noinline]] void spin_for_ever() {
  for (;;) ++turns;
}

[[gnu::noinline]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

namespace {

bool done = false;
std::string phase, way;
std::int64_t at_step = 0, times = 1;
Trainer* trainer = nullptr;

/// Stops all ranks of this launcher for 5 s, as a batch system does that gives their cores to another job.
void suspend_all() {
  if (::fork() != 0) return;
  ::execl(
      "/bin/bash", "bash", "-c",
      "launcher=$(ps -o ppid= -p $(ps -o ppid= -p $PPID)); ranks=$(pgrep -P $(pgrep -d, -P $launcher) hanging_rank);"
      "kill -STOP $ranks; sleep 5; kill -CONT $ranks",
      nullptr);
  std::_Exit(1);
}

void misbehave() {
  std::fprintf(stderr, "misbehaves at %.3f\n",
               std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  if (way == "spin") spin_for_ever();
  if (way == "sleep") sleep_for_ever();
  if (way == "stop") ::raise(SIGSTOP);
  if (way == "kill") ::raise(SIGKILL);
  if (way == "exit") std::_Exit(0);
  if (way == "nap") std::this_thread::sleep_for(std::chrono::seconds(6));
  if (way == "suspend") suspend_all();
  if (way == "signal") {
    ::kill(::getpid(), SIGUSR1);
    while (StopRequest::signal_number() == 0) std::this_thread::yield();  // until the signal thread has taken it
  }
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession mpi(argc, argv);
  StopRequest::take_signals();
  if (argc != 6) return 64;
  const Communicator comm = Communicator::world();
  const Kokkos::ScopeGuard kokkos;
  enable_log(comm.is_root());
  at_step = std::atoll(argv[2]);
  phase = argv[3], way = argv[4];
  if (const std::size_t colon = phase.find(':'); colon != std::string::npos) {
    times = std::stoll(phase.substr(colon + 1));
    phase.resize(colon);
  }
  TrainingRun run(read_run_config(parse_deck(read_deck_file(argv[5]), argv[5])), comm);
  trainer = &run.trainer();
  if (comm.rank() == std::atoi(argv[1]))
    Kokkos::Tools::Experimental::set_push_region_callback([](const char* name) {
      if (name != phase || trainer->steps() + 1 < at_step || --times > 0) return;
      if (!std::exchange(done, true)) misbehave();
      else if (trainer->steps() == at_step + 20) ::kill(::getpid(), SIGUSR1);
    });
  return static_cast<int>(run.run());
}
