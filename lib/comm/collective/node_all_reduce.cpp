// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/node_all_reduce.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace lockstep {
namespace {

/// Number of elements summed over all ranks before the next ones, so that the parts of all ranks are streamed side by
/// side. (Longer blocks, one rank's after the other's, take 1.5 times as long, because memory latency is then exposed
/// for each.)
constexpr int block = 64;

/// Progress of the ranks of a node in their operations, which use the same memory one after the other.
class NodeFlags {
 public:
  explicit NodeFlags(const NodeMemory& memory) : memory_(memory), rank_(memory.ranks().rank()) {}

  /// Begins the next operation, at stage 0.
  void begin() { number_ = flag(rank_, 0).load(std::memory_order_relaxed) + 1; }
  void reach(std::size_t stage) { flag(rank_, stage).store(number_, std::memory_order_release); }
  /// True if the first `ranks` ranks have reached the stage.
  bool reached(std::size_t stage, int ranks) const {
    for (int rank = 0; rank < ranks; ++rank)
      if (flag(rank, stage).load(std::memory_order_acquire) < number_) return false;
    return true;
  }

 private:
  std::atomic<std::uint64_t>& flag(int rank, std::size_t stage) const { return memory_.flags(rank).stage[stage]; }

  NodeMemory memory_;
  int rank_;
  std::uint64_t number_ = 0;  // number of the running operation
};

template <class T>
class NodeAllReduce final : public Collective {
 public:
  /// `place`: empty: every rank gets all sums.
  NodeAllReduce(const NodeMemory& memory, int leaders, std::unique_ptr<Collective> between,
                std::optional<ShardPlace> place)
      : flags_(memory),
        rank_(memory.ranks().rank()),
        size_(memory.ranks().size()),
        leaders_(leaders),
        between_(std::move(between)),
        place_(std::move(place)) {
    for (int rank = 0; rank < size_; ++rank) parts_.push_back(reinterpret_cast<T*>(memory.part(rank)));
  }

  void start(std::int64_t first, std::int64_t count) override {
    all_ = {first, count};
    flags_.begin();
    reach(Stage::given);
  }

  bool advance() override {
    switch (stage_) {
      case Stage::given:
        if (!reached(Stage::given, size_)) return false;
        add_up(share());
        reach(Stage::added);
        [[fallthrough]];
      case Stage::added:
        if (leaders_ == 0) return reached(Stage::added, size_);
        if (between_ && !sum_between()) return false;
        reach(Stage::summed);
        [[fallthrough]];
      case Stage::summed:
        if (!reached(Stage::summed, leaders_)) return false;
        for (int leader = 0; leader < leaders_; ++leader) fetch_from(leader);
        reach(Stage::copied);
        [[fallthrough]];
      case Stage::copied: return reached(Stage::copied, size_);
    }
    return false;
  }

 private:
  /// What a rank has done: given: its summands are complete; added: it has summed its share; summed: as a leader, it
  /// has the sum over all nodes; copied: it has copied all results. Only then may the leaders' parts change again.
  enum class Stage { given, added, summed, copied };

  void reach(Stage stage) {
    flags_.reach(static_cast<std::size_t>(stage));
    stage_ = stage;
  }
  bool reached(Stage stage, int ranks) { return flags_.reached(static_cast<std::size_t>(stage), ranks); }

  ElementRange in_all(const ElementRange& slice) const { return {all_.first + slice.first, slice.count}; }
  ElementRange part_of(int leader) const { return in_all(slice_of_rank(all_.count, leader, leaders_)); }
  /// Elements that this rank sums.
  ElementRange share() const {
    return in_all(place_ && leaders_ == 0 ? place_->of_leader(0, all_.count) : slice_of(all_.count, rank_, size_));
  }

  /// Writes the sums where they are needed: to all parts, to the owner's part, or to the part of the responsible
  /// leader.
  void add_up(const ElementRange& mine) {
    if (leaders_ == 0) {
      if (place_) return add_up(mine, {&parts_[static_cast<std::size_t>(rank_)], 1});
      switch (size_) {
        case 2: return add_up_for_all<2>(mine);
        case 4: return add_up_for_all<4>(mine);
        case 8: return add_up_for_all<8>(mine);
        default: return add_up(mine, parts_);
      }
    }
    for (int leader = 0; leader < leaders_; ++leader)
      add_up(mine.within(part_of(leader)), {&parts_[static_cast<std::size_t>(leader)], 1});
  }
  /// With a number of ranks known at compile time, sums stay in registers, which takes a quarter less time.
  template <int ranks>
  void add_up_for_all(const ElementRange& mine) {
    T* part[ranks];
    std::ranges::copy(parts_, part);
    const std::int64_t end = mine.end();
#pragma GCC ivdep
    for (std::int64_t i = mine.first; i < end; ++i) {
      T sum = part[0][i];
      for (int rank = 1; rank < ranks; ++rank) sum += part[rank][i];
      for (int rank = 0; rank < ranks; ++rank) part[rank][i] = sum;
    }
  }
  void add_up(const ElementRange& mine, std::span<T* const> to) {
    std::int64_t first = mine.first;
    const std::int64_t end = mine.end();
    for (; first + block <= end; first += block) add_up_block<block>(first, block, to);
    if (first < end) add_up_block<0>(first, static_cast<int>(end - first), to);
  }
  /// `known`: the count if it is to be known at compile time, else 0.
  template <int known>
  void add_up_block(std::int64_t first, int count, std::span<T* const> to) {
    const int n = known > 0 ? known : count;
    T sum[block];
    for (int i = 0; i < n; ++i) sum[i] = parts_[0][first + i];
    for (std::size_t rank = 1; rank < parts_.size(); ++rank) {
      const T* summand = parts_[rank] + first;
      for (int i = 0; i < n; ++i) sum[i] += summand[i];
    }
    for (T* part : to)
      for (int i = 0; i < n; ++i) part[first + i] = sum[i];
  }

  bool sum_between() {
    if (!between_started_) {
      if (!reached(Stage::added, size_)) return false;
      const ElementRange mine = part_of(rank_);
      between_->start(mine.first, mine.count);
      between_started_ = true;
    }
    if (!between_->advance()) return false;
    between_started_ = false;
    return true;
  }

  void fetch_from(int leader) {
    if (leader == rank_) return;
    const ElementRange part = place_ ? in_all(place_->of_leader(leader, all_.count)) : part_of(leader);
    std::copy(parts_[static_cast<std::size_t>(leader)] + part.first,
              parts_[static_cast<std::size_t>(leader)] + part.end(),
              parts_[static_cast<std::size_t>(rank_)] + part.first);
  }

  NodeFlags flags_;
  int rank_, size_;
  int leaders_;  // 0: there is only one node
  std::unique_ptr<Collective> between_;
  bool between_started_ = false;
  std::optional<ShardPlace> place_;
  std::vector<T*> parts_;
  ElementRange all_{};
  Stage stage_ = Stage::copied;
};

class NodeAllGather final : public Collective {
 public:
  NodeAllGather(const NodeMemory& ranks, int leaders, std::unique_ptr<Collective> between)
      : flags_(ranks),
        rank_(ranks.ranks().rank()),
        size_(ranks.ranks().size()),
        leaders_(leaders),
        between_(std::move(between)) {}

  void start(std::int64_t first, std::int64_t count) override {
    all_ = {first, count};
    flags_.begin();
    flags_.reach(changed);
    stage_ = changed;
  }

  bool advance() override {
    if (stage_ == changed) {
      if (!flags_.reached(changed, size_)) return false;
      if (between_) {
        const ElementRange mine = slice_of_rank(all_.count, rank_, leaders_);
        between_->start(all_.first + mine.first, mine.count);
      }
      stage_ = gathered;
    }
    if (stage_ == gathered) {
      if (between_ && !between_->advance()) return false;
      flags_.reach(gathered);
      stage_ = done;
    }
    return flags_.reached(gathered, leaders_);
  }

 private:
  /// What a rank has done: changed: its own elements; gathered: as a leader, those of the other nodes.
  static constexpr std::size_t changed = 0, gathered = 1, done = 2;

  NodeFlags flags_;
  int rank_, size_;
  int leaders_;  // 0: there is only one node
  std::unique_ptr<Collective> between_;
  ElementRange all_{};
  std::size_t stage_ = done;
};

std::unique_ptr<Collective> make(const NodeMemory& memory, DType dtype, int leaders,
                                 std::unique_ptr<Collective> between, const std::optional<ShardPlace>& place) {
  if (dtype == DType::f64) return std::make_unique<NodeAllReduce<double>>(memory, leaders, std::move(between), place);
  return std::make_unique<NodeAllReduce<float>>(memory, leaders, std::move(between), place);
}

}  // namespace

std::unique_ptr<Collective> node_all_reduce(const NodeMemory& memory, DType dtype, int leaders,
                                            std::unique_ptr<Collective> between) {
  return make(memory, dtype, leaders, std::move(between), std::nullopt);
}

std::unique_ptr<Collective> node_reduce_scatter(const NodeMemory& memory, DType dtype, const ShardPlace& place,
                                                std::unique_ptr<Collective> between) {
  return make(memory, dtype, place.nodes > 1 ? place.leaders() : 0, std::move(between), place);
}

std::unique_ptr<Collective> node_all_gather(const NodeMemory& ranks, int leaders, std::unique_ptr<Collective> between) {
  return std::make_unique<NodeAllGather>(ranks, leaders, std::move(between));
}

}  // namespace lockstep
