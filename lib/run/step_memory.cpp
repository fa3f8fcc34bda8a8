// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run/step_memory.hpp"

#include <algorithm>

#include "parallel/deterministic_reducer.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {

StepMemory step_memory(const RunConfig& config, Experiment& experiment, int ranks) {
  const std::int64_t global = std::min(config.batch.largest(), experiment.data.train->size());
  const BatchPartition partition = batch_partition(config, experiment.graph, ranks);
  const std::int64_t share = partition.largest_share(global), micro_batch = partition.largest_micro_batch(global);
  StepMemory memory{.plan = plan_model(experiment.graph, model_options(config, micro_batch, Purpose::training))};
  const Graph& graph = experiment.graph;
  const DType type = config.dtype(), master = master_dtype(type);
  const ParameterLayout layout(graph, type);
  const bool divides = config.parallel.shard != ParallelConfig::Shard::none && ranks > 1;
  const ParameterWindows windows = plan_windows(graph, layout, memory.plan,
                                                parameter_division(config.parallel, ranks, false));
  const auto master_bytes = static_cast<double>(size_of(master));
  const double owned = divides ? static_cast<double>(layout.trained_size()) / ranks : 0;
  const auto seen = static_cast<double>(windows.value_count(layout));
  memory.parameters = (seen + (windows.division.values ? owned : 0)) * master_bytes;
  memory.rounded = type == master ? 0 : seen * static_cast<double>(size_of(type));
  memory.gradients = master_bytes *
                     (static_cast<double>(windows.gradient_count(layout)) + (windows.division.gradients ? owned : 0));
  if (partition.separate)
    memory.gradients *= static_cast<double>(1 +
                                            DeterministicReducer::buffers(config.parallel.deterministic.shards, ranks));
  for (const std::string& state : config.optimizer.state_names())
    for (const Parameter& part : config.optimizer.state_layout(state, layout.parameters()))
      memory.states += static_cast<double>(part.range.count) * master_bytes;
  if (divides) memory.states /= ranks;
  memory.checkpoint = (windows.division.values ? owned * master_bytes : memory.parameters) + memory.states;
  const ExampleFormat& format = experiment.data.train->format();
  memory.batches = static_cast<double>(micro_batch * graph.input_shape().count()) * static_cast<double>(size_of(type)) +
                   static_cast<double>(share) * 3.0 * static_cast<double>(format.input_bytes() + format.target_bytes());
  memory.activations = static_cast<double>(memory.plan.bytes);
  memory.workspace = static_cast<double>(prepare_layers(experiment.graph, memory.plan, micro_batch));
  return memory;
}

}  // namespace lockstep
