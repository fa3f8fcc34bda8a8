// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/resilience/node_liveness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/process.hpp"
#include "support/fixtures.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Each rank is its own node, and answers for itself alone.
class NodeLivenessTest : public testing::Test {
 protected:
  const Communicator world_ = Communicator::world();
  const test::TemporaryFolder folder_;
  const fs::path waiting_ = folder_.path() / "waiting";
  std::optional<NodeLiveness> call_ = NodeLiveness::make(world_, world_.rank(), world_.rank(), waiting_);

  /// Waits until this rank's file exists, or (`there` false) no longer does: a thread writes it.
  void expect_file(bool there) const {
    const fs::path file = waiting_ / std::to_string(world_.rank());
    for (int tries = 0; fs::exists(file) != there && tries < 1000; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(fs::exists(file), there);
  }

  /// The answer, asked for repeatedly: a busy machine may give the first one too late.
  NodeLiveness::Answer answer(bool in_any_case) const {
    std::optional<NodeLiveness::Answer> answer;
    for (int tries = 0; !answer && tries < 20; ++tries) answer = call_->ask(in_any_case);
    return answer.value();
  }

  std::vector<int> silent() const {
    const NodeLiveness::Answer found = answer(true);
    std::vector<int> ranks;
    for (const NodeLiveness::Node& node : found.silent) ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
    return ranks;
  }
};

TEST_F(NodeLivenessTest, NamesThoseThatDoNotWait) {
  const int rank = world_.rank(), ranks = world_.size();
  if (ranks < 3) GTEST_SKIP() << "of three ranks and more";
  ASSERT_TRUE(call_);
  EXPECT_FALSE(call_->ask(true)) << "it has not said that it waits";

  const bool waits = rank != 1;
  call_->waits(waits);
  expect_file(waits);
  world_.barrier();
  if (waits) {
    EXPECT_EQ(answer(false).speaks, rank == 0);
    EXPECT_EQ(silent(), std::vector{1});
    EXPECT_EQ(answer(true).silent.at(0).host, host_name());
  }
  world_.barrier();

  if (rank == 0) call_->waits(false);
  expect_file(rank > 1);
  world_.barrier();
  if (rank > 1) {
    EXPECT_EQ(answer(false).speaks, rank == 2);
    EXPECT_EQ(silent(), (std::vector{0, 1}));
  }
  world_.barrier();

  call_->waits(true);
  expect_file(true);
  world_.barrier();
  EXPECT_THAT(silent(), testing::IsEmpty());
  world_.barrier();
}

TEST_F(NodeLivenessTest, HasNothingToSayWhereItsFileIsMissing) {
  ASSERT_TRUE(call_);
  if (world_.is_root()) std::ofstream{waiting_};  // a file of that name, so that no folder can be made
  world_.barrier();
  call_->waits(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(call_->ask(true));
  world_.barrier();
}

TEST_F(NodeLivenessTest, NeedsAFolderThatAllSee) {
  EXPECT_FALSE(NodeLiveness::make(world_, world_.rank(), world_.rank(), folder_.path() / "missing" / "waiting"));
  if (world_.size() == 1) return;
  const fs::path own = folder_.path() / std::to_string(world_.rank());
  fs::create_directory(own);
  EXPECT_FALSE(NodeLiveness::make(world_, world_.rank(), world_.rank(), own / "waiting"));
  world_.barrier();
}

}  // namespace
}  // namespace lockstep
