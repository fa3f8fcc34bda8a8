// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/node_all_reduce.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

/// Elements that are added up before the next ones, so that the parts of all ranks are read and written beside each
/// other. (Longer blocks, one rank's after the other's, take half as long again: memory then waits for each.)
constexpr int block = 64;

template <class T>
class NodeAllReduce final : public Collective {
 public:
  NodeAllReduce(const NodeMemory& memory, int leaders, std::unique_ptr<Collective> between)
      : memory_(memory),
        rank_(memory.ranks().rank()),
        size_(memory.ranks().size()),
        leaders_(leaders),
        between_(std::move(between)) {
    for (int rank = 0; rank < size_; ++rank) parts_.push_back(reinterpret_cast<T*>(memory.part(rank)));
  }

  void start(std::int64_t first, std::int64_t count) override {
    all_ = {first, first + count};
    number_ = own(Stage::given).load(std::memory_order_relaxed) + 1;
    reach(Stage::given);
  }

  bool advance() override {
    switch (stage_) {
      case Stage::given:
        if (!reached(Stage::given, size_)) return false;
        add_up(share(rank_, size_));
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
  /// What a rank has done: its summands are complete; it has added up its share; as a leader it has the sum
  /// over all nodes; it has copied all of that. Only then may leaders' parts change again.
  enum class Stage { given, added, summed, copied };

  std::atomic<std::uint64_t>& own(Stage stage) { return flag(rank_, stage); }
  std::atomic<std::uint64_t>& flag(int rank, Stage stage) {
    return memory_.flags(rank).stage[static_cast<std::size_t>(stage)];
  }
  void reach(Stage stage) {
    own(stage).store(number_, std::memory_order_release);
    stage_ = stage;
  }
  bool reached(Stage stage, int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      if (flag(rank, stage).load(std::memory_order_acquire) < number_) return false;
    return true;
  }

  Stretch share(int number, int of) const {
    const Stretch slice = slice_of(all_.count(), number, of);
    return {all_.first + slice.first, all_.first + slice.end};
  }

  /// Puts the sums where they are wanted: in all parts, or in the part of the leader whose stretch it is.
  void add_up(const Stretch& mine) {
    if (leaders_ == 0) {
      switch (size_) {
        case 2: return add_up_for_all<2>(mine);
        case 4: return add_up_for_all<4>(mine);
        case 8: return add_up_for_all<8>(mine);
        default: return add_up(mine, parts_);
      }
    }
    for (int leader = 0; leader < leaders_; ++leader)
      add_up(mine.within(share(leader, leaders_)), {&parts_[static_cast<std::size_t>(leader)], 1});
  }
  /// Sums over a number of ranks that the compiler knows need no memory: a quarter less time.
  template <int ranks>
  void add_up_for_all(const Stretch& mine) {
    T* part[ranks];
    std::ranges::copy(parts_, part);
#pragma GCC ivdep
    for (std::int64_t i = mine.first; i < mine.end; ++i) {
      T sum = part[0][i];
      for (int rank = 1; rank < ranks; ++rank) sum += part[rank][i];
      for (int rank = 0; rank < ranks; ++rank) part[rank][i] = sum;
    }
  }
  void add_up(const Stretch& mine, std::span<T* const> to) {
    std::int64_t first = mine.first;
    for (; first + block <= mine.end; first += block) add_up_block<block>(first, block, to);
    if (first < mine.end) add_up_block<0>(first, static_cast<int>(mine.end - first), to);
  }
  /// `known`: the count, where the compiler is to know it.
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
      const Stretch mine = share(rank_, leaders_);
      between_->start(mine.first, mine.count());
      between_started_ = true;
    }
    if (!between_->advance()) return false;
    between_started_ = false;
    return true;
  }

  void fetch_from(int leader) {
    if (leader == rank_) return;
    const Stretch stretch = share(leader, leaders_);
    std::copy(parts_[static_cast<std::size_t>(leader)] + stretch.first,
              parts_[static_cast<std::size_t>(leader)] + stretch.end,
              parts_[static_cast<std::size_t>(rank_)] + stretch.first);
  }

  NodeMemory memory_;
  int rank_, size_;
  int leaders_;  // 0: there is one node only
  std::unique_ptr<Collective> between_;
  bool between_started_ = false;
  std::vector<T*> parts_;
  Stretch all_{};
  std::uint64_t number_ = 0;  // of the running sum
  Stage stage_ = Stage::copied;
};

}  // namespace

std::unique_ptr<Collective> node_all_reduce(const NodeMemory& memory, DType dtype, int leaders,
                                            std::unique_ptr<Collective> between) {
  if (dtype == DType::f64) return std::make_unique<NodeAllReduce<double>>(memory, leaders, std::move(between));
  return std::make_unique<NodeAllReduce<float>>(memory, leaders, std::move(between));
}

}  // namespace lockstep
