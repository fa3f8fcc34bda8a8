// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "nn/pass_hooks.hpp"

#include <algorithm>

namespace lockstep {

void StatisticsInFlight::await(const PassContext& context, const Graph& graph, const Segment& segment) {
  const Task::Kind reads = are_moments_ ? Task::Kind::forward : Task::Kind::backward;
  const bool needed = std::ranges::any_of(segment.tasks, [&](const Task& task) {
    const Layer* layer = graph.nodes()[static_cast<std::size_t>(task.node)].layer.get();
    return task.kind == reads && std::ranges::find(layers_, layer) != layers_.end();
  });
  if (needed) finish(context);
}

void StatisticsInFlight::finish(const PassContext& context) {
  if (layers_.empty()) return;
  exchange_->finish(context.space);
  if (are_moments_)
    for (Layer* layer : layers_) layer->finalize_statistics(context, examples_);
  layers_.clear();
}

void StatisticsInFlight::send(const PassContext& context, Graph& graph, const Segment& segment, Task::Kind observed,
                              std::int64_t examples) {
  const bool forward = observed == Task::Kind::accumulate_statistics;
  const auto is_observed = [&](const Task& task) { return task.kind == observed; };
  if (!context.training || std::ranges::none_of(segment.tasks, is_observed)) return;
  finish(context);
  statistics_.clear();
  examples_ = examples;
  for (const Task& task : segment.tasks) {
    if (!is_observed(task)) continue;
    Layer& layer = *graph.nodes()[static_cast<std::size_t>(task.node)].layer;
    if (exchange_ == nullptr) {
      if (forward && examples > 0) layer.finalize_statistics(context, examples);
      continue;
    }
    layers_.push_back(&layer);
    BatchStatistics& own = *statistics_.emplace_back(layer.batch_statistics());
    if (examples > 0) continue;
    if (forward) own.rows = 0;
    fill_zero(context.space, forward ? own.moments : own.sums);
  }
  if (exchange_ == nullptr) return;
  are_moments_ = forward;
  if (forward) exchange_->start_moments(context.space, statistics_);
  else exchange_->start_sums(context.space, statistics_);
}

}  // namespace lockstep
