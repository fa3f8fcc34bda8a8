// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"
#include "nn/parameters/parameter_layout.hpp"
#include "parallel/compression/compressed_bucket.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/sharded_state.hpp"

namespace lockstep {

/// What a compression needs to know of the run.
struct CompressionBasis {
  std::uint64_t seed = 0;  ///< of what is drawn
  Momentum momentum = {};  ///< of the optimizer
};

/// What one of the places that compress (Compression) has for it, in bytes.
struct CompressionMemory {
  double left_over = 0;  ///< errors, velocities and Q, which checkpoints hold
  double buffers = 0;    ///< messages, and what is worked on
};
/// `places`: of the run; fewer than two compress nothing.
CompressionMemory compression_memory(const ParallelConfig& config, const ParameterLayout& layout, int places);

/// What a run with parallel.compress has beside others: how gradients are cut into buckets and summed, and what steps
/// leave to the next ones. What a node's ranks sum in their memory is exact; what travels between nodes, or between
/// ranks that share no memory, is compressed (compressed_sum.hpp), once for each node: such a place has an error.
class Compression {
 public:
  /// `memory`: of the node's gradients, where its ranks share any. Collective.
  Compression(const ParallelConfig& config, const Topology& ranks, const std::optional<NodeMemory>& memory,
              const ParameterLayout& layout, const CompressionBasis& basis);

  /// The buckets of what is trained, which begin with tensors.
  std::vector<Stretch> stretches() const;
  /// Whether these have the optimizer's momentum in them, so that it is to add none.
  bool applies_momentum() const { return places_ > 0 && config_.corrects_momentum(); }
  /// Their sum in the flat buffer of gradients of the host. Collective.
  std::unique_ptr<Collective> make_sum(const ReduceBuffer& gradients);
  /// `examples`: of all ranks.
  void begin_step(std::int64_t number, std::int64_t examples) {
    step_.number = number;
    step_.examples = static_cast<double>(examples);
  }

  /// Sets errors, velocities and all Q to 0.
  void forget(const ExecSpace& space) const;
  /// Adds the errors and the velocities of all places, and all Q.
  void add_sharded_states(std::vector<ShardedState>& numbers) const;
  /// All ranks get Q of rank 0. Collective.
  void share(const ExecSpace& space) const;

 private:
  template <class T>
  std::unique_ptr<Collective> between_places(const Communicator& places, const ReduceBuffer& gradients);

  CompressConfig config_;
  const Algorithm* between_nodes_;  ///< of exact sums; null: what is fastest
  Topology ranks_;
  std::optional<NodeMemory> memory_;
  StepFacts step_;
  Momentum momentum_;
  std::vector<CompressedBucket> buckets_;
  SharedLayout trained_, thin_layout_;
  int places_, place_ = -1;          ///< that have errors; that of this rank, if it has any
  OwnedTensor errors_, velocities_;  ///< like the flat buffer
  OwnedTensor thin_;                 ///< all Q, one after the other
};

}  // namespace lockstep
