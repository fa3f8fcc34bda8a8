// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/resilience/signals.hpp"

#include "base/duration.hpp"
#include "base/log.hpp"
#include "base/process.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "support/scratch.hpp"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(StopRequest, ReadsDurations) {
  for (const auto& [text, seconds] : {std::pair("2:00:00", 7200.0),
                                      {"0:00:30", 30.0},
                                      {"1-12:00:00", 129600.0},
                                      {"25:59:59.5", 93599.5},
                                      {"1-23:59:59", 172799.0},
                                      {"90 min", 5400.0},
                                      {"1.5h", 5400.0},
                                      {"45 s", 45.0},
                                      {"2 d", 172800.0}})
    EXPECT_EQ(duration_of(text), seconds) << text;
  for (const char* text : {"",        "90",          "1:30",     "1:2:3:4", "-1 s",       "1 week",   "1-2",
                           "h",       "1 h ",        ":::",      "1e400 s", "0 s",        "20000 d",  "nan s",
                           "2:00:-1", "1-1-1:00:00", "25:61:00", "1:00:60", "1-24:00:00", "0-1:59:99"})
    EXPECT_EQ(duration_of(text), std::nullopt) << text;
}

/// To this process, as launchers send it; returns when it has come.
void send(int signal) {
  ::kill(::getpid(), signal);
  for (int tries = 0; StopRequest::signal_number() == 0 && tries < 5000; ++tries) ::usleep(1000);
}

TEST(StopRequest, TakesSignals) {
  {
    StopRequest::take_signals();
    StopRequest request(std::nullopt, std::nullopt);
    EXPECT_EQ(request.reason(1e9), "");
    send(SIGUSR2);
    EXPECT_EQ(request.reason(0), "SIGUSR2");
  }
  StopRequest::take_signals();
  StopRequest again(std::nullopt, std::nullopt);
  EXPECT_EQ(again.reason(0), "") << "the earlier signal was another run's";
}

TEST(StopRequest, TwoSignalsAtOnceAreOneWish) {
  // In a process of its own, since the second signal may come at any time after the first.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopRequest::take_signals();
        send(SIGUSR2);
        send(SIGTERM);
        ::usleep(300000);
        std::_Exit(StopRequest::signal() == "SIGUSR2" ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(StopRequest, ASecondWishEndsTheProcess) {
  // In a process of its own, which inherits this one's mask: a fork of one with threads waited for ever once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopRequest::take_signals();
        send(SIGINT);
        ::usleep(1100000);
        send(SIGINT);
        ::usleep(5000000);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

/// A handler's frame on the stack of a thread that computes would lie in oneDNN's numbers.
TEST(StopRequest, SignalsInterruptNoThreadThatComputes) {
  StopRequest::take_signals();
  const auto is_blocked = [](int signal) {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return ::sigismember(&mask, signal) == 1;
  };
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    EXPECT_TRUE(is_blocked(signal)) << "in this thread, " << signal;
    std::thread([&] { EXPECT_TRUE(is_blocked(signal)) << "in a thread that comes later, " << signal; }).join();
  }
  send(SIGTERM);
  EXPECT_EQ(StopRequest::signal(), "SIGTERM") << "is handled all the same";
  StopRequest::take_signals();  // so that the next test finds none
}

TEST(StopRequest, LooksAtClockAndFile) {
  const test::ScratchFolder folder;
  StopRequest request(std::chrono::steady_clock::now() + 100s, folder / "stop");
  EXPECT_EQ(request.reason(10), "");
  EXPECT_EQ(request.reason(101), "its time is up");
  StopRequest by_file(std::nullopt, folder / "stop");
  EXPECT_EQ(by_file.reason(1e9), "");
  test::write_file(folder / "stop", "");
  ::usleep(1100000);
  EXPECT_EQ(by_file.reason(0), "the file " + folder / "stop");
  by_file.done();
  EXPECT_FALSE(std::filesystem::exists(folder / "stop"));
}

/// An environment variable for a while.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(StopRequest, FindsTheEndOfTheJob) {
  const auto now = std::chrono::steady_clock::now();
  const auto date = std::chrono::system_clock::now();
  const auto seconds_left = [&](std::optional<double> wall_time) {
    const auto end = end_of_job(wall_time);
    return end ? std::chrono::duration<double>(*end - now).count() : -1;
  };
  const auto epoch = [&](double seconds) {
    return std::to_string(
        static_cast<std::int64_t>(std::chrono::duration<double>(date.time_since_epoch()).count() + seconds));
  };
  const double age = seconds_since_process_start();  // a job's time began before
  EXPECT_EQ(seconds_left(std::nullopt), -1);
  EXPECT_NEAR(seconds_left(500), 500 - age, 2);
  {
    const Variable slurm("SLURM_JOB_END_TIME", epoch(300));
    EXPECT_NEAR(seconds_left(500), 300, 2);
    EXPECT_NEAR(seconds_left(100), 100 - age, 2);
    const Variable ours("LOCKSTEP_JOB_END_TIME", epoch(200));
    EXPECT_NEAR(seconds_left(std::nullopt), 200, 2);
    const Variable pbs("PBS_WALLTIME", "150");
    EXPECT_NEAR(seconds_left(std::nullopt), 150 - age, 2);
  }
  EXPECT_LT(seconds_left(1e-9), 0) << "its time is up, and not without limit";
  for (const char* name : {"LOCKSTEP_JOB_END_TIME", "PBS_WALLTIME"}) {
    const Variable never(name, "1e12");
    EXPECT_GT(seconds_left(std::nullopt), 1e9) << "beyond the clock's nanoseconds";
  }
  const Variable past("SLURM_JOB_END_TIME", epoch(-5));
  EXPECT_EQ(seconds_left(std::nullopt), -1) << "of a job before";
}

TEST(StopRequest, SaysWhenTheEndOfTheJobIsNoNumber) {
  std::string said;
  set_log_sink([&](LogLevel, std::string_view line) { said += line; });
  for (const char* name : {"LOCKSTEP_JOB_END_TIME", "SLURM_JOB_END_TIME", "PBS_WALLTIME"})
    for (const char* text : {"", "1:00:00", "tomorrow"}) {
      said.clear();
      const Variable wrong(name, text);
      EXPECT_EQ(end_of_job(std::nullopt), std::nullopt);
      EXPECT_EQ(said.find(std::string(name) + " is '" + text + "' (not a number of seconds)"), 0u) << said;
    }
  set_log_sink({});
}

}  // namespace
}  // namespace lockstep
