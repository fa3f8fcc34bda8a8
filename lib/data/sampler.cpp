// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/deck.hpp"
#include "core/random.hpp"

namespace lockstep {

Sampler::Sampler(const Options& options, SamplerPosition start) : options_(options), position_(start) {
  validate(options_.dataset_size > 0, ExitStatus::bad_data, "the dataset has no examples; give one that has some");
  validate_key(batches_per_epoch() > 0, "batch.global",
               "{} examples are more than the {} there are (data.drop_last then leaves nothing); use fewer",
               options_.global_batch, options_.dataset_size);
  order_.resize(static_cast<std::size_t>(options_.dataset_size));
  if (position_.next >= examples_per_epoch()) position_ = {position_.epoch + 1, 0};
  begin_epoch();
}

std::int64_t Sampler::batches_per_epoch() const {
  const std::int64_t whole = options_.dataset_size / options_.global_batch;
  return options_.drop_last || options_.dataset_size % options_.global_batch == 0 ? whole : whole + 1;
}

std::int64_t Sampler::examples_per_epoch() const {
  return std::min(batches_per_epoch() * options_.global_batch, options_.dataset_size);
}

void Sampler::begin_epoch() {
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (!options_.shuffle) return;
  // Fisher and Yates' shuffle: every order is as likely as any other.
  const RandomStream random(options_.seed, RandomPurpose::shuffle, static_cast<std::uint64_t>(position_.epoch));
  for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i + 1, i)]);
}

std::optional<BatchPlan> Sampler::next() {
  if (options_.epochs && position_.epoch >= *options_.epochs) return std::nullopt;
  BatchPlan plan;
  plan.epoch = position_.epoch;
  plan.global_examples = std::min(options_.global_batch, examples_per_epoch() - position_.next);
  const Share share = share_of(options_.cut, plan.global_examples, options_.rank);
  plan.first = share.first;
  const auto begin = order_.begin() + position_.next + share.first;
  plan.examples.assign(begin, begin + share.count);

  position_.next += plan.global_examples;
  plan.last_of_epoch = position_.next >= examples_per_epoch();
  if (plan.last_of_epoch) {
    position_ = {position_.epoch + 1, 0};
    if (!options_.epochs || position_.epoch < *options_.epochs) begin_epoch();
  }
  plan.after = position_;
  return plan;
}

}  // namespace lockstep
