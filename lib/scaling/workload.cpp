// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/workload.hpp"

#include <algorithm>

#include "train/choose_shard.hpp"

namespace lockstep {

std::optional<NotPredicted> not_predicted(const ParallelConfig& config) {
  if (config.deterministic.present)
    return {{"parallel.deterministic", "the sums of deterministic runs do not use buckets and are not predicted"}};
  if (config.local.present)
    return {{"parallel.local", "the groups of parallel.local step independently, which is not predicted"}};
  if (config.compress.present) return {{"parallel.compress", "compressed sums are not predicted"}};
  if (config.asynchronous.present)
    return {
        {"parallel.asynchronous",
         "asynchronous workers wait in their order of arrival, and simulated ones are as slow as one process: their "
         "steps are not predicted"}};
  if (config.backup.present)
    return {
        {"parallel.backup", "the time that backup ranks save depends on how late others are, which is not predicted"}};
  return {};
}

Workload::Workload(const RunConfig& config)
    : config_(config),
      experiment_(open_experiment(config_)),
      layout_(experiment_.graph.layer_specs(), config_.dtype()) {
  if (const std::optional<NotPredicted> not_this = not_predicted(config_.parallel))
    validate_key(false, not_this->key, "{}; leave it out", not_this->why);
  const ExecutionPlan plan = plan_model(experiment_.graph, {.dtype = config_.dtype(), .providers = config_.providers});
  const auto type_bytes = static_cast<double>(size_of(config_.dtype()));
  for (const GraphNode& node : experiment_.graph.nodes()) {
    if (node.view) {
      layers_.emplace_back();
      continue;
    }
    std::int64_t elements = node.shape.count();
    for (const Shape& input : node.input_shapes) elements += input.count();
    layers_.push_back({.flops = node.layer->product_flops(1),
                       .backward = backward_products(node, plan),
                       .bytes = static_cast<double>(elements) * type_bytes});
  }
}

std::string Workload::choose_shard(RankCount ranks) {
  if (!config_.parallel.sharding.chooses_shard) return "";
  const bool whole_sums = has_whole_sums(config_.parallel, expected_devices(ranks.all));
  return resolve_shard(config_, experiment_.graph, plan(ranks), ranks, whole_sums)->why;
}

std::vector<ReadyPoint> Workload::ready_points(const ExecutionPlan& plan) const {
  std::vector<ReadyPoint> points;
  const auto pass = [&](std::vector<int> layers) {
    const std::size_t final_from = plan.final_from[points.size() + (plan.tile_rows > 0 ? 0 : 1)];
    ReadyPoint& point = points.emplace_back(ReadyPoint{.layers = std::move(layers)});
    point.elements = layout_.trained_size();
    for (const Parameter& parameter : layout_.parameters())
      if (parameter.kind == ParameterSpec::Kind::trained && parameter.node < final_from)
        point.elements = std::min(point.elements, parameter.range.first);
  };
  // The last layer has no task: tiles have taken it through.
  if (plan.tile_rows > 0) pass({static_cast<int>(experiment_.graph.nodes().size()) - 1});
  for (const Segment& segment : plan.backward) {
    std::vector<int> layers;
    for (const Task& task : segment.tasks)
      if (task.kind == Task::Kind::backward) layers.push_back(task.node);
    pass(std::move(layers));
  }
  if (points.empty()) points.emplace_back();
  points.back().elements = layout_.summed_size();
  return points;
}

std::vector<double> Workload::statistics(const ExecutionPlan& plan) const {
  std::vector<double> exchanges;
  for (const auto& [segments, kind] : {std::pair(&plan.forward, Task::Kind::accumulate_statistics),
                                       {&plan.backward, Task::Kind::accumulate_gradient_statistics}})
    for (const Segment& segment : *segments) {
      double bytes = 0;
      for (const Task& task : segment.tasks)
        if (task.kind == kind)
          bytes += 16 +
                   2 * element_bytes() *
                       static_cast<double>(experiment_.graph.nodes()[static_cast<std::size_t>(task.node)].shape[-1]);
      if (bytes > 0) exchanges.push_back(bytes);
    }
  return exchanges;
}

double Workload::flops_per_example() const {
  double flops = 0;
  for (const LayerWork& layer : layers_) flops += layer.flops * (1 + layer.backward);
  return flops;
}

double Workload::example_bytes() const {
  const ExampleFormat& format = experiment_.data.train->format();
  return static_cast<double>(format.input_bytes() + format.target_bytes());
}

}  // namespace lockstep
