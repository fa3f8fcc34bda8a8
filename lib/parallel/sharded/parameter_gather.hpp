// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "core/host_mirror.hpp"
#include "nn/parameter_arrival.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/sharded/node_barrier.hpp"

namespace lockstep {

/// Gathers parameters of which every rank holds all and updates some: the others' new values arrive in the order in
/// which a forward pass needs them, while the pass begins.
class ParameterGather final : public ParameterArrival {
 public:
  /// The buffers of `parameters` lie in `memory`; both must outlive this object. Collective.
  ParameterGather(const ParallelConfig& config, const Topology& topology, const ParallelMemory& memory,
                  ParameterBuffer& parameters, const std::vector<ElementRange>& buckets);

  /// Says that this rank's values go on changing after `start`, and are new when `own` says so; null: they are new at
  /// `start`.
  void follow(ParameterArrival* own);
  /// Call when this rank's values are new, or on their way (follow). Begins to gather.
  void start(const ExecSpace& space);
  /// Waits until no rank of this rank's node reads or writes parameters that they share. Collective.
  void wait_for_node() { node_barrier_.wait(); }
  bool have_arrived(const ExecSpace& space, std::int64_t first) override;
  void await(const ExecSpace& space, std::int64_t first) override;
  /// Seconds that the step has waited since the last call.
  double take_exposed_seconds();

 private:
  void copy_own(const ExecSpace& space, const ElementRange& of);
  void arrive(const ExecSpace& space, const ElementRange& bucket);
  bool rounds_together() const;

  const Topology topology_;
  const ParallelMemory& memory_;
  ParameterBuffer& parameters_;
  HostMirror values_;  ///< of all parameters
  std::unique_ptr<Collective> gather_;
  NodeBarrier node_barrier_;
  const std::vector<ElementRange> buckets_;
  std::vector<ElementRange> gathered_;  ///< in one go each: buckets, or everything if the node's ranks share it
  ParameterArrival* own_ = nullptr;
  std::size_t on_their_way_ = 0;  ///< how many of gathered_, from the first on, are on their way
  bool running_ = false;          ///< whether the last of these is being gathered
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
