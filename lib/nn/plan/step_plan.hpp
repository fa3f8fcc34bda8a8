// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/graph.hpp"

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
  int sum = -1;  ///< the node of an addition that a forward task computes in the same pass, since the layer reads it
};

/// Tasks that run one after the other for `chunk` examples, then for the next ones: what one layer
/// writes is still in the cache when the next one reads it, and what nobody else reads never leaves it.
/// When all examples are done, the statistics of its layers are finalized.
struct Segment {
  std::vector<Task> tasks;
  std::int64_t chunk = 0;
};

/// A tensor's place in the arena.
struct Allocation {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::size_t offset = none;
  bool whole = true;  ///< room for all examples; otherwise for the chunk that is being computed

  explicit operator bool() const { return offset != none; }
};

/// A step as it will run, and where everything lives that it keeps, worked out from the graph before the first step.
struct StepPlan {
  std::vector<Segment> forward, backward;
  /// The node from which on all gradients are final, as the flat buffer has them: [0], before the backward pass, and
  /// [s + 1], after its segment s.
  std::vector<std::size_t> final_from;
  std::vector<int> owner;  ///< of each node: the node whose memory its output is, or GraphNode::data
  // Memory of each node that owns its output; none where there is none.
  std::vector<Allocation> output, recomputed_output, gradient;
  std::vector<Allocation> saved, recomputed_saved;  ///< what its layer keeps from forward (or recompute) to backward
  /// Where input k of node i puts its gradient when another layer has put one there before: it goes
  /// to this place, and is then added. None: straight to the owner's gradient.
  std::vector<std::vector<Allocation>> staging;
  std::vector<bool> adds_gradient;   ///< whether node i adds to its first input's gradient itself
  std::vector<bool> needs_gradient;  ///< see Graph
  /// Not 0: the last layer has no tasks. It runs, forward and backward, for so many rows (vectors of the output) at a
  /// time, with the loss of these in between, so that the whole output is never there; `output` of it is for that many.
  std::int64_t tile_rows = 0;
  std::size_t bytes = 0;

  /// Whether a backward task of `graph` writes a gradient of its layer's input k.
  bool writes_gradient(const Graph& graph, const Task& task, std::size_t k) const;

  /// Bytes from one example's part of `saved` to the next one's.
  static std::size_t saved_stride(const GraphNode& node);
};

enum class Purpose { inference, training };
/// Whether activations are kept from the forward to the backward pass, or only those between blocks of layers,
/// from which the others are computed again, bit for bit (Chen et al., "Training deep nets with sublinear memory cost",
/// 2016).
enum class Checkpointing { none, blocks };
StepPlan plan_step(const Graph& graph, DType dtype, std::int64_t max_batch, Purpose purpose,
                   Checkpointing checkpointing = Checkpointing::none, std::int64_t tile_rows = 0);

/// Rows in n examples' output.
inline std::int64_t output_rows(const Graph& graph, std::int64_t n) { return n * graph.output_shape().rows(); }

}  // namespace lockstep
