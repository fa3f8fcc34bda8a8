// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/graph.hpp"
#include "parameters/unshard_plan.hpp"

namespace lockstep {

/// One call of a layer.
struct Task {
  enum class Kind {
    forward,
    accumulate_statistics,
    recompute,  ///< in the backward pass, for an output that was not kept
    accumulate_gradient_statistics,
    backward,
  };
  Kind kind;
  int node;
  int sum = -1;  ///< node of an addition that the task also computes, since the layer reads it; -1: none
};

/// Tasks that run one after the other for `chunk` examples, then for the next ones: what one layer writes is still in
/// the cache when the next layer reads it, and data that no other segment reads never leaves the cache. After the last
/// chunk, the statistics of the segment's layers are finalized.
struct Segment {
  std::vector<Task> tasks;
  std::int64_t chunk = 0;
};

/// A tensor's position in the arena.
struct Allocation {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t offset = none;
  bool whole = true;  ///< true: has room for all examples; false: only for the current chunk

  explicit operator bool() const { return offset != none; }
};

/// The tasks of a step and the arena positions of all its data, planned from the graph before the first step.
struct ExecutionPlan {
  std::vector<Segment> forward, backward;
  /// First node from which on all gradients are final, in the order of the flat buffer: [0] applies before the backward
  /// pass, [s + 1] after its segment s.
  std::vector<std::size_t> final_from;
  std::vector<int> owner;  ///< for each node: the node whose memory holds its output, or GraphNode::data
  // For each node that owns its output: memory of the output, of its recomputed copy and of its gradient; `none` if it
  // has none.
  std::vector<Allocation> output, recomputed_output, gradient;
  std::vector<Allocation> saved, recomputed_saved;  ///< what a layer keeps from forward (or recompute) to backward
  /// Where node i stores the gradient of input k if another layer has stored one before; it is then added to the
  /// owner's gradient. None: the node writes to the owner's gradient itself.
  std::vector<std::vector<Allocation>> staging;
  std::vector<bool> adds_gradient;   ///< true if node i itself adds to the gradient of its first input
  std::vector<bool> needs_gradient;  ///< see Graph::needs_gradient
  /// Not 0: the last layer has no tasks. It runs forward and backward, with the loss in between, for this many rows
  /// (vectors of the output) at a time, so that the whole output never exists; its `output` has room for these rows
  /// only.
  std::int64_t tile_rows = 0;
  std::size_t bytes = 0;

  /// True if `task` of `graph` writes the gradient of its layer's input k.
  bool writes_gradient(const Graph& graph, const Task& task, std::size_t k) const;

  /// Bytes between the parts of `saved` that belong to neighbouring examples.
  static std::size_t saved_stride(const GraphNode& node);
};

enum class Purpose { inference, training };
/// Whether all activations that the backward pass needs are kept from the forward pass, or only those between blocks of
/// layers, from which the others are recomputed bit for bit (Chen et al., "Training deep nets with sublinear memory
/// cost", 2016).
enum class Checkpointing { none, blocks };
ExecutionPlan plan_step(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose,
                        Checkpointing checkpointing = Checkpointing::none, std::int64_t tile_rows = 0);

/// Number of rows in the output of n examples.
inline std::int64_t output_rows(const Graph& graph, std::int64_t n) { return n * graph.output_shape().rows(); }

/// Plans as few windows as suffice for each unit to be present before it is used, together with the `prefetch` units
/// after it, and for gradients of one unit to be reduced while those of the next are computed.
UnshardPlan plan_windows(const Graph& graph, const ParameterLayout& layout, const ExecutionPlan& plan,
                         const ParameterDivision& division);

// The parts of plan_step that choose segments and tiles (schedule_tasks.cpp).

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
