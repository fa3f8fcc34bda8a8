// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/guard/overflow_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/reduction.hpp"

namespace lockstep {

OverflowWatch::OverflowWatch(const ParameterBuffer& parameters, const Graph& graph, std::int64_t sums) : sums_(sums) {
  for (std::size_t node = graph.nodes().size(); node-- > 0;)
    if (const ElementRange range = parameters.of_layer(node).own; range.count > 0)
      layers_.push_back({graph.nodes()[node].name, range, 0});
  for (const Parameter& parameter : parameters.parameters())
    for (Layer& layer : layers_)
      if (layer.name == graph.nodes()[parameter.node].name && parameter.kind == ParameterSpec::Kind::trained)
        layer.numbers += parameter.range.count;
  for (OwnedTensor* counts : {&own_, &counts_[0], &counts_[1]})
    *counts = OwnedTensor("lockstep::overflow_counts", DType::f64, {sums, static_cast<std::int64_t>(layers_.size())});
}

void OverflowWatch::begin(const ExecSpace& space) {
  fill_zero(space, own_.get());
  sum_ = 0;
}

void OverflowWatch::end(const ExecSpace& space, std::int64_t step) const {
  copy(space, own_.get(), counts_[step % 2].get());
}

void OverflowWatch::inspect(const ExecSpace& space, const ParameterBuffer& parameters, ElementRange range) {
  const auto found = std::ranges::lower_bound(layers_, range.first, {},
                                              [](const Layer& layer) { return layer.range.first; });
  if (found == layers_.end() || found->range.first != range.first) return;  // statistics, which have no gradients
  count_nonfinite(space, parameters.gradients(range),
                  {own_.get().as<double>() + sum_ * own_.get().shape[1] + (found - layers_.begin()), DType::f64, {1}});
}

std::string OverflowWatch::describe(const ExecSpace& space, const Communicator& comm,
                                    std::span<const std::int64_t> numbers, std::int64_t step) const {
  std::vector<double> counts(static_cast<std::size_t>(sums_) * layers_.size());
  copy_to_host(space, counts_[step % 2].get(), counts.data());
  for (std::size_t i = layers_.size(); i < counts.size(); ++i) counts[i % layers_.size()] += counts[i];
  counts.resize(layers_.size());
  const auto first = std::find_if(counts.begin(), counts.end(), [](double count) { return count > 0; });
  // For each rank: the number of its first layer with overflows, from 1 on, and how many that layer has.
  std::vector<double> ranks(2 * static_cast<std::size_t>(comm.size()), 0.0);
  if (first != counts.end()) {
    ranks[2 * static_cast<std::size_t>(comm.rank())] = static_cast<double>(first - counts.begin()) + 1;
    ranks[2 * static_cast<std::size_t>(comm.rank()) + 1] = *first;
  }
  comm.all_reduce_sum(ranks);
  for (std::size_t rank = 0; rank < ranks.size() / 2; ++rank) {
    if (ranks[2 * rank] == 0) continue;
    const Layer& layer = layers_[static_cast<std::size_t>(ranks[2 * rank]) - 1];
    return fmt::format("{:.3g} % of the gradient of layer '{}' is not finite on rank {}",
                       100 * ranks[2 * rank + 1] / static_cast<double>(layer.numbers * sums_), layer.name,
                       numbers.empty() ? static_cast<std::int64_t>(rank) : numbers[rank]);
  }
  return "the sum of the gradients over the ranks is not finite";
}

}  // namespace lockstep
