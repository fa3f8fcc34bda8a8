// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/dataset/shared_reading.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace lockstep {
namespace {

class SharedReadingTest : public testing::Test {
 protected:
  Communicator comm_ = Communicator::world();
  DeckNode deck_;
  SharedReading reading_{comm_, deck_};
};

/// All ranks are on one node here, so that only one of them reads.
TEST_F(SharedReadingTest, OneRankFillsWhatAllSee) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    std::int64_t fills = 0;
    const SharedReading::Bytes memory = reading_.load(bytes, [&](std::byte* to) {
      ++fills;
      for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(i * 31 + bytes);
    });
    double all = static_cast<double>(fills);
    comm_.all_reduce_sum({&all, 1});
    EXPECT_EQ(all, 1);
    EXPECT_EQ(fills, reading_.reads() ? 1 : 0);
    for (std::size_t i = 0; i < bytes; i += 1 + bytes / 1000)
      ASSERT_EQ(memory[i], static_cast<std::byte>(i * 31 + bytes));
  }
}

TEST_F(SharedReadingTest, ItsErrorIsThatOfAll) {
  try {
    reading_.load(100, [](std::byte*) { throw Error(ExitStatus::bad_data, "of no use"); });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "of no use");
    EXPECT_EQ(error.status(), ExitStatus::bad_data);
  }
}

TEST_F(SharedReadingTest, PartsOfAllRanksAreTheWhole) {
  for (const std::int64_t count : {0, 1, 5, 1000, 1001}) {
    const SharedReading::Part part = reading_.part_of(count);
    EXPECT_LE(part.end - part.first, count / comm_.size() + 1);
    double sizes = static_cast<double>(part.end - part.first);
    comm_.all_reduce_sum({&sizes, 1});
    EXPECT_EQ(sizes, static_cast<double>(count));
    const std::vector<std::int64_t> firsts = comm_.all_gather(part.first), ends = comm_.all_gather(part.end);
    EXPECT_EQ(firsts.front(), 0);
    for (std::size_t rank = 1; rank < firsts.size(); ++rank) EXPECT_EQ(firsts[rank], ends[rank - 1]);
    EXPECT_EQ(ends.back(), count);
  }
}

/// Ranks whose data differ would not call the same collective operations.
TEST_F(SharedReadingTest, WhatDiffersIsNamed) {
  reading_.agree("a.h5:/train", "3 examples");
  if (comm_.size() == 1) return;
  try {
    reading_.agree("a.h5:/train", comm_.rank() + 1 == comm_.size() ? "no examples" : "3 examples");
    FAIL() << "no error";
  } catch (const SharedError& error) {
    EXPECT_EQ(error.status(), ExitStatus::bad_data);
    EXPECT_NE(std::string(error.what()).find(fmt::format("the data of rank {} on ", comm_.size() - 1)),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("'a.h5:/train: no examples' instead of 'a.h5:/train: 3 examples'"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
