// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parameters/streamed_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>
#include <vector>

#include "parameters/block_file.hpp"
#include "parameters/host_blocks.hpp"
#include "support/scratch.hpp"

namespace lockstep {
namespace {

constexpr std::size_t block_bytes = 3 * ScratchFile::alignment, numbers = block_bytes / sizeof(std::uint32_t);

enum class StoreKind { file, host_memory };

/// Blocks of numbers that passes add to, and the numbers that they must hold.
class PassingBlocksTest : public testing::TestWithParam<std::tuple<StoreKind, std::size_t>> {
 protected:
  void SetUp() override {
    const std::size_t slots = StreamedBlocks::slots(count());
    std::unique_ptr<BlockStore> store;
    try {
      if (kind() == StoreKind::file) store = std::make_unique<BlockFile>(folder_.path(), block_bytes, slots);
      else store = std::make_unique<HostBlocks>(block_bytes, slots);
    } catch (const Error& error) {
      if (error.status() == ExitStatus::cannot_create) GTEST_SKIP() << error.what();
      throw;
    }
    blocks_.emplace(std::move(store), block_bytes, count());
    expected_.resize(count() * numbers);
  }
  static StoreKind kind() { return std::get<0>(GetParam()); }
  static std::size_t count() { return std::get<1>(GetParam()); }

  /// Calls `change` with the numbers of a block in host memory, and stores what it changes.
  template <class Change>
  void on_host(std::byte* bytes, const Change& change) {
    auto* const first = reinterpret_cast<std::uint32_t*>(bytes);
    if (kind() == StoreKind::file) return change(first);
    const Tensor block{bytes, DType::u8, {static_cast<std::int64_t>(block_bytes)}};
    std::vector<std::uint32_t> copy(numbers);
    copy_to_host(space_, block, copy.data());
    change(copy.data());
    copy_from_host(space_, copy.data(), block);
  }

  void add(std::uint32_t term) {
    std::size_t next = 0;
    blocks_->pass(space_, StreamedBlocks::Pass::changes, [&](std::size_t block, std::byte* bytes) {
      EXPECT_EQ(block, next++);
      on_host(bytes, [&](std::uint32_t* first) {
        EXPECT_TRUE(
            std::equal(first, first + numbers, expected_.begin() + static_cast<std::ptrdiff_t>(block * numbers)));
        for (std::size_t i = 0; i < numbers; ++i) first[i] += term * static_cast<std::uint32_t>(block * numbers + i);
      });
    });
    EXPECT_EQ(next, count());
    for (std::size_t i = 0; i < expected_.size(); ++i) expected_[i] += term * static_cast<std::uint32_t>(i);
  }
  std::vector<std::uint32_t> all(StreamedBlocks::Version version, std::size_t first = 0) {
    std::vector<std::uint32_t> found(expected_.size() - first);
    blocks_->read(version, first * sizeof(std::uint32_t), reinterpret_cast<std::byte*>(found.data()),
                  found.size() * sizeof(std::uint32_t));
    return found;
  }

  const test::ScratchFolder folder_;
  const ExecSpace space_;
  std::optional<StreamedBlocks> blocks_;
  std::vector<std::uint32_t> expected_;
};

TEST_P(PassingBlocksTest, BlocksComeAndGoInOrder) {
  for (std::uint32_t term = 1; term < 9; ++term) {
    add(term);
    if (term == 4) {
      EXPECT_EQ(all(StreamedBlocks::Version::present), expected_);
    }
    if (term == 5)
      blocks_->pass(space_, StreamedBlocks::Pass::reads, [&](std::size_t block, std::byte* bytes) {
        on_host(bytes, [&](const std::uint32_t* first) {
          EXPECT_EQ(std::memcmp(first, expected_.data() + block * numbers, block_bytes), 0);
        });
      });
  }
  EXPECT_TRUE(folder_.names().empty());
}

TEST_P(PassingBlocksTest, TheLastComeFirstBehindATurn) {
  for (std::size_t before = 0; before < count() + 2; before += before < 5 ? 1 : 31) {
    std::vector<std::size_t> order;
    blocks_->begin(StreamedBlocks::Pass::changes);
    for (std::size_t done = 0; blocks_->is_passing(); ++done) {
      if (done == before) blocks_->turn();
      const std::size_t next = blocks_->next(), last = blocks_->last_left();
      std::vector<bool> is_done(count());
      for (const std::size_t block : order) is_done[block] = true;
      EXPECT_FALSE(is_done[last]);
      EXPECT_TRUE(std::all_of(is_done.begin() + static_cast<std::ptrdiff_t>(last) + 1, is_done.end(), std::identity()));
      blocks_->work(space_, [&](std::size_t block, std::byte* bytes) {
        EXPECT_EQ(block, next);
        order.push_back(block);
        auto* const expected = expected_.data() + block * numbers;
        on_host(bytes, [&](std::uint32_t* first) {
          EXPECT_TRUE(std::equal(first, first + numbers, expected));
          for (std::size_t i = 0; i < numbers; ++i) first[i] = expected[i] += 7 + static_cast<std::uint32_t>(i);
        });
      });
    }
    // Blocks whose reads had begun before the turn come first.
    std::vector<std::size_t> right;
    const std::size_t rising = std::min(count(), before + StreamedBlocks::most_in_memory);
    for (std::size_t block = 0; block < rising; ++block) right.push_back(block);
    for (std::size_t block = count(); block > rising; --block) right.push_back(block - 1);
    EXPECT_EQ(order, right);
  }
  add(3);
  EXPECT_EQ(all(StreamedBlocks::Version::present), expected_);
}

TEST_P(PassingBlocksTest, PiecesOfAnyPlaceAreReadAndWritten) {
  add(1);
  const std::vector<std::uint32_t> written{7, 8, 9};
  const std::size_t place = expected_.size() - 5;
  blocks_->write(place * sizeof(std::uint32_t), reinterpret_cast<const std::byte*>(written.data()),
                 written.size() * sizeof(std::uint32_t));
  std::copy(written.begin(), written.end(), expected_.begin() + static_cast<std::ptrdiff_t>(place));
  EXPECT_EQ(all(StreamedBlocks::Version::present, 3),
            std::vector<std::uint32_t>(expected_.begin() + 3, expected_.end()));
  add(2);  // sees the written numbers, though its first blocks were prefetched before
}

// A fetch returns the present numbers: within a pass, the new ones of blocks already worked on, wherever they are.
TEST_P(PassingBlocksTest, WhatIsFetchedIsNewBehindItsBlock) {
  blocks_->make_room_to_hold();
  constexpr std::size_t place = 5, few = 300;  // numbers of each block
  const auto expect_fetched = [&](std::size_t block) {
    std::vector<std::uint32_t> found(few);
    blocks_->start_fetch(block * block_bytes + place * sizeof(found[0]), reinterpret_cast<std::byte*>(found.data()),
                         few * sizeof(found[0]));
    while (!blocks_->has_fetched()) std::this_thread::yield();
    const auto expected = expected_.begin() + static_cast<std::ptrdiff_t>(block * numbers + place);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), expected));
  };
  for (std::uint32_t term = 1; term < 5; ++term) {
    if (term == 2) blocks_->hold();
    blocks_->begin(StreamedBlocks::Pass::changes);
    while (blocks_->is_passing()) {
      const std::size_t next = blocks_->next();
      for (const std::size_t block : {next, blocks_->last_left(), std::size_t{0}, count() - 1}) expect_fetched(block);
      blocks_->work(space_, [&](std::size_t block, std::byte* bytes) {
        auto* const expected = expected_.data() + block * numbers;
        on_host(bytes, [&](std::uint32_t* first) {
          for (std::size_t i = 0; i < numbers; ++i)
            first[i] = expected[i] += term + static_cast<std::uint32_t>(block * numbers + i);
        });
      });
      expect_fetched(next);
      if (next == 1) blocks_->turn();
    }
  }
  add(3);
}

TEST_P(PassingBlocksTest, AHeldVersionStays) {
  blocks_->make_room_to_hold();
  for (std::uint32_t term = 1; term < 4; ++term) {
    add(term);
    blocks_->hold();
    const std::vector<std::uint32_t> held = expected_;
    EXPECT_EQ(all(StreamedBlocks::Version::held), held);
    add(10);
    add(20);
    EXPECT_EQ(all(StreamedBlocks::Version::held), held);
    EXPECT_EQ(all(StreamedBlocks::Version::present), expected_);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, PassingBlocksTest,
                         testing::Combine(testing::Values(StoreKind::file, StoreKind::host_memory),
                                          testing::Values(1, 2, 3, 4, 7, 100)));

TEST(ScratchFile, SaysWhatIsWrongWithItsFolder) {
  const test::ScratchFolder folder;
  test::expect_error(ExitStatus::missing_file, "none: no such folder", [&] { ScratchFile(folder / "none"); });
  test::write_file(folder / "file", "");
  test::expect_error(ExitStatus::cannot_create, "no file can be created there", [&] { ScratchFile(folder / "file"); });
}

}  // namespace
}  // namespace lockstep
