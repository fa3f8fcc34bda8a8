// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"
#include "parallel/compression/compressed_sum.hpp"
#include "parallel/config/parallel_config.hpp"
#include "parallel/sharded_state.hpp"
#include "parameters/parameter_layout.hpp"

namespace lockstep {

/// Bytes that compression needs at one of the places that compress (see Compression).
struct CompressionMemory {
  double left_over = 0;  ///< errors and Q, which checkpoints hold
  double buffers = 0;    ///< messages and scratch memory
};
/// `places` is the number of such places in the run; fewer than two compress nothing.
CompressionMemory compression_memory(const ParallelConfig& config, const ParameterLayout& layout, int places);

/// What a run with parallel.compress has besides others: how gradients are cut into buckets and summed, and what steps
/// leave to the next ones. Sums of a node's ranks in shared memory are exact. What travels between nodes, or between
/// ranks that share no memory, is compressed (compressed_sum.hpp), once for each such node or rank, a place, which
/// keeps an error of its own.
class Compression {
 public:
  /// `memory` is that of the node's gradients, if its ranks share any; `seed` is that of random draws. Returns null,
  /// and says so, if nothing travels between places: sums are then exact. Collective.
  static std::unique_ptr<Compression> make(const ParallelConfig& config, const Topology& ranks,
                                           const std::optional<NodeMemory>& memory, const ParameterLayout& layout,
                                           std::uint64_t seed);

  /// The buckets of the trained gradients; each begins with a tensor.
  std::vector<ElementRange> buckets() const;
  /// Makes the sum of the buckets in the host's flat buffer of gradients. Collective.
  std::unique_ptr<Collective> make_sum(const ReduceBuffer& gradients);
  /// Begins step number `number`, of `examples` on all ranks.
  void begin_step(std::int64_t number, std::int64_t examples) {
    step_.number = number;
    step_.examples = static_cast<double>(examples);
  }

  /// Sets errors and all Q to 0.
  void forget(const ExecSpace& space) const;
  /// Adds what checkpoints hold: the errors of all places, and all Q.
  void add_sharded_states(std::vector<ShardedState>& numbers) const;
  /// Gives all ranks the Q of rank 0. Collective.
  void share(const ExecSpace& space) const;

 private:
  Compression(const ParallelConfig& config, const Topology& ranks, const std::optional<NodeMemory>& memory,
              const ParameterLayout& layout, std::uint64_t seed, int places);
  template <class T>
  std::unique_ptr<Collective> between_places(const Communicator& places, const ReduceBuffer& gradients);

  CompressConfig config_;
  const Algorithm* between_nodes_;  ///< of exact sums; null: the fastest
  Topology ranks_;
  std::optional<NodeMemory> memory_;
  SumFacts step_;
  std::vector<CompressedBucket> buckets_;
  SharedLayout trained_, thin_layout_;
  int places_, place_ = -1;  ///< number of places; this rank's place, or -1
  OwnedTensor errors_;       ///< laid out like the flat buffer
  OwnedTensor thin_;         ///< all Q, one after the other
};

}  // namespace lockstep
