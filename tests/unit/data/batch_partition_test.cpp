// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch_partition.hpp"

#include <gtest/gtest.h>

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

TEST(Pieces, OfSeparateShardsBeginAndEndWithThem) {
  const BatchPartition partition{.ranks = 2, .shards = 2, .separate = true, .micro = 3};
  // 10 examples in shards of 3, 3, 2 and 2; the first rank's largest has one micro-batch.
  const std::vector<MicroBatch> micro_batches = micro_batches_of(partition, 10, 1);
  ASSERT_EQ(micro_batches.size(), 2u);
  for (const MicroBatch& micro_batch : micro_batches) {
    EXPECT_TRUE(micro_batch.begins && micro_batch.ends);
    EXPECT_EQ(micro_batch.examples, 2);
  }
}

}  // namespace
}  // namespace lockstep
