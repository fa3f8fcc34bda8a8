// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "train/step_graphs.hpp"

#include <utility>

#include "base/log.hpp"

namespace lockstep {

StepGraphs::Part StepGraphs::Part::of(Kind kind, const MicroBatch& micro_batch, const DeviceBatch& examples,
                                      const void* workspace) {
  return {
      kind,
      micro_batch.first,
      {examples.inputs.data, examples.targets.data, examples.mixed.others.data, examples.mixed.shares.data, workspace}};
}

void StepGraphs::begin_step(const BatchPlan& plan, bool recurs) {
  if (!are_wanted_) return;
  if (plan.examples.empty()) {  // nothing to start quickly; the graphs of other steps are kept
    is_recorded_ = false;
    return;
  }
  Size size{plan.global_examples, plan.first, plan.micro_batches};
  is_recorded_ = recurs && size == last_;
  if (is_recorded_ && size != recorded_) {
    graphs_.clear();
    recorded_ = size;
  }
  last_ = std::move(size);
}

void StepGraphs::launch(const ExecSpace& space, const Part& part, const std::function<void()>& work) {
  const auto found = graphs_.find(part);
  if (found != graphs_.end() && found->second.is_valid(space)) return found->second.launch(space);
  DeviceGraph graph(space, work);
  if (graph.failure().empty()) {
    graphs_.insert_or_assign(part, std::move(graph));
    return;
  }
  warn("steps cannot be recorded as graphs ({}): their kernels are launched one by one", graph.failure());
  graphs_.clear();
  are_wanted_ = is_recorded_ = false;
  work();
}

}  // namespace lockstep
