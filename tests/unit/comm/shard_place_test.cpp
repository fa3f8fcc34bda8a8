// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/shard_place.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::test {
namespace {

ShardPlace place_of(int node, int nodes, int rank, int ranks, int leaders) {
  return {
      .node = std::vector<int>(static_cast<std::size_t>(leaders), node), .nodes = nodes, .rank = rank, .ranks = ranks};
}

TEST(ShardPlace, EachElementHasOneOwner) {
  constexpr std::int64_t first = 7;
  for (const auto& [nodes, ranks, leaders] : {std::array{1, 1, 1}, {1, 5, 1}, {3, 1, 1}, {2, 4, 3}, {3, 7, 4}})
    for (const std::int64_t count : {std::int64_t{1}, array_block, 5 * array_block + 1, 97 * array_block}) {
      std::vector<int> owners(static_cast<std::size_t>(first + count));
      for (int node = 0; node < nodes; ++node)
        for (int rank = 0; rank < ranks; ++rank)
          for (const ElementRange& range : place_of(node, nodes, rank, ranks, leaders).owned({first, count}))
            for (std::int64_t i = range.first; i < range.end(); ++i) ++owners[static_cast<std::size_t>(i)];
      std::vector<int> once(owners.size(), 1);
      std::fill_n(once.begin(), first, 0);
      EXPECT_EQ(owners, once) << nodes << " nodes of " << ranks << ", " << leaders << " leaders, " << count;
    }
}

TEST(ShardPlace, MostOwnedIsThatOfTheRankWithMost) {
  const std::vector<ElementRange> ranges{
      {0, 20 * array_block}, {20 * array_block, 20 * array_block}, {40 * array_block, 9}};
  constexpr int nodes = 2, ranks = 3, leaders = 2;
  std::int64_t most = 0, all = 0;
  for (int node = 0; node < nodes; ++node)
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t owned = 0;
      for (const ElementRange& range : ranges)
        for (const ElementRange& own : place_of(node, nodes, rank, ranks, leaders).owned(range)) owned += own.count;
      most = std::max(most, owned);
      all += owned;
    }
  EXPECT_EQ(all, 40 * array_block + 9);
  EXPECT_EQ(most_owned(ranges, nodes, ranks, leaders), most);
}

TEST(ShardPlace, FewBlocksGoToManyRanks) {
  // A bucket of 25 MB. If each leader's blocks went to the same ranks of a node, some would have four.
  const std::vector<ElementRange> bucket{{0, 1525 * array_block}};
  EXPECT_EQ(most_owned(bucket, 8, 128, 4), 3 * array_block);
  EXPECT_EQ(most_owned(bucket, 64, 128, 4), array_block);
}

}  // namespace
}  // namespace lockstep::test
