// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/asynchronous/free_order.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep {

FreeOrder::FreeOrder(int workers, const AsynchronousConfig& config)
    : workers_(static_cast<std::size_t>(workers)), collect_(config.collect), bound_(config.bound) {}

void FreeOrder::go_on_behind(const PushOrder& done, std::int64_t updates) {
  for (std::int64_t update = 1; update <= updates; ++update) {
    const auto pushes = done.of_update(update);
    const auto parts = done.parts_of(update);
    for (std::size_t i = 0; i < pushes.size(); ++i) {
      ++workers_[static_cast<std::size_t>(pushes[i].worker)].given;
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
  pushed_ = 0;
  next_part_ = version * collect_;
  waiting_.resize(workers_.size());
  std::iota(waiting_.begin(), waiting_.end(), 0);
  give_out(tell);
}

void FreeOrder::give_out(const Tell& tell) {
  const std::int64_t least = std::ranges::min_element(workers_, {}, &Worker::given)->given;
  std::erase_if(waiting_, [&](int number) {
    Worker& worker = workers_[static_cast<std::size_t>(number)];
    if (next_part_ == meeting_ * collect_ || (bound_ && worker.given - least > *bound_)) return false;
    worker.version = version_;
    worker.part = next_part_++;
    tell({.kind = StoreEvent::Kind::read, .worker = number, .part = worker.part});
    return true;
  });
}

void FreeOrder::take(int number, const Tell& tell) {
  Worker& worker = workers_[static_cast<std::size_t>(number)];
  ++worker.given;
  count(version_ - worker.version);
  entries_.push_back({{number, worker.version}, worker.part});
  const bool is_update = ++pushed_ % collect_ == 0;
  tell({.kind = StoreEvent::Kind::push, .worker = number, .part = worker.part, .is_update = is_update ? 1 : 0});
  version_ += is_update ? 1 : 0;
  waiting_.push_back(number);
  if (version_ == meeting_) tell({.kind = StoreEvent::Kind::meet});
  else give_out(tell);
}

}  // namespace lockstep
