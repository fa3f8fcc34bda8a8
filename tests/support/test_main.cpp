// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <string>

#include "comm/communicator.hpp"

namespace {

/// What the ranks behind the first say: their failures, and nothing else.
class FailuresOnly final : public testing::EmptyTestEventListener {
 public:
  explicit FailuresOnly(int rank) : rank_(rank) {}

 private:
  // GoogleTest holds its lock while it reports a result, so that nothing may be asked of it then.
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

}  // namespace

/// Under mpirun every rank runs every test, so that tests may communicate; a failure of one is a failure of all.
int main(int argc, char** argv) {
  lockstep::MpiSession mpi(argc, argv);
  const lockstep::Communicator comm = lockstep::Communicator::world();
  const Kokkos::ScopeGuard kokkos(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  if (!comm.is_root()) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly(comm.rank()));
  }
  return static_cast<int>(comm.max(std::int64_t{RUN_ALL_TESTS()}));
}
