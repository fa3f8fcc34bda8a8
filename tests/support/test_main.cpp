// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "comm/communicator.hpp"
#include "core/device.hpp"

namespace {

/// Output of all ranks but the first: only their failures.
class FailuresOnly final : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}

 private:
  // GoogleTest holds its lock while it reports a result, so the name of the test must be known before.
  void OnTestStart(const testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s: %s:%d: %s\n", rank_, test_.c_str(), result.file_name() ? result.file_name() : "",
                 result.line_number(), result.message());
  }

  int rank_;
  std::string test_;
};

/// On a timeout ($LOCKSTEP_TEST_SECONDS), prints on each rank which test it is in, and ends it. So a hang shows which
/// rank is elsewhere than the others, or how long all of them have waited.
class Watch final : public testing::EmptyTestEventListener {
 public:
  Watch(int rank, double seconds) : rank_(rank), seconds_(seconds), thread_([this] { wait(); }) {}
  ~Watch() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void OnTestStart(const testing::TestInfo& test) override {
    const std::lock_guard lock(mutex_);
    test_ = std::string(test.test_suite_name()) + "." + test.name();
    begin_ = Clock::now();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds_), [this] { return over_; })) return;
    std::fprintf(stderr, "rank %d: time is up; it has been in %s for %.1f s\n", rank_, test_.c_str(),
                 std::chrono::duration<double>(Clock::now() - begin_).count());
    std::fflush(stderr);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // lets the other ranks print too
    std::_Exit(1);
  }

  int rank_;
  double seconds_;
  std::mutex mutex_;  // protects the members below
  std::condition_variable changed_;
  std::string test_ = "no test";
  Clock::time_point begin_ = Clock::now();
  bool over_ = false;
  std::thread thread_;  // last member: the thread uses all others
};

}  // namespace

/// Read by AddressSanitizer if it is linked in: MPI libraries do not free everything, so leaks are not reported.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

/// Under mpirun every rank runs every test, so that tests may communicate; the exit status is a failure if any rank
/// fails.
int main(int argc, char** argv) {
  lockstep::MpiSession mpi(argc, argv);
  const lockstep::Communicator comm = lockstep::Communicator::world();
  lockstep::record_kernels();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  if (!comm.is_root()) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(comm.rank()));
  }
  if (const char* seconds = std::getenv("LOCKSTEP_TEST_SECONDS"))
    testing::UnitTest::GetInstance()->listeners().Append(new Watch(comm.rank(), std::atof(seconds)));
  return static_cast<int>(comm.all_reduce_max(std::int64_t{RUN_ALL_TESTS()}));
}
