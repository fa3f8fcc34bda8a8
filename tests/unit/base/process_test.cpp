// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "base/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_until(Clock::time_point time) { return std::chrono::duration<double>(time - process_start()).count(); }

/// A process that waits until it is killed.
class Child {
 public:
  Child() : number_(::fork()) {
    if (number_ == 0)
      for (;;) ::pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(number_, SIGKILL);
    ::waitpid(number_, nullptr, 0);
  }
  pid_t number() const { return number_; }
  /// Kills the process and leaves it a zombie: only the destructor collects its exit status.
  void kill() const {
    ::kill(number_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(number_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t number_;
};

TEST(Process, CountsByTheClockThatNobodySets) {
  const Clock::time_point before = Clock::now();
  const double seconds = seconds_since_process_start();
  const Clock::time_point after = Clock::now();
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds_until(before), seconds);
  EXPECT_GE(seconds_until(after), seconds);
  EXPECT_EQ(process_start(), process_start()) << "its start does not move";
}

/// Unsets the environment variables of launchers, and restores them at its end.
class LaunchEnvironment {
 public:
  LaunchEnvironment() {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_STEP_NUM_TASKS",
          "SLURM_PROCID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "PALS_RANKID", "PALS_SIZE", "MV2_COMM_WORLD_RANK",
          "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"})
      change(name, nullptr);
  }
  ~LaunchEnvironment() {
    while (!before_.empty()) {
      const auto& [name, value] = before_.back();
      if (value) ::setenv(name, value->c_str(), 1);
      else ::unsetenv(name);
      before_.pop_back();
    }
  }
  LaunchEnvironment(const LaunchEnvironment&) = delete;
  LaunchEnvironment& operator=(const LaunchEnvironment&) = delete;
  void set(const char* name, const char* value) { change(name, value); }

 private:
  void change(const char* name, const char* value) {
    const char* now = std::getenv(name);
    before_.emplace_back(name, now ? std::optional<std::string>(now) : std::nullopt);
    if (value) ::setenv(name, value, 1);
    else ::unsetenv(name);
  }
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST(Process, IsOneOfSeveralWithoutALibraryThatSaysSo) {
  const std::pair<const char*, const char*> launchers[] = {{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                           {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                                           {"PALS_RANKID", "PALS_SIZE"},
                                                           {"PALS_RANKID", "PMI_SIZE"},
                                                           {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
                                                           {"MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"}};
  for (const auto& [rank, size] : launchers) {
    LaunchEnvironment environment;
    environment.set(rank, "0");
    EXPECT_EQ(started_together(), 1) << rank;
    environment.set(size, "6");
    EXPECT_EQ(started_together(), 6) << rank;
    environment.set(rank, "5");
    EXPECT_EQ(started_together(), 1) << rank;
  }
}

TEST(Process, KnowsWhatItMayUse) {
  EXPECT_GE(usable_threads(), static_cast<int>(usable_cores().size()));
  EXPECT_GE(usable_threads(), 1);
  if (const std::optional<double> quota = cpu_quota()) EXPECT_GT(*quota, 0);
  ASSERT_TRUE(available_memory().has_value());
  EXPECT_GT(*available_memory(), 1e6);
}

TEST(Process, KnowsItsRankBeforeMpiHasStarted) {
  LaunchEnvironment environment;
  EXPECT_FALSE(launched_rank().by_launcher);
  EXPECT_EQ(launched_rank().rank, 0);
  EXPECT_EQ(launched_rank().size, 1);
  EXPECT_EQ(started_together(), 1);
  environment.set("SLURM_PROCID", "0");
  EXPECT_EQ(started_together(), 1) << "a job script";
  environment.set("SLURM_STEP_NUM_TASKS", "5");
  EXPECT_EQ(started_together(), 5) << "srun without an interface of MPI";
  EXPECT_FALSE(launched_rank().by_launcher) << "these processes may have separate work";
  environment.set("SLURM_PROCID", "2");
  EXPECT_EQ(started_together(), 1) << "the first one speaks";
  environment.set("SLURM_STEP_NUM_TASKS", nullptr);
  environment.set("PMI_RANK", "3");
  EXPECT_TRUE(launched_rank().by_launcher);
  EXPECT_EQ(launched_rank().rank, 3);
  EXPECT_EQ(launched_rank().size, 4) << "at least";
  environment.set("SLURM_STEP_NUM_TASKS", "16");
  EXPECT_EQ(launched_rank().size, 16);
  environment.set("PMI_SIZE", "8");
  EXPECT_EQ(launched_rank().size, 8);
  environment.set("OMPI_COMM_WORLD_RANK", "1");
  environment.set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_EQ(launched_rank().rank, 1);
  EXPECT_EQ(launched_rank().size, 2);
  environment.set("OMPI_COMM_WORLD_RANK", "no number");
  EXPECT_EQ(launched_rank().rank, 3) << "as PMI says";
}

TEST(Process, KnowsWhichOnesHaveEnded) {
  EXPECT_FALSE(process_has_ended(::getpid()));
  pid_t number = 0;
  {
    const Child child;
    number = child.number();
    EXPECT_FALSE(process_has_ended(number));
    child.kill();
    EXPECT_TRUE(process_has_ended(number)) << "only its exit status is left";
  }
  EXPECT_TRUE(process_has_ended(number)) << "nothing is left";
}

TEST(Process, ReadsFieldsOfOthers) {
  const Child child;
  EXPECT_EQ(process_field(child.number(), 4), std::to_string(::getpid())) << "its parent";
  EXPECT_EQ(process_field(child.number(), 22).find_first_not_of("0123456789"), std::string::npos);
  EXPECT_FALSE(process_field(child.number(), 22).empty());
  EXPECT_EQ(process_field(child.number(), 1000), "");
  EXPECT_EQ(process_field(std::int64_t{1} << 40, 3), "") << "there is no such process";
}

TEST(Process, SeesSignalsThatWait) {
  constexpr int wanted[] = {SIGUSR2, SIGTERM};
  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (const int signal : {SIGUSR1, SIGUSR2}) sigaddset(&blocked, signal);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const Child child;  // inherits the blocked signals
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(pending_signal(child.number(), wanted), 0);
  ::kill(child.number(), SIGUSR1);
  EXPECT_EQ(pending_signal(child.number(), wanted), 0) << "nobody asked for that one";
  ::kill(child.number(), SIGUSR2);
  EXPECT_EQ(pending_signal(child.number(), wanted), SIGUSR2);
  EXPECT_EQ(pending_signal(std::int64_t{1} << 40, wanted), 0) << "there is no such process";
}

}  // namespace
}  // namespace lockstep
