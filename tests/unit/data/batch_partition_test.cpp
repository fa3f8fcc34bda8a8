// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/batch_partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

TEST(Pieces, CoverEachRanksShareOnceAndInOrder) {
  for (const int ranks : {1, 2, 3, 7})
    for (const int shards : {1, 2, 5})
      for (const std::int64_t micro : {1, 3, 100})
        for (const std::int64_t examples : {1, 4, 83, 96})
          for (const bool separate : {false, true}) {
            const BatchPartition partition{.ranks = ranks, .shards = shards, .separate = separate, .micro = micro};
            std::int64_t next = 0;
            std::size_t pieces_of_a_rank = 0;
            for (int rank = 0; rank < ranks; ++rank) {
              const RankShare share = share_of(partition, examples, rank);
              EXPECT_EQ(share.first, next);
              const std::vector<MicroBatch> micro_batches = micro_batches_of(partition, examples, rank);
              if (rank == 0) pieces_of_a_rank = micro_batches.size();
              EXPECT_EQ(micro_batches.size(), pieces_of_a_rank) << "ranks must ask each other equally often";
              std::int64_t done = 0, in_sums = 0;
              for (const MicroBatch& micro_batch : micro_batches) {
                EXPECT_LE(micro_batch.count, partition.largest_micro_batch(examples));
                EXPECT_LE(micro_batch.count, micro);
                EXPECT_EQ(micro_batch.first, done);
                done += micro_batch.count;
                if (micro_batch.ends) in_sums += micro_batch.examples;
              }
              EXPECT_EQ(done, share.count);
              EXPECT_EQ(in_sums, share.count);
              EXPECT_LE(share.count, partition.largest_share(examples));
              EXPECT_TRUE(micro_batches.front().begins && micro_batches.back().ends);
              next += share.count;
            }
            EXPECT_EQ(next, examples);
          }
}

TEST(Pieces, FollowPartsOfAnySize) {
  const std::vector<std::int64_t> all_parts[] = {{4, 4, 4}, {1, 8, 3}, {8, 2, 2}, {5, 6, 1}};
  for (const auto& parts : all_parts)
    for (const bool separate : {false, true})
      for (const std::int64_t micro : {2, 100})
        for (const std::int64_t examples : {1, 5, 12, 83, 96}) {
          const BatchPartition partition{.ranks = 3,
                                         .shards = separate ? 4 : 1,
                                         .separate = separate,
                                         .micro = micro,
                                         .share_limit = 2,
                                         .rank_shares = parts};
          std::int64_t next = 0;
          for (int rank = 0; rank < 3; ++rank) {
            const RankShare share = share_of(partition, examples, rank);
            EXPECT_EQ(share.first, next);
            next += share.count;
            EXPECT_LE(share.count, partition.largest_share(examples));
            EXPECT_LE(share.count, partition.room(96));
            if (examples == 96) {
              EXPECT_EQ(share.count, 8 * parts[static_cast<std::size_t>(rank)]);
            }
            std::int64_t done = 0, sums = 0;
            const std::vector<MicroBatch> micro_batches = micro_batches_of(partition, examples, rank);
            for (const MicroBatch& micro_batch : micro_batches) {
              EXPECT_EQ(micro_batch.first, done);
              EXPECT_LE(micro_batch.count, partition.largest_micro_batch(96));
              done += micro_batch.count;
              sums += micro_batch.ends ? 1 : 0;
            }
            EXPECT_EQ(done, share.count);
            EXPECT_EQ(sums, separate ? parts[static_cast<std::size_t>(rank)] : 1);
            EXPECT_LE(sums, partition.sums(96));
            if (!separate) {
              EXPECT_EQ(micro_batches.size(), micro_batches_of(partition, examples, 0).size());
            }
          }
          EXPECT_EQ(next, examples);
        }
}

TEST(Pieces, AreAlikeInSize) {
  for (const std::int64_t examples : {1, 12, 64, 65, 129})
    for (const std::int64_t micro : {1, 7, 64}) {
      const std::vector<MicroBatch> pieces = micro_batches_of({.micro = micro}, examples, 0);
      EXPECT_EQ(std::ssize(pieces), (examples + micro - 1) / micro) << "as few as possible";
      const auto [least, most] = std::ranges::minmax(pieces, {}, &MicroBatch::count);
      EXPECT_LE(most.count - least.count, 1) << examples << " in pieces of " << micro;
    }
}

TEST(Pieces, HaveRoomForTwiceTheEqualShare) {
  const BatchPartition examples{.ranks = 4, .micro = 1000, .share_limit = 2};
  EXPECT_EQ(examples.room(97), 50);
  EXPECT_EQ(examples.largest_micro_batch(97), 50);
  EXPECT_EQ(examples.room(3), 2);
  const BatchPartition shards{.ranks = 4, .shards = 7, .separate = true, .micro = 1000, .share_limit = 2};
  EXPECT_EQ(shards.room(57), 29) << "14 shards, of which the first one has 3 examples";
  EXPECT_EQ(shards.largest_micro_batch(57), 3);
  EXPECT_EQ(shards.sums(57), 14);
}

TEST(Pieces, OfSeparateShardsBeginAndEndWithThem) {
  const BatchPartition partition{.ranks = 2, .shards = 2, .separate = true, .micro = 3};
  // 10 examples in shards of 3, 3, 2 and 2: even the largest has only one micro-batch.
  const std::vector<MicroBatch> micro_batches = micro_batches_of(partition, 10, 1);
  ASSERT_EQ(micro_batches.size(), 2u);
  for (const MicroBatch& micro_batch : micro_batches) {
    EXPECT_TRUE(micro_batch.begins && micro_batch.ends);
    EXPECT_EQ(micro_batch.examples, 2);
  }
}

}  // namespace
}  // namespace lockstep
