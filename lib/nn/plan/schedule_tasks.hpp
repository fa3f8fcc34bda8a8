// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/plan/execution_plan.hpp"

namespace lockstep {

/// Plans the forward pass of the first `nodes` nodes as segments. A layer that needs the statistics of all examples
/// before its output exists is a barrier between the tasks before it and those after it. Between two barriers,
/// neighbouring layers whose data are large compared with their weights run together, one chunk of examples at a time.
std::vector<Segment> schedule_forward(const Graph& graph, std::size_t nodes, const std::vector<int>& owner, DType dtype,
                                      std::int64_t max_batch, Purpose purpose);

/// The ExecutionPlan::tile_rows for which a tile has about `bytes`; 0 if the last layer cannot run in tiles, or if
/// there would be only a few.
std::int64_t choose_tile_rows(const Graph& graph, DType dtype, std::int64_t max_batch, std::size_t bytes);

/// Plans the backward pass as the mirror image of the forward pass.
std::vector<Segment> schedule_backward(const Graph& graph, const std::vector<Segment>& forward);

/// Computes ExecutionPlan::final_from. `tiled`: the last layer has no tasks, and its gradients are final when the pass
/// begins.
std::vector<std::size_t> final_nodes(const Graph& graph, const std::vector<Segment>& backward, bool tiled);

}  // namespace lockstep
