// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_order.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

FreeRules free_rules(const ParallelConfig& config, int ranks) {
  const BackupConfig& backup = config.backup;
  return {.workers = config.workers(ranks),
          .collect = config.gradients_of_update(ranks),
          .parts = config.parts_of_batch(ranks),
          .bound = config.asynchronous.bound,
          .is_synchronous = backup.present,
          .duplicates = backup.present && backup.mode == BackupConfig::Mode::duplicate ? static_cast<int>(backup.ranks)
                                                                                       : 0};
}

FreeOrder::FreeOrder(const FreeRules& rules, std::function<double()> seconds)
    : rules_(rules), seconds_(std::move(seconds)), workers_(static_cast<std::size_t>(rules.workers)) {}

void FreeOrder::go_on_behind(const PushOrder& done, std::int64_t updates) {
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

void FreeOrder::begin(std::int64_t version, std::int64_t meeting, const Tell& tell) {
  version_ = version;
  meeting_ = meeting;
  pushed_ = version * rules_.collect;
  next_part_ = version * rules_.parts;
  duplicates_ = 0;
  waiting_.resize(workers_.size());
  std::iota(waiting_.begin(), waiting_.end(), 0);
  give_out(tell);
}

void FreeOrder::give_out(const Tell& tell) {
  const std::int64_t least = std::ranges::min_element(workers_, {}, &Worker::given)->given;
  std::erase_if(waiting_, [&](int number) {
    Worker& next = worker(number);
    if (rules_.bound && next.given - least > *rules_.bound) return false;
    const std::optional<std::int64_t> part = next_part();
    if (!part) return false;
    next.version = version_;
    next.part = *part;
    next.computes = true;
    next.is_duplicated = false;
    next.since = seconds_();
    tell({.kind = StoreEvent::Kind::read, .worker = number, .part = next.part});
    return true;
  });
}

/// For whoever asks; none where there is nothing to do.
std::optional<std::int64_t> FreeOrder::next_part() {
  const std::int64_t end = rules_.is_synchronous ? std::min(version_ + 1, meeting_) : meeting_;
  if (next_part_ < end * rules_.parts) return next_part_++;
  if (duplicates_ == rules_.duplicates) return std::nullopt;
  return part_of_slowest();
}

/// Of those that are computed once, the part that will come last, as it seems: its worker takes as long as the last
/// time.
std::optional<std::int64_t> FreeOrder::part_of_slowest() {
  Worker* slowest = nullptr;
  const auto end = [](const Worker& each) { return each.since + each.took; };
  for (Worker& each : workers_)
    if (each.computes && !each.is_duplicated && each.version == version_ && (!slowest || end(each) > end(*slowest)))
      slowest = &each;
  if (!slowest) return std::nullopt;
  slowest->is_duplicated = true;
  ++duplicates_;
  return slowest->part;
}

void FreeOrder::take(int number, const Tell& tell) {
  Worker& giver = worker(number);
  ++giver.given;
  giver.computes = false;
  giver.took = seconds_() - giver.since;
  if (is_late(giver)) {
    ++dropped_;
    tell({.kind = StoreEvent::Kind::drop, .worker = number});
    waiting_.push_back(number);
  } else if (rules_.duplicates == 0) {
    push(number, tell);
  } else {
    complete_[giver.part] = number;
    while (const auto next = complete_.extract(pushed_)) push(next.mapped(), tell);
  }
  if (version_ == meeting_ && waiting_.size() == workers_.size()) tell({.kind = StoreEvent::Kind::meet});
  else give_out(tell);
}

/// Whether a gradient is of no use any more: of a batch that is done, or of a part that another worker has computed.
bool FreeOrder::is_late(const Worker& giver) const {
  if (!rules_.is_synchronous) return false;
  if (giver.version < version_) return true;
  return rules_.duplicates > 0 && (giver.part < pushed_ || complete_.contains(giver.part));
}

void FreeOrder::push(int number, const Tell& tell) {
  const Worker& giver = worker(number);
  count(version_ - giver.version);
  entries_.push_back({{number, giver.version}, giver.part});
  const bool is_update = ++pushed_ % rules_.collect == 0;
  tell({.kind = StoreEvent::Kind::push, .worker = number, .part = giver.part, .is_update = is_update ? 1 : 0});
  waiting_.push_back(number);
  if (!is_update) return;
  ++version_;
  if (!rules_.is_synchronous) return;
  next_part_ = version_ * rules_.parts;
  duplicates_ = 0;
}

}  // namespace lockstep
