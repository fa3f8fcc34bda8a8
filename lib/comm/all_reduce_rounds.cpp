// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/all_reduce_rounds.hpp"

#include <algorithm>
#include <bit>

namespace lockstep {
namespace {

using Part = Round::Part;

/// A stretch of elements.
struct Stretch {
  std::int64_t first, end;

  Stretch half(bool upper) const {
    const std::int64_t middle = first + (end - first) / 2;
    return upper ? Stretch{middle, end} : Stretch{first, middle};
  }
};

Part part(int peer, const Stretch& stretch, bool final) {
  return {peer, stretch.first, stretch.end - stretch.first, final};
}

/// Of `pieces` equal ones (but for one element) of all.
Stretch piece_of(std::int64_t count, std::int64_t piece, std::int64_t pieces) {
  return {count * piece / pieces, count * (piece + 1) / pieces};
}

}  // namespace

std::vector<Round> ring_rounds(int rank, int size, std::int64_t count) {
  std::vector<Round> rounds;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const auto slice = [&](int number) { return piece_of(count, (number % size + size) % size, size); };
  for (int k = 0; k + 1 < size; ++k)
    rounds.push_back({part(next, slice(rank - k), false), part(before, slice(rank - k - 1), false)});
  for (int k = 0; k + 1 < size; ++k)
    rounds.push_back({part(next, slice(rank + 1 - k), true), part(before, slice(rank - k), true)});
  return rounds;
}

std::vector<Round> halving_doubling_rounds(int rank, int size, std::int64_t count) {
  const int paired = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));  // ranks that exchange halves
  const int beyond = size - paired;  // the first 2 · beyond ranks work in twos: the even one for both
  const Stretch all{0, count};
  if (rank < 2 * beyond && rank % 2 == 1) return {{part(rank - 1, all, false), {}}, {{}, part(rank - 1, all, true)}};

  std::vector<Round> rounds;
  if (rank < 2 * beyond) rounds.push_back({{}, part(rank + 1, all, false)});
  const int place = rank < 2 * beyond ? rank / 2 : rank - beyond;
  const auto rank_at = [&](int other) { return other < beyond ? 2 * other : other + beyond; };
  std::vector<Stretch> mine{all};
  for (int distance = paired / 2; distance > 0; distance /= 2) {
    const bool upper = (place & distance) != 0;
    const int peer = rank_at(place ^ distance);
    rounds.push_back({part(peer, mine.back().half(!upper), false), part(peer, mine.back().half(upper), false)});
    mine.push_back(mine.back().half(upper));
  }
  for (int distance = 1; distance < paired; distance *= 2) {
    const bool upper = (place & distance) != 0;
    const int peer = rank_at(place ^ distance);
    mine.pop_back();
    rounds.push_back({part(peer, mine.back().half(upper), true), part(peer, mine.back().half(!upper), true)});
  }
  if (rank < 2 * beyond) rounds.push_back({part(rank + 1, all, true), {}});
  return rounds;
}

std::vector<Round> tree_rounds(int rank, int size, std::int64_t count) {
  constexpr std::int64_t segment = 32 * 1024;
  const std::int64_t segments = std::max<std::int64_t>(1, (count + segment - 1) / segment);
  const int parent = rank == 0 ? -1 : (rank - 1) / 2;
  const auto child = [&](int k) { return 2 * rank + k < size ? 2 * rank + k : -1; };
  const auto at = [&](int peer, std::int64_t number, bool final) {
    if (peer < 0 || number < 0 || number >= segments) return Part{};
    return part(peer, piece_of(count, number, segments), final);
  };
  std::vector<Round> rounds;
  const auto add = [&](const Part& send, const Part& receive) {
    if (send || receive) rounds.push_back({send, receive});
  };
  for (std::int64_t i = 0; i <= segments; ++i) {  // a segment goes up while the next one comes in
    add({}, at(child(1), i, false));
    add(at(parent, i - 1, false), at(child(2), i, false));
  }
  for (std::int64_t i = 0; i <= segments; ++i) {
    add(at(child(1), i - 1, true), at(parent, i, true));
    add(at(child(2), i - 1, true), {});
  }
  return rounds;
}

}  // namespace lockstep
