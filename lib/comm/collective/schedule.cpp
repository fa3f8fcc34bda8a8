// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/schedule.hpp"

#include <bit>

namespace lockstep {
namespace {

using Part = CommRound::Part;
using Slices = std::vector<ElementRange>;

Part part(int peer, const ElementRange& range, bool final) { return {peer, range.first, range.count, final}; }

/// Slices of all ranks.
Slices slices_of(std::int64_t count, int size) {
  Slices slices;
  for (int rank = 0; rank < size; ++rank) slices.push_back(slice_of_rank(count, rank, size));
  return slices;
}

void append(CommSchedule& steps, const CommSchedule& more) { steps.insert(steps.end(), more.begin(), more.end()); }

/// slices[r]: elements that rank r ends with.
CommSchedule ring_reduce_scatter(int rank, const Slices& slices) {
  const int size = static_cast<int>(slices.size());
  const auto slice = [&](int number) { return slices[static_cast<std::size_t>((number % size + size) % size)]; };
  CommSchedule steps;
  for (int k = 0; k + 1 < size; ++k)
    steps.push_back({part((rank + 1) % size, slice(rank - k - 1), false),
                     part((rank + size - 1) % size, slice(rank - k - 2), false)});
  return steps;
}

/// slices[r]: elements that rank r begins with.
CommSchedule ring_all_gather(int rank, const Slices& slices) {
  const int size = static_cast<int>(slices.size());
  const auto slice = [&](int number) { return slices[static_cast<std::size_t>((number % size + size) % size)]; };
  CommSchedule steps;
  for (int k = 0; k + 1 < size; ++k)
    steps.push_back(
        {part((rank + 1) % size, slice(rank - k), true), part((rank + size - 1) % size, slice(rank - k - 1), true)});
  return steps;
}

/// Halving and doubling run on a power of two of places. The `beyond` ranks that exceed it have no place: among the
/// first 2 · beyond ranks, each even rank stands in for the odd one after it.
struct Places {
  int count, beyond;

  explicit Places(int size)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), beyond(size - count) {}

  bool stands_in(int rank) const { return rank < 2 * beyond && rank % 2 == 0; }
  bool has_none(int rank) const { return rank < 2 * beyond && rank % 2 == 1; }
  int of(int rank) const { return rank < 2 * beyond ? rank / 2 : rank - beyond; }
  int rank_at(int place) const { return place < beyond ? 2 * place : place + beyond; }

  /// Returns one slice per place, the union of the slices of the ranks that it stands for.
  Slices unite(const Slices& slices) const {
    Slices united;
    for (int place = 0; place < count; ++place) {
      const auto first = static_cast<std::size_t>(rank_at(place));
      united.push_back(
          ElementRange::between(slices[first].first, slices[stands_in(rank_at(place)) ? first + 1 : first].end()));
    }
    return united;
  }
};

void append_halved(const ElementRange& all, int places, Slices& slices) {
  if (places == 1) return slices.push_back(all);
  const std::int64_t half = all.count / 2;
  append_halved({all.first, half}, places / 2, slices);
  append_halved({all.first + half, all.count - half}, places / 2, slices);
}

/// Halves all elements recursively into one slice per place. (For few elements this differs from slice_of.)
Slices halved(const ElementRange& all, int places) {
  Slices slices;
  slices.reserve(static_cast<std::size_t>(places));
  append_halved(all, places, slices);
  return slices;
}

/// Returns the union of the slices in the aligned group of `distance` places that contains `place`.
ElementRange around(const Slices& slices, int place, int distance) {
  const int first = place / distance * distance;
  return ElementRange::between(slices[static_cast<std::size_t>(first)].first,
                               slices[static_cast<std::size_t>(first + distance - 1)].end());
}

/// `slices`: one per place; the elements that the rank of each place ends with.
CommSchedule halving(const Places& places, int rank, const Slices& slices) {
  CommSchedule steps;
  for (int place = places.of(rank), distance = places.count / 2; distance > 0; distance /= 2) {
    const int other = place ^ distance, peer = places.rank_at(other);
    steps.push_back(
        {part(peer, around(slices, other, distance), false), part(peer, around(slices, place, distance), false)});
  }
  return steps;
}

/// `slices`: one per place; the elements that the rank of each place begins with.
CommSchedule doubling(const Places& places, int rank, const Slices& slices) {
  CommSchedule steps;
  for (int place = places.of(rank), distance = 1; distance < places.count; distance *= 2) {
    const int other = place ^ distance, peer = places.rank_at(other);
    steps.push_back(
        {part(peer, around(slices, place, distance), true), part(peer, around(slices, other, distance), true)});
  }
  return steps;
}

constexpr std::int64_t tree_segment = 32 * 1024;  // elements per message

/// A rank's neighbours in a binary tree, and its messages to and from them.
class Tree {
 public:
  Tree(int rank, int size, std::int64_t count)
      : rank_(rank),
        size_(size),
        count_(count),
        segments_(std::max<std::int64_t>(1, (count + tree_segment - 1) / tree_segment)) {}

  CommSchedule up() const {
    CommSchedule steps;
    for (std::int64_t i = 0; i <= segments_; ++i) {  // one segment goes up while the next one comes in
      add(steps, {}, at(child(1), i, false));
      add(steps, at(parent(), i - 1, false), at(child(2), i, false));
    }
    return steps;
  }

  CommSchedule down() const {
    CommSchedule steps;
    for (std::int64_t i = 0; i <= segments_; ++i) {
      add(steps, at(child(1), i - 1, true), at(parent(), i, true));
      add(steps, at(child(2), i - 1, true), {});
    }
    return steps;
  }

 private:
  int parent() const { return rank_ == 0 ? -1 : (rank_ - 1) / 2; }
  int child(int number) const { return 2 * rank_ + number < size_ ? 2 * rank_ + number : -1; }
  Part at(int peer, std::int64_t number, bool final) const {
    if (peer < 0 || number < 0 || number >= segments_) return {};
    return part(peer, slice_of(count_, number, segments_), final);
  }
  static void add(CommSchedule& steps, const Part& send, const Part& receive) {
    if (send || receive) steps.push_back({send, receive});
  }

  int rank_, size_;
  std::int64_t count_, segments_;
};

}  // namespace

CommSchedule ring_reduce_scatter(int rank, int size, std::int64_t count) {
  return ring_reduce_scatter(rank, slices_of(count, size));
}

CommSchedule ring_all_gather(int rank, int size, std::int64_t count) {
  return ring_all_gather(rank, slices_of(count, size));
}

CommSchedule ring_all_reduce(int rank, int size, std::int64_t count) {
  CommSchedule steps = ring_reduce_scatter(rank, size, count);
  append(steps, ring_all_gather(rank, size, count));
  return steps;
}

CommSchedule halving_reduce_scatter(int rank, int size, std::int64_t count) {
  const Places places(size);
  const Slices slices = slices_of(count, size);
  const ElementRange all{0, count};
  const auto of = [&](int number) { return slices[static_cast<std::size_t>(number)]; };
  if (places.has_none(rank)) return {{part(rank - 1, all, false), {}}, {{}, part(rank - 1, of(rank), true)}};
  CommSchedule steps;
  if (places.stands_in(rank)) steps.push_back({{}, part(rank + 1, all, false)});
  append(steps, halving(places, rank, places.unite(slices)));
  if (places.stands_in(rank)) steps.push_back({part(rank + 1, of(rank + 1), true), {}});
  return steps;
}

CommSchedule doubling_all_gather(int rank, int size, std::int64_t count) {
  const Places places(size);
  const Slices slices = slices_of(count, size);
  const ElementRange all{0, count};
  const auto of = [&](int number) { return slices[static_cast<std::size_t>(number)]; };
  if (places.has_none(rank)) return {{part(rank - 1, of(rank), true), {}}, {{}, part(rank - 1, all, true)}};
  CommSchedule steps;
  if (places.stands_in(rank)) steps.push_back({{}, part(rank + 1, of(rank + 1), true)});
  append(steps, doubling(places, rank, places.unite(slices)));
  if (places.stands_in(rank)) steps.push_back({part(rank + 1, all, true), {}});
  return steps;
}

CommSchedule halving_doubling_all_reduce(int rank, int size, std::int64_t count) {
  const Places places(size);
  const ElementRange all{0, count};
  if (places.has_none(rank)) return {{part(rank - 1, all, false), {}}, {{}, part(rank - 1, all, true)}};
  const Slices slices = halved(all, places.count);
  CommSchedule steps;
  if (places.stands_in(rank)) steps.push_back({{}, part(rank + 1, all, false)});
  append(steps, halving(places, rank, slices));
  append(steps, doubling(places, rank, slices));
  if (places.stands_in(rank)) steps.push_back({part(rank + 1, all, true), {}});
  return steps;
}

CommSchedule tree_all_reduce(int rank, int size, std::int64_t count) {
  const Tree tree(rank, size, count);
  CommSchedule steps = tree.up();
  append(steps, tree.down());
  return steps;
}

CommSchedule tree_broadcast(int rank, int size, std::int64_t count) { return Tree(rank, size, count).down(); }

CommSchedule pairwise_exchange(int rank, int size) {
  CommSchedule schedule;
  for (int distance = 1; distance < size; ++distance)
    schedule.push_back({.send = {.peer = (rank + distance) % size, .count = 1, .final = true},
                        .receive = {.peer = (rank + size - distance) % size, .count = 1, .final = true}});
  return schedule;
}

CommSchedule ordered_all_reduce(int rank, int size, std::int64_t count) {
  CommSchedule up, down;
  for (int distance = 1; distance < size; distance *= 2) {
    if (rank % (2 * distance) != 0) {
      up.push_back({{rank - distance, 0, count, false}, {}});
      down.push_back({{}, {rank - distance, 0, count, true}});
      break;
    }
    if (rank + distance >= size) continue;
    up.push_back({{}, {rank + distance, 0, count, false}});
    down.push_back({{rank + distance, 0, count, true}, {}});
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

}  // namespace lockstep
