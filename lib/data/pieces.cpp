// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/pieces.hpp"

#include <algorithm>

namespace lockstep {

Share share_of(std::int64_t total, std::int64_t number, std::int64_t of) {
  const std::int64_t each = total / of, rest = total % of;
  return {number * each + std::min(number, rest), each + (number < rest ? 1 : 0)};
}

std::int64_t Cut::largest_share(std::int64_t global_examples) const {
  return share_of(*this, global_examples, 0).count;
}

std::int64_t Cut::smallest_share(std::int64_t global_examples) const {
  return share_of(*this, global_examples, static_cast<int>(ranks) - 1).count;
}

std::int64_t Cut::largest_piece(std::int64_t global_examples) const {
  return std::min(micro, share_of(global_examples, 0, ranks * shards).count);
}

Share share_of(const Cut& cut, std::int64_t global_examples, int rank) {
  const std::int64_t all = cut.ranks * cut.shards;
  const std::int64_t first = share_of(global_examples, rank * cut.shards, all).first;
  const Share last = share_of(global_examples, (rank + 1) * cut.shards - 1, all);
  return {first, last.first + last.count - first};
}

std::vector<Piece> pieces_of(const Cut& cut, std::int64_t global_examples, int rank) {
  std::vector<Piece> pieces;
  const std::int64_t all = cut.ranks * cut.shards;
  const Share own = share_of(cut, global_examples, rank);
  for (std::int64_t shard = 0; shard < cut.shards; ++shard) {
    const Share share = share_of(global_examples, rank * cut.shards + shard, all);
    // As many as the first rank's shard of this number has, which is the largest.
    const std::int64_t most = std::max<std::int64_t>(1, share_of(global_examples, shard, all).count);
    for (std::int64_t done = 0; done < most; done += cut.micro)
      pieces.push_back({.first = share.first - own.first + std::min(done, share.count),
                        .count = std::clamp<std::int64_t>(share.count - done, 0, cut.micro),
                        .begins = cut.separate && done == 0});
    if (cut.separate) pieces.back().ends = true, pieces.back().examples = share.count;
  }
  pieces.front().begins = pieces.back().ends = true;
  if (!cut.separate) pieces.back().examples = own.count;
  return pieces;
}

}  // namespace lockstep
