// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/sampler.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"

namespace lockstep {

Sampler::Sampler(const Options& options, SamplerPosition start)
    : options_(options), position_(start), order_(order_of(start.epoch)) {
  if (!options_.batch_at) options_.batch_at = [batch = options.global_batch](const SamplerPosition&) { return batch; };
  end_epoch();
}

bool Sampler::end_epoch() {
  const std::int64_t least = options_.drop_last ? options_.batch_at(position_) : 1;
  if (options_.dataset_size - position_.next >= least) return false;
  position_ = {position_.epoch + 1, 0};
  order_ = order_of(position_.epoch);
  return true;
}

Permutation Sampler::order_of(std::int64_t epoch) const {
  validate(options_.dataset_size > 0, ExitStatus::bad_data, "the dataset has no examples; give one that has some");
  return {options_.dataset_size, {options_.seed, RandomPurpose::shuffle, static_cast<std::uint64_t>(epoch)}};
}

std::optional<BatchPlan> Sampler::next() {
  if (options_.epochs && position_.epoch >= *options_.epochs) return std::nullopt;
  BatchPlan plan;
  plan.epoch = position_.epoch;
  plan.global_examples = std::min(options_.batch_at(position_), options_.dataset_size - position_.next);
  const RankShare share = share_of(options_.partition, plan.global_examples, options_.rank);
  plan.first = share.first;
  plan.micro_batches = micro_batches_of(options_.partition, plan.global_examples, options_.rank);
  plan.examples.reserve(static_cast<std::size_t>(share.count));
  for (std::int64_t i = 0; i < share.count; ++i) {
    const std::int64_t place = position_.next + share.first + i;
    plan.examples.push_back(options_.shuffle ? order_(place) : place);
  }

  position_.next += plan.global_examples;
  plan.last_of_epoch = end_epoch();
  plan.after = position_;
  return plan;
}

}  // namespace lockstep
