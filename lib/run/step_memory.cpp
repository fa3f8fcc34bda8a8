// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/step_memory.hpp"

#include <algorithm>

#include "parallel/deterministic_reducer.hpp"

namespace lockstep {

StepMemory step_memory(const RunConfig& config, Experiment& experiment, int ranks) {
  const std::int64_t global = std::min(config.batch.largest(), experiment.data.train->size());
  const BatchPartition partition = batch_partition(config, experiment.graph, ranks);
  const std::int64_t share = partition.largest_share(global), micro_batch = partition.largest_micro_batch(global);
  StepMemory memory{.plan = plan_model(experiment.graph, model_options(config, micro_batch, Purpose::training))};
  const Graph& graph = experiment.graph;
  const DType type = config.dtype(), master = master_dtype(type);
  const auto count = static_cast<double>(graph.parameter_count());
  memory.parameters = count * static_cast<double>(size_of(master));
  memory.rounded = type == master ? 0 : count * static_cast<double>(size_of(type));
  memory.gradients = memory.parameters * (1 + (partition.separate ? static_cast<double>(DeterministicReducer::buffers(
                                                                        config.parallel.deterministic.shards, ranks))
                                                                  : 0));
  const std::vector<Parameter> layout = ParameterLayout(graph, type).parameters();
  for (const std::string& state : config.optimizer.state_names())
    for (const Parameter& part : config.optimizer.state_layout(state, layout))
      memory.states += static_cast<double>(part.range.count) * static_cast<double>(size_of(master));
  if (config.parallel.shard != ParallelConfig::Shard::none) memory.states /= ranks;
  memory.checkpoint = memory.parameters + memory.states;
  const ExampleFormat& format = experiment.data.train->format();
  memory.batches = static_cast<double>(micro_batch * graph.input_shape().count()) * static_cast<double>(size_of(type)) +
                   static_cast<double>(share) * 3.0 * static_cast<double>(format.input_bytes() + format.target_bytes());
  memory.activations = static_cast<double>(memory.plan.bytes);
  memory.workspace = static_cast<double>(prepare_layers(experiment.graph, memory.plan, micro_batch));
  return memory;
}

}  // namespace lockstep
