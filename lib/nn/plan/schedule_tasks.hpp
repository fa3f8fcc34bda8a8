// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/plan/step_plan.hpp"

namespace lockstep {

/// The forward pass as segments. A layer that needs statistics of all examples before its output exists parts
/// what comes before it from what comes after it; between two such barriers, neighbours whose data
/// are large beside their weights run together, a chunk of examples at a time. Of the first `nodes` of the graph.
std::vector<Segment> schedule_forward(const Graph& graph, std::size_t nodes, const std::vector<int>& owner, DType dtype,
                                      std::int64_t max_batch, Purpose purpose);

/// The StepPlan::tile_rows with which a tile has about `bytes`; 0 where the last layer cannot run so, or there would be
/// few tiles.
std::int64_t choose_tile_rows(const Graph& graph, DType dtype, std::int64_t max_batch, std::size_t bytes);

/// The backward pass: the mirror image.
std::vector<Segment> schedule_backward(const Graph& graph, const std::vector<Segment>& forward);

/// StepPlan::final_from. `tiled`: the last layer has no tasks, and has its gradients when the pass begins.
std::vector<std::size_t> final_nodes(const Graph& graph, const std::vector<Segment>& backward, bool tiled);

}  // namespace lockstep
