// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "nn/step_plan.hpp"

namespace lockstep {

/// The forward pass as segments. A layer that needs statistics of all examples before its output exists parts
/// what comes before it from what comes after it; between two such barriers, neighbours whose data
/// are large beside their weights run together, a chunk of examples at a time.
std::vector<Segment> schedule_forward(const Graph& graph, const std::vector<int>& owner, DType dtype,
                                      std::int64_t max_batch, Purpose purpose);

/// The backward pass: the mirror image.
std::vector<Segment> schedule_backward(const Graph& graph, const std::vector<Segment>& forward);

}  // namespace lockstep
