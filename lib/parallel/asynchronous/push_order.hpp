// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/config/asynchronous_config.hpp"

namespace lockstep {

/// Which worker's gradient is applied when in asynchronous training, and by which parameters it was computed. Version v
/// of the parameters is what v updates have left; `collect` gradients make one.
class PushOrder {
 public:
  /// A gradient, as it is given away.
  struct Push {
    std::int32_t worker = 0;
    std::int64_t version = 0;  ///< of the parameters that the worker has read for it
    std::int64_t steps = 0;    ///< of a round by speed (Rounds); 0: it is of all
    bool operator==(const Push&) const = default;
  };

  PushOrder() = default;
  /// Of `updates` updates. `parts`: numbers of the parts of batches (PartRequest) that each push is a gradient of;
  /// empty: the batches' parts in their order. Throws Error(bad_data) where a worker has read what was not there yet,
  /// or is further ahead of the slowest than `bound`. `after`: what is under way after the last update.
  PushOrder(int workers, std::int64_t collect, std::optional<std::int64_t> bound, std::vector<Push> pushes,
            std::vector<Push> after = {}, std::vector<std::int64_t> parts = {}, const Rounds& rounds = {});

  int workers() const { return workers_; }
  std::int64_t collect() const { return collect_; }
  /// Ranks of each worker: its gradients are sums of those of so many equal pieces, in the tree of
  /// DeterministicReducer.
  std::int64_t members() const { return members_; }
  bool has_parts() const { return !parts_.empty(); }
  /// Equal parts of each batch: `collect`, unless an update is of some of them.
  std::int64_t parts_of_batch() const { return parts_of_batch_; }
  /// Parts of the batches that the pushes of update number `update` are of; empty after the last one that is known.
  std::span<const std::int64_t> parts_of(std::int64_t update) const;
  /// The part of the batches (PartRequest) whose gradient push `place` of an update is.
  std::int64_t part_of(std::int64_t update, std::int64_t place) const {
    const std::size_t i = static_cast<std::size_t>((update - 1) * collect_ + place);
    return has_parts() ? parts_[i] : static_cast<std::int64_t>(i);
  }
  /// Numbers of the pieces of these parts; a batch has parts_of_batch() · members() of them.
  std::span<const std::int64_t> pieces_of(std::int64_t update) const;
  /// Those of update number `update`, from 1 on; their places are those in the sum.
  std::span<const Push> of_update(std::int64_t update) const;
  /// Updates between the reading and the application of push `place` of an update.
  std::int64_t staleness(std::int64_t update, std::int64_t place) const {
    return update - 1 - of_update(update)[static_cast<std::size_t>(place)].version;
  }
  /// How many of the pushes of the first `updates` updates have had a staleness of 0, 1, ….
  std::vector<std::int64_t> staleness_counts(std::int64_t updates) const;

  /// A worker keeps a copy of a version, for a push after the update that follows it. It may have none any earlier
  /// than when that update has all its gradients (`before_update`), where it has given one of them by an older version.
  struct Copy {
    std::int64_t version = 0;
    bool before_update = false;
    std::int32_t worker = 0;
    auto operator<=>(const Copy&) const = default;
  };
  std::span<const Copy> copies(std::int64_t version, bool before_update) const;
  /// Whether workers ever need any.
  bool keeps_copies() const { return !copies_.empty(); }

  /// What every file of such an order begins with.
  static constexpr std::string_view mark = "# lockstep pushes";
  /// As a file, and from it; the first lines, and one for each push. Throws Error(bad_data) for what is no record of so
  /// many updates, or of other rounds.
  std::string text() const;
  static std::string head(int workers, std::int64_t members, const Rounds& rounds, std::int64_t collect,
                          std::optional<std::int64_t> parts_of_batch);
  static std::string line(const Push& push, std::optional<std::int64_t> part);
  static PushOrder parse(const std::string& text, const std::string& file, const AsynchronousConfig& config,
                         std::int64_t updates, const Rounds& rounds = {});

 private:
  void plan_copies();

  int workers_ = 1;
  std::int64_t collect_ = 1, members_ = 1, parts_of_batch_ = 1;
  std::vector<Push> pushes_, after_;
  std::vector<std::int64_t> parts_, pieces_;
  std::vector<Copy> copies_;  ///< in rising order
  Rounds rounds_;
};

/// Simulates workers with delays. Each computes one gradient after the other: it reads the newest parameters, takes its
/// time, and gives the gradient away; what is given at the same time is given in the order of workers. A worker that
/// has begun so many gradients more than the slowest has given away that the bound forbids another waits. Delays are of
/// a whole round, and rounds by speed are shorter by them (steps_by_speed).
PushOrder simulate_pushes(const AsynchronousConfig& config, std::uint64_t seed, std::int64_t updates,
                          const Rounds& rounds = {});

}  // namespace lockstep
