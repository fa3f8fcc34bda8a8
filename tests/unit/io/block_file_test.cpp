// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "io/block_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "support/scratch.hpp"

namespace lockstep {
namespace {

constexpr std::size_t block_bytes = 3 * ScratchFile::alignment, numbers = block_bytes / sizeof(std::uint32_t);

/// Blocks of numbers, which passes add to, and what they must be.
class BlockFileTest : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    try {
      ScratchFile(folder_.path());
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) GTEST_SKIP() << error.what();
      throw;
    }
    file_.emplace(folder_.path(), block_bytes, GetParam());
    expected_.resize(GetParam() * numbers);
  }

  void add(std::uint32_t term) {
    std::size_t next = 0;
    file_->pass(BlockFile::Pass::changes, [&](std::size_t block, std::byte* bytes) {
      EXPECT_EQ(block, next++);
      auto* const first = reinterpret_cast<std::uint32_t*>(bytes);
      EXPECT_TRUE(std::equal(first, first + numbers, expected_.begin() + static_cast<std::ptrdiff_t>(block * numbers)));
      for (std::size_t i = 0; i < numbers; ++i) first[i] += term * static_cast<std::uint32_t>(block * numbers + i);
    });
    EXPECT_EQ(next, GetParam());
    for (std::size_t i = 0; i < expected_.size(); ++i) expected_[i] += term * static_cast<std::uint32_t>(i);
  }
  std::vector<std::uint32_t> all(BlockFile::Version version, std::size_t first = 0) {
    std::vector<std::uint32_t> found(expected_.size() - first);
    file_->read(version, first * sizeof(std::uint32_t), reinterpret_cast<std::byte*>(found.data()),
                found.size() * sizeof(std::uint32_t));
    return found;
  }

  const test::ScratchFolder folder_;
  std::optional<BlockFile> file_;
  std::vector<std::uint32_t> expected_;
};

TEST_P(BlockFileTest, BlocksComeAndGoInOrder) {
  for (std::uint32_t term = 1; term < 9; ++term) {
    add(term);
    if (term == 4) {
      EXPECT_EQ(all(BlockFile::Version::present), expected_);
    }
    if (term == 5)
      file_->pass(BlockFile::Pass::reads, [&](std::size_t block, std::byte* bytes) {
        EXPECT_EQ(std::memcmp(bytes, expected_.data() + block * numbers, block_bytes), 0);
      });
  }
  EXPECT_TRUE(folder_.names().empty());
}

TEST_P(BlockFileTest, TheLastComeFirstBehindATurn) {
  for (std::size_t before = 0; before < GetParam() + 2; before += before < 5 ? 1 : 31) {
    std::vector<std::size_t> order;
    file_->begin(BlockFile::Pass::changes);
    for (std::size_t done = 0; file_->is_passing(); ++done) {
      if (done == before) file_->turn();
      const std::size_t next = file_->next(), last = file_->last_left();
      std::vector<bool> is_done(GetParam());
      for (const std::size_t block : order) is_done[block] = true;
      EXPECT_FALSE(is_done[last]);
      EXPECT_TRUE(std::all_of(is_done.begin() + static_cast<std::ptrdiff_t>(last) + 1, is_done.end(), std::identity()));
      file_->work([&](std::size_t block, std::byte* bytes) {
        EXPECT_EQ(block, next);
        order.push_back(block);
        auto* const first = reinterpret_cast<std::uint32_t*>(bytes);
        auto* const expected = expected_.data() + block * numbers;
        EXPECT_TRUE(std::equal(first, first + numbers, expected));
        for (std::size_t i = 0; i < numbers; ++i) first[i] = expected[i] += 7 + static_cast<std::uint32_t>(i);
      });
    }
    // Those that are being read by then come first.
    std::vector<std::size_t> right;
    const std::size_t rising = std::min(GetParam(), before + BlockFile::most_in_memory);
    for (std::size_t block = 0; block < rising; ++block) right.push_back(block);
    for (std::size_t block = GetParam(); block > rising; --block) right.push_back(block - 1);
    EXPECT_EQ(order, right);
  }
  add(3);
  EXPECT_EQ(all(BlockFile::Version::present), expected_);
}

TEST_P(BlockFileTest, PiecesOfAnyPlaceAreReadAndWritten) {
  add(1);
  const std::vector<std::uint32_t> written{7, 8, 9};
  const std::size_t place = expected_.size() - 5;
  file_->write(place * sizeof(std::uint32_t), reinterpret_cast<const std::byte*>(written.data()),
               written.size() * sizeof(std::uint32_t));
  std::copy(written.begin(), written.end(), expected_.begin() + static_cast<std::ptrdiff_t>(place));
  EXPECT_EQ(all(BlockFile::Version::present, 3), std::vector<std::uint32_t>(expected_.begin() + 3, expected_.end()));
  add(2);  // sees it, though its first blocks had been read before
}

TEST_P(BlockFileTest, AHeldVersionStays) {
  file_->make_room_to_hold();
  for (std::uint32_t term = 1; term < 4; ++term) {
    add(term);
    file_->hold();
    const std::vector<std::uint32_t> held = expected_;
    EXPECT_EQ(all(BlockFile::Version::held), held);
    add(10);
    add(20);
    EXPECT_EQ(all(BlockFile::Version::held), held);
    EXPECT_EQ(all(BlockFile::Version::present), expected_);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, BlockFileTest, testing::Values(1, 2, 3, 4, 7, 100));

TEST(ScratchFile, SaysWhatIsWrongWithItsFolder) {
  const test::ScratchFolder folder;
  test::expect_error(ExitStatus::missing_file, "there is no such folder", [&] { ScratchFile(folder / "none"); });
  test::write_file(folder / "file", "");
  test::expect_error(ExitStatus::cannot_create, "no file can be made there", [&] { ScratchFile(folder / "file"); });
}

}  // namespace
}  // namespace lockstep
