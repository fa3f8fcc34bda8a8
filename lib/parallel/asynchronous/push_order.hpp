// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/config/asynchronous_config.hpp"

// The record file: the order in which gradients are applied (asynchronous.schedule.record, backup.record).
namespace lockstep {

/// How many steps of a run its updates stand for: `every` each, and the last update for what is left.
struct UpdateSteps {
  std::int64_t every = 1;
  std::int64_t last = 0;  ///< last step of the run

  std::int64_t updates() const { return (last + every - 1) / every; }
  /// Number of steps done after so many updates.
  std::int64_t after(std::int64_t updates) const { return std::min(updates * every, last); }
  /// Number of steps in the update that comes after `before` others.
  std::int64_t of(std::int64_t before) const { return after(before + 1) - after(before); }
  /// Number of updates that a run has done when it goes on after `steps` steps. Throws KeyError (parallel.local.every)
  /// if one of them is not complete.
  std::int64_t updates_before(std::int64_t steps) const;
  /// Returns the first update, from `update` on, after which the run looks at its parameters: that of a step for which
  /// `syncs` is true, or the last one.
  std::int64_t next_sync(std::int64_t update, const std::function<bool(std::int64_t)>& syncs) const;
};

/// The outcome of the gradients of workers that do not wait for each other.
struct GradientCounts {
  /// Number of gradients applied 0, 1, … updates after the parameters that they were computed by.
  std::vector<std::int64_t> by_staleness;
  std::int64_t discarded_examples = 0;  ///< examples whose gradients came too late
};

/// The order in which gradients of workers are applied in asynchronous training, and the version of the parameters that
/// each was computed by. Version v is what v updates have left; an update takes `collect` gradients.
class PushOrder {
 public:
  /// A gradient that a worker gives.
  struct Push {
    std::int32_t worker = 0;
    std::int64_t version = 0;  ///< version of the parameters that the worker has read for it
    bool operator==(const Push&) const = default;
  };

  enum class Length { all_updates, may_be_shorter };

  PushOrder() = default;
  /// `pushes` are those of whole updates. `parts` are the numbers of the parts of batches (Sampler::part) that the
  /// pushes are gradients of; empty: the batches' parts in their order. `after` are pushes that are under way after the
  /// last update. Throws Error(bad_data) if a worker has read a version that was not there yet, or is further ahead of
  /// the slowest than `bound`.
  PushOrder(int workers, std::int64_t collect, std::optional<std::int64_t> bound, std::vector<Push> pushes,
            std::vector<Push> after = {}, std::vector<std::int64_t> parts = {}, std::int64_t steps_of_round = 1);

  int workers() const { return workers_; }
  std::int64_t collect() const { return collect_; }
  std::int64_t updates() const { return std::ssize(pushes_) / collect_; }
  /// Ranks of each worker. The worker's gradients are sums of the gradients of so many equal pieces, in the tree of
  /// DeterministicReducer.
  std::int64_t members() const { return members_; }
  bool has_parts() const { return !parts_.empty(); }
  /// Number of equal parts of each batch: `collect`, unless an update takes only some of them.
  std::int64_t parts_of_batch() const { return parts_of_batch_; }
  /// Parts of the batches in the pushes of update number `update`; empty after the last known update.
  std::span<const std::int64_t> parts_of(std::int64_t update) const;
  /// Part of the batches (Sampler::part) whose gradient is push `place` of an update.
  std::int64_t part_of(std::int64_t update, std::int64_t place) const {
    const std::size_t i = static_cast<std::size_t>((update - 1) * collect_ + place);
    return has_parts() ? parts_[i] : static_cast<std::int64_t>(i);
  }
  /// Numbers of the pieces of an update's parts; a batch has parts_of_batch() · members() pieces.
  std::span<const std::int64_t> pieces_of(std::int64_t update) const;
  /// Pushes of update number `update`, from 1 on, in the order of the sum.
  std::span<const Push> of_update(std::int64_t update) const;
  /// Number of updates between the reading and the application of push `place` of an update.
  std::int64_t staleness(std::int64_t update, std::int64_t place) const {
    return update - 1 - of_update(update)[static_cast<std::size_t>(place)].version;
  }
  /// Returns how many pushes of the first `updates` updates have a staleness of 0, 1, ….
  std::vector<std::int64_t> staleness_counts(std::int64_t updates) const;

  /// A copy of a version, which a worker keeps for a later, stale push. `before_update`: the worker pushes to the
  /// update of that version by an older one, so it makes the copy when that update has all its gradients.
  struct Copy {
    std::int64_t version = 0;
    bool before_update = false;
    std::int32_t worker = 0;
    auto operator<=>(const Copy&) const = default;
  };
  std::span<const Copy> copies(std::int64_t version, bool before_update) const;
  /// Whether workers ever need copies.
  bool keeps_copies() const { return !copies_.empty(); }

  /// What every record file begins with.
  static constexpr std::string_view mark = "# lockstep pushes";
  /// The order as the text of a record, and back: first lines, and one for each push. `parse` throws Error(bad_data)
  /// for text that is no record of so many updates, or of other rounds. With Length::may_be_shorter, fewer updates will
  /// do: the run that has left the record may have ended early.
  std::string text() const;
  static std::string head(int workers, std::int64_t members, std::int64_t steps_of_round, std::int64_t collect,
                          std::optional<std::int64_t> parts_of_batch);
  static std::string line(const Push& push, std::optional<std::int64_t> part);
  static PushOrder parse(const std::string& text, const std::string& file, const AsynchronousConfig& config,
                         std::int64_t updates, std::int64_t steps_of_round = 1, Length length = Length::all_updates);

 private:
  void plan_copies();

  int workers_ = 1;
  std::int64_t collect_ = 1, members_ = 1, parts_of_batch_ = 1;
  std::vector<Push> pushes_, after_;
  std::vector<std::int64_t> parts_, pieces_;
  std::vector<Copy> copies_;  ///< in rising order
  std::int64_t steps_of_round_ = 1;
};

/// Simulates workers with delays. Each worker computes one gradient after the other: it reads the newest parameters,
/// takes its time, and gives the gradient; gradients given at the same time are in the order of workers. A worker waits
/// while `bound` forbids it to be further ahead of the slowest. Delays are those of a whole round.
PushOrder simulate_pushes(const AsynchronousConfig& config, std::uint64_t seed, std::int64_t updates,
                          std::int64_t steps_of_round = 1);

/// Throws cannot_create if there is a file of this name that is no record.
void refuse_other_file(const std::string& record);

/// Writes the record of an order that is known from the beginning, unless `record`, its path, is empty. Throws what
/// refuse_other_file and replace_text_file throw.
void write_record(const std::string& record, const PushOrder& order);

}  // namespace lockstep
