// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/sampler.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"

namespace lockstep {

std::int64_t batches_per_epoch(std::int64_t examples, std::int64_t global_batch, bool drop_last) {
  validate_key(!drop_last || global_batch <= examples, "batch.global",
               "{} examples are more than the {} there are (data.drop_last then leaves nothing); use fewer",
               global_batch, examples);
  return drop_last ? examples / global_batch : (examples + global_batch - 1) / global_batch;
}

Sampler::Sampler(const Options& options, SamplerPosition start)
    : options_(options),
      batches_per_epoch_(batches_per_epoch(options.dataset_size, options.global_batch, options.drop_last)),
      position_(start),
      order_(order_of(start.epoch)) {
  if (position_.next >= examples_per_epoch()) {
    position_ = {position_.epoch + 1, 0};
    order_ = order_of(position_.epoch);
  }
}

std::int64_t Sampler::examples_per_epoch() const {
  return std::min(batches_per_epoch_ * options_.global_batch, options_.dataset_size);
}

Permutation Sampler::order_of(std::int64_t epoch) const {
  validate(options_.dataset_size > 0, ExitStatus::bad_data, "the dataset has no examples; give one that has some");
  return {options_.dataset_size, {options_.seed, RandomPurpose::shuffle, static_cast<std::uint64_t>(epoch)}};
}

std::optional<BatchPlan> Sampler::next() {
  if (options_.epochs && position_.epoch >= *options_.epochs) return std::nullopt;
  BatchPlan plan;
  plan.epoch = position_.epoch;
  plan.global_examples = std::min(options_.global_batch, examples_per_epoch() - position_.next);
  const RankShare share = share_of(options_.partition, plan.global_examples, options_.rank);
  plan.first = share.first;
  plan.micro_batches = micro_batches_of(options_.partition, plan.global_examples, options_.rank);
  plan.examples.reserve(static_cast<std::size_t>(share.count));
  for (std::int64_t i = 0; i < share.count; ++i) {
    const std::int64_t place = position_.next + share.first + i;
    plan.examples.push_back(options_.shuffle ? order_(place) : place);
  }

  position_.next += plan.global_examples;
  plan.last_of_epoch = position_.next >= examples_per_epoch();
  if (plan.last_of_epoch) {
    position_ = {position_.epoch + 1, 0};
    order_ = order_of(position_.epoch);
  }
  plan.after = position_;
  return plan;
}

}  // namespace lockstep
