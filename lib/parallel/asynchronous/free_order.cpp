// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_order.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

FreeRules free_rules(const ParallelConfig& config, int ranks, std::int64_t last) {
  const BackupConfig& backup = config.backup;
  return {
      .workers = config.workers(ranks),
      .collect = config.gradients_of_update(ranks),
      .parts_of_batch = config.parts_of_batch(ranks),
      .bound = config.asynchronous.bound,
      .is_synchronous = backup.present,
      .duplicates = backup.present && backup.mode == BackupConfig::Mode::duplicate ? static_cast<int>(backup.ranks) : 0,
      .steps = {config.steps_of_round(), last},
      .records = !(backup.present ? backup.record : config.asynchronous.record).empty()};
}

FreeOrder::FreeOrder(const FreeRules& rules, std::function<double()> seconds)
    : rules_(rules), seconds_(std::move(seconds)), workers_(static_cast<std::size_t>(rules.workers)) {}

void FreeOrder::resume_after(const PushOrder& done, std::int64_t updates) {
  for (std::int64_t update = 1; update <= updates; ++update) {
    const auto pushes = done.of_update(update);
    const auto parts = done.parts_of(update);
    for (std::size_t i = 0; i < pushes.size(); ++i) {
      ++worker(pushes[i].worker).given;
      count(update - 1 - pushes[i].version);
      entries_.push_back({pushes[i], parts[i]});
    }
  }
}

void FreeOrder::count(std::int64_t staleness) {
  const auto tau = static_cast<std::size_t>(staleness);
  if (tau >= counts_.size()) counts_.resize(tau + 1);
  ++counts_[tau];
}

void FreeOrder::begin(std::int64_t version, std::int64_t sync, const Tell& tell) {
  version_ = version;
  sync_ = sync;
  pushed_ = version * rules_.collect;
  next_part_ = version * rules_.parts_of_batch;
  waiting_.resize(workers_.size());
  std::iota(waiting_.begin(), waiting_.end(), 0);
  give_out(tell);
}

void FreeOrder::give_out(const Tell& tell) {
  const std::int64_t least = std::ranges::min_element(workers_, {}, &Worker::given)->given;
  std::erase_if(waiting_, [&](int number) {
    Worker& next = worker(number);
    if (rules_.bound && next.given - least > *rules_.bound) return false;
    const std::optional<std::int64_t> part = next_part(next);
    if (!part) return false;
    next.version = version_;
    next.part = *part;
    next.computes = true;
    next.since = seconds_();
    tell({.kind = StoreEvent::Kind::read, .worker = number, .part = next.part});
    return true;
  });
}

/// Returns the next part for a worker that asks; none if there is nothing to do.
std::optional<std::int64_t> FreeOrder::next_part(const Worker& asks) {
  const std::int64_t end = rules_.is_synchronous ? std::min(version_ + 1, sync_) : sync_;
  if (next_part_ < end * rules_.parts_of_batch && may_compute_more(asks)) return next_part_++;
  if (rules_.duplicates == 0 || asks.counted == version_) return std::nullopt;
  return part_of_slowest();
}

/// Whether a worker may compute another part. One that has done a part of this update may do so only if more are
/// wanted; else it waits for the next update.
bool FreeOrder::may_compute_more(const Worker& asks) const {
  if (!rules_.is_synchronous || asks.counted != version_) return true;
  const auto computing = std::ranges::count_if(
      workers_, [&](const Worker& each) { return each.computes && each.version == version_; });
  return computing < (version_ + 1) * rules_.collect - pushed_ - std::ssize(complete_);
}

/// Returns, of the parts that a single worker computes, the one expected to come last, if each worker takes as long as
/// the last time. None if enough parts are computed twice.
std::optional<std::int64_t> FreeOrder::part_of_slowest() const {
  std::map<std::int64_t, int> computed;  // parts of this update, and by how many workers
  int copies = 0;
  for (const Worker& each : workers_)
    if (each.computes && each.version == version_ && (computed[each.part]++ > 0 || is_complete(each.part))) ++copies;
  if (copies >= rules_.duplicates) return std::nullopt;
  const Worker* slowest = nullptr;
  const auto end = [](const Worker& each) { return each.since + each.took; };
  for (const Worker& each : workers_)
    if (each.computes && each.version == version_ && computed[each.part] == 1 && !is_complete(each.part) &&
        (!slowest || end(each) > end(*slowest)))
      slowest = &each;
  return slowest ? std::optional(slowest->part) : std::nullopt;
}

void FreeOrder::take(int number, const Tell& tell) {
  Worker& giver = worker(number);
  ++giver.given;
  giver.computes = false;
  giver.took = seconds_() - giver.since;
  const bool late = is_late(giver);
  if (!late) giver.counted = version_;
  if (late) {
    ++dropped_;
    tell({.kind = StoreEvent::Kind::drop, .worker = number});
    waiting_.push_back(number);
  } else if (rules_.duplicates == 0) {
    push(number, tell);
  } else {
    complete_[giver.part] = number;
    while (const auto next = complete_.extract(pushed_)) push(next.mapped(), tell);
  }
  if (version_ == sync_ && waiting_.size() == workers_.size()) tell({.kind = StoreEvent::Kind::sync});
  else give_out(tell);
}

/// Whether a gradient is of no use any more: its batch is done, or another worker has computed its part.
bool FreeOrder::is_late(const Worker& giver) const {
  if (!rules_.is_synchronous) return false;
  if (giver.version < version_) return true;
  return rules_.duplicates > 0 && is_complete(giver.part);
}

void FreeOrder::push(int number, const Tell& tell) {
  const Worker& giver = worker(number);
  count(version_ - giver.version);
  if (rules_.records) entries_.push_back({{number, giver.version}, giver.part});
  const bool is_update = ++pushed_ % rules_.collect == 0;
  tell({.kind = StoreEvent::Kind::push, .worker = number, .part = giver.part, .is_update = is_update ? 1 : 0});
  waiting_.push_back(number);
  if (!is_update) return;
  ++version_;
  if (rules_.is_synchronous) next_part_ = version_ * rules_.parts_of_batch;
}

}  // namespace lockstep
