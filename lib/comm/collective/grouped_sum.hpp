// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <utility>

#include "comm/collective/collective.hpp"
#include "comm/collective/shard_place.hpp"

namespace lockstep {

/// A sum in two steps: among the ranks of a group, and then, of what this rank has of that (`place`), among the ranks
/// that have the same in other groups.
class GroupedSum final : public Collective {
 public:
  GroupedSum(std::unique_ptr<Collective> in_group, ShardPlace place, std::unique_ptr<Collective> between_groups)
      : in_group_(std::move(in_group)), place_(std::move(place)), between_groups_(std::move(between_groups)) {}

  void start(std::int64_t first, std::int64_t count) override {
    first_ = first;
    count_ = count;
    next_ = 0;
    in_group_->start(first, count);
    running_ = in_group_.get();
  }

  bool advance() override {
    while (running_) {
      if (!running_->advance()) return false;
      running_ = start_next();
    }
    return true;
  }

 private:
  /// Null: there is nothing left to sum.
  Collective* start_next() {
    while (next_ < place_.leaders()) {
      const Stretch own = place_.of_leader(next_++, count_);
      if (own.count() == 0) continue;
      between_groups_->start(first_ + own.first, own.count());
      return between_groups_.get();
    }
    return nullptr;
  }

  std::unique_ptr<Collective> in_group_;
  ShardPlace place_;
  std::unique_ptr<Collective> between_groups_;
  std::int64_t first_ = 0, count_ = 0;  ///< of the running sum
  int next_ = 0;                        ///< stretch of `place_`, to be summed between groups
  Collective* running_ = nullptr;
};

}  // namespace lockstep
