// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/pieces.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Pieces, CoverEachRanksShareOnceAndInOrder) {
  for (const int ranks : {1, 2, 3, 7})
    for (const int shards : {1, 2, 5})
      for (const std::int64_t micro : {1, 3, 100})
        for (const std::int64_t examples : {1, 4, 83, 96})
          for (const bool separate : {false, true}) {
            const Cut cut{.ranks = ranks, .shards = shards, .separate = separate, .micro = micro};
            std::int64_t next = 0;
            std::size_t pieces_of_a_rank = 0;
            for (int rank = 0; rank < ranks; ++rank) {
              const Share share = share_of(cut, examples, rank);
              EXPECT_EQ(share.first, next);
              const std::vector<Piece> pieces = pieces_of(cut, examples, rank);
              if (rank == 0) pieces_of_a_rank = pieces.size();
              EXPECT_EQ(pieces.size(), pieces_of_a_rank) << "ranks must ask each other equally often";
              std::int64_t done = 0, in_sums = 0;
              for (const Piece& piece : pieces) {
                EXPECT_LE(piece.count, cut.largest_piece(examples));
                EXPECT_LE(piece.count, micro);
                EXPECT_EQ(piece.first, done);
                done += piece.count;
                if (piece.ends) in_sums += piece.examples;
              }
              EXPECT_EQ(done, share.count);
              EXPECT_EQ(in_sums, share.count);
              EXPECT_LE(share.count, cut.largest_share(examples));
              EXPECT_TRUE(pieces.front().begins && pieces.back().ends);
              next += share.count;
            }
            EXPECT_EQ(next, examples);
          }
}

TEST(Pieces, OfSeparateShardsBeginAndEndWithThem) {
  const Cut cut{.ranks = 2, .shards = 2, .separate = true, .micro = 3};
  // 10 examples in shards of 3, 3, 2 and 2; the first rank's largest has one piece.
  const std::vector<Piece> pieces = pieces_of(cut, 10, 1);
  ASSERT_EQ(pieces.size(), 2u);
  for (const Piece& piece : pieces) {
    EXPECT_TRUE(piece.begins && piece.ends);
    EXPECT_EQ(piece.examples, 2);
  }
}

}  // namespace
}  // namespace lockstep
