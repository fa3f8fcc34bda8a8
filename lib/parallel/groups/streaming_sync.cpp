// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "parallel/groups/streaming_sync.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/deck.hpp"
#include "parallel/groups/replica_update.hpp"

namespace lockstep {

std::vector<ElementRange> local_fragments(const ParameterLayout& layout, std::int64_t count) {
  const std::vector<Parameter> tensors = trained_parameters(layout.parameters());
  const std::int64_t size = layout.trained_size();
  validate_key(std::ssize(tensors) >= count, "parallel.local.fragments",
               "{} trained tensors cannot be cut into {} fragments; give at most as many fragments as tensors",
               tensors.size(), count);
  std::vector<ElementRange> fragments;
  std::size_t cut = 0;  // first tensor of the next fragment
  for (std::int64_t i = 1; i < count; ++i) {
    const auto target = static_cast<double>(size) * static_cast<double>(i) / static_cast<double>(count);
    const auto distance = [&](std::size_t tensor) {
      return std::abs(static_cast<double>(tensors[tensor].range.first) - target);
    };
    const std::size_t last = tensors.size() - static_cast<std::size_t>(count - i);  // leaves one for each of the others
    std::size_t nearest = cut + 1;
    for (std::size_t tensor = nearest; tensor <= last; ++tensor)
      if (distance(tensor) < distance(nearest)) nearest = tensor;
    fragments.push_back({tensors[cut].range.first, tensors[nearest].range.first - tensors[cut].range.first});
    cut = nearest;
  }
  const std::int64_t first = fragments.empty() ? 0 : fragments.back().end();
  fragments.push_back({first, layout.summed_size() - first});
  return fragments;
}

FragmentSums::FragmentSums(const ParallelConfig& config, const Topology* first_ranks, const Communicator& group,
                           const ParameterLayout& layout)
    : group_(group), fragments_(local_fragments(layout, config.local.fragments)) {
  const std::int64_t largest = std::ranges::max(fragments_, {}, &ElementRange::count).count;
  numbers_ = OwnedTensor("lockstep::fragment_sums", layout.master(), {largest + 1});
  if (!first_ranks) return;
  // Does without the node's memory and the helper thread, which are for gradients.
  ParallelConfig beside_steps = config;
  beside_steps.sums.overlap = GradientSumConfig::Overlap::poll;
  const ShardGroups groups(config, *first_ranks);
  for (std::size_t i = 0; i < fragments_.size(); ++i) {
    const std::vector<ElementRange> trained{{0, fragments_[i].within({0, layout.trained_size()}).count}};
    const Tensor all = all_numbers(i);
    const GradientBuckets buckets(trained, all.count(), config.sums.bucket_mb, size_of(all.dtype));
    sums_.push_back(std::make_unique<BucketedReducer>(beside_steps, std::span<const AllReduceRow>(), groups,
                                                      std::nullopt, all, buckets));
  }
}

Tensor FragmentSums::all_numbers(std::size_t fragment) const {
  return flat_part(numbers_.get(), {0, fragments_[fragment].count + 1});
}

Tensor FragmentSums::numbers(std::size_t fragment) const {
  return flat_part(numbers_.get(), {0, fragments_[fragment].count});
}

void FragmentSums::begin(const ExecSpace& space, std::size_t fragment, double examples) {
  const Tensor place = flat_part(numbers_.get(), {fragments_[fragment].count, 1});
  dispatch_master(place.dtype, [&]<class T>(T) {
    const T number = static_cast<T>(examples);
    copy_from_host(space, &number, place);
  });
  current_ = fragment;
  advance(space);
}

void FragmentSums::advance(const ExecSpace& space) {
  if (current_ && !sums_.empty()) sums_[*current_]->ready(space, all_numbers(*current_).count());
}

std::pair<std::size_t, double> FragmentSums::finish(const ExecSpace& space) {
  const std::size_t fragment = *std::exchange(current_, std::nullopt);
  if (!sums_.empty()) sums_[fragment]->finish(space, [] {});
  group_.broadcast(space, all_numbers(fragment));
  const Tensor place = flat_part(numbers_.get(), {fragments_[fragment].count, 1});
  return {fragment, dispatch_master(place.dtype, [&]<class T>(T) {
            T examples{};
            copy_to_host(space, place, &examples);
            return static_cast<double>(examples);
          })};
}

double FragmentSums::take_exposed_seconds() {
  double seconds = 0;
  for (const auto& sum : sums_) seconds += sum->take_exposed_seconds();
  return seconds;
}

StreamingSync::StreamingSync(const LocalConfig& config, std::unique_ptr<FragmentSums> sums, std::int64_t last_step,
                             ReplicaUpdate& update, AveragingWeights& weights)
    : config_(config), sums_(std::move(sums)), last_step_(last_step), update_(update), weights_(weights) {}

void StreamingSync::end_step(const ExecSpace& space, std::int64_t step, const ParameterChange& change) {
  const std::int64_t period = config_.fragment_period(), steps = step - config_.from_step;
  const std::size_t count = sums_->fragments().size();
  if (step == last_step_) {
    change([&] {
      for (std::size_t fragment = 0; fragment < count; ++fragment) {
        begin(space, fragment);
        finish(space);
      }
      update_.put_back(space);  // also fragments for which no rank has examples
    });
    return;
  }
  if ((steps + config_.delay) % period == 0 && step + config_.delay < last_step_)
    begin(space, static_cast<std::size_t>((steps + config_.delay) / period - 1) % count);
  if (steps % period == 0 && sums_->under_way()) change([&] { finish(space); });
}

/// The number of examples travels with the sum, so that no rank waits for it here.
void StreamingSync::begin(const ExecSpace& space, std::size_t fragment) {
  const double examples = weights_.examples(space);
  update_.take_differences(space, examples, sums_->fragments()[fragment], sums_->numbers(fragment));
  sums_->begin(space, fragment, examples);
}

void StreamingSync::finish(const ExecSpace& space) {
  const auto [fragment, examples] = sums_->finish(space);
  if (examples > 0) update_.step(space, 1 / examples, sums_->fragments()[fragment], sums_->numbers(fragment));
}

}  // namespace lockstep
