// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "data/sampler.hpp"

#include <algorithm>
#include <utility>

#include "config/deck.hpp"

namespace lockstep {

Sampler::Sampler(const Options& options, SamplerPosition start) : options_(options), position_(start) {
  if (!options_.batch_at) options_.batch_at = [batch = options.global_batch](const SamplerPosition&) { return batch; };
  if (!options_.sampling) options_.sampling = each_once(options.dataset_size, options.shuffle, options.seed);
  order_ = options_.sampling(start.epoch);
  end_epoch();
}

bool Sampler::end_epoch() {
  const std::int64_t least = options_.drop_last ? options_.batch_at(position_) : 1;
  if (order_.size - position_.next >= least) return false;
  position_ = {position_.epoch + 1, 0};
  order_ = options_.sampling(position_.epoch);
  return true;
}

std::optional<BatchPlan> Sampler::next() {
  if (options_.epochs && position_.epoch >= *options_.epochs) return std::nullopt;
  BatchPlan plan;
  plan.epoch = position_.epoch;
  plan.global_examples = std::min(options_.batch_at(position_), order_.size - position_.next);
  const RankShare share = share_of(options_.partition, plan.global_examples, options_.rank);
  plan.first = share.first;
  plan.micro_batches = micro_batches_of(options_.partition, plan.global_examples, options_.rank);
  plan.parts = options_.partition.parts;
  plan.examples.reserve(static_cast<std::size_t>(share.count));
  const auto example_at = [&](std::int64_t i) {
    const std::int64_t in_batch = options_.interleaved ? i * options_.partition.ranks + options_.rank : share.first + i;
    return order_.example(position_.next + in_batch % plan.global_examples);
  };
  for (std::int64_t i = 0; i < share.count; ++i) plan.examples.push_back(example_at(i));
  if (share.count > 0) plan.next_example = example_at(share.count);

  position_.next += plan.global_examples;
  plan.last_of_epoch = end_epoch();
  plan.after = position_;
  return plan;
}

}  // namespace lockstep
