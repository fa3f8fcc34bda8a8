// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/batch/data_loader.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace lockstep {

DataLoader::DataLoader(const Dataset& dataset, Sampler sampler, std::int64_t max_batch, const AugmentConfig& augment,
                       std::uint64_t seed, int depth)
    : dataset_(dataset),
      sampler_(std::move(sampler)),
      augmenter_(augment, dataset.format(), seed),
      max_batch_(max_batch),
      ring_(depth == on_demand ? 1 : static_cast<std::size_t>(std::max(depth, 2))) {
  const auto room = [&](const std::string& label, std::size_t bytes_each) {
    return staging_memory(label, static_cast<std::size_t>(max_batch + (augment.mixes() ? 1 : 0)) * bytes_each);
  };
  for (auto& batch : ring_) {
    batch.inputs = room("lockstep::loader::inputs", dataset.format().input_bytes());
    batch.targets = room("lockstep::loader::targets", dataset.format().target_bytes());
  }
  if (depth != on_demand) thread_ = std::thread([this] { fill(); });
}

DataLoader::~DataLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const HostBatch& batch : ring_)
    if (batch.copied) batch.copied->wait();
}

const HostBatch* DataLoader::next() {
  take_back();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return filled_ > lent_ || finished_; });
  if (filled_ > lent_) return &ring_[lent_++ % ring_.size()];
  if (failure_) std::rethrow_exception(failure_);
  return nullptr;
}

const HostBatch& DataLoader::part(std::int64_t number) {
  HostBatch& batch = ring_.front();
  if (batch.copied) batch.copied->wait();
  batch.copied.reset();
  batch.plan = sampler_.part(number);
  read(batch);
  return batch;
}

void DataLoader::set_shares(std::vector<std::int64_t> shares) {
  const std::lock_guard lock(mutex_);
  // Beyond the batches that were lent, at most a ring of batches has been begun.
  new_shares_.push_back({lent_ + ring_.size(), std::move(shares)});
}

/// Gives back the slots of lent batches that are copied. Waits for the copies of all but the last lent batch.
void DataLoader::take_back() {
  while (returned_ < lent_) {
    std::optional<StreamEvent>& copied = ring_[returned_ % ring_.size()].copied;
    if (copied && returned_ + 1 < lent_) copied->wait();
    if (copied && !copied->has_happened()) return;
    copied.reset();
    const std::lock_guard lock(mutex_);
    ++returned_;
    changed_.notify_all();
  }
}

/// Runs in the thread. It calls nothing of Kokkos: on some backends, only one thread may do that.
void DataLoader::fill() {
  for (;;) {
    std::uint64_t number = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || filled_ - returned_ < ring_.size(); });
      if (stopping_) return;
      number = filled_;
      for (; !new_shares_.empty() && new_shares_.front().from <= number; new_shares_.pop_front())
        sampler_.set_shares(std::move(new_shares_.front().rank_shares));
    }
    bool made = false;
    std::exception_ptr failure;
    try {
      made = fill_slot(ring_[number % ring_.size()]);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      failure_ = failure;
      finished_ = !made;
      if (made) ++filled_;
    }
    changed_.notify_all();
    if (!made) return;
  }
}

/// Returns false after the last batch.
bool DataLoader::fill_slot(HostBatch& batch) {
  auto plan = sampler_.next();
  if (!plan) return false;
  batch.plan = std::move(*plan);
  read(batch);
  return true;
}

void DataLoader::read(HostBatch& batch) {
  validate(batch.size() <= max_batch_, ExitStatus::internal,
           "the loader has room for {} examples, but {} are requested", max_batch_, batch.size());
  std::vector<std::int64_t> examples = batch.plan.examples, draws = batch.plan.draws;
  if (augmenter_.mixes() && !examples.empty()) {
    examples.push_back(batch.plan.next_example);
    draws.push_back(batch.plan.next_draw);
  }
  dataset_.read(examples, batch.inputs.data(), batch.targets.data());
  batch.changes.clear();
  if (!augmenter_.does_something()) return;
  for (const std::int64_t draw : draws) batch.changes.push_back(augmenter_.draw(batch.plan.epoch, draw));
  for (const MicroBatch& part : batch.plan.micro_batches)
    for (std::int64_t i = part.first; part.place && i < part.first + part.count; ++i)
      batch.changes[static_cast<std::size_t>(i)] = augmenter_.draw(part.place->epoch,
                                                                   draws[static_cast<std::size_t>(i)]);
}

}  // namespace lockstep
