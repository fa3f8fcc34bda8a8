// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "core/host_mirror.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/buckets.hpp"
#include "parallel/sharded/node_barrier.hpp"

namespace lockstep {

/// Gathers parameters that no rank holds as a whole: before layers need those of a unit, the unit's owners send them to
/// all ranks' windows; those of the next units travel while layers compute. What is still there from the pass before
/// does not travel again. The ranks of a node may share their windows.
class ParameterUnsharder {
 public:
  /// The buffers of `parameters`, which must outlive this object, lie in `memory`. Collective.
  ParameterUnsharder(const ParallelConfig& config, const Topology& topology, const ParallelMemory& memory,
                     ParameterBuffer& parameters, const std::vector<ElementRange>& buckets);

  /// After a failure, waits for values that are on their way into windows, whose memory goes with its owner.
  ~ParameterUnsharder();
  ParameterUnsharder(const ParameterUnsharder&) = delete;
  ParameterUnsharder& operator=(const ParameterUnsharder&) = delete;

  /// Says that what this rank owns goes on changing after `forget`, and is new when `own` says so; null: it is new at
  /// `forget`.
  void follow(ParameterArrival* own) { own_ = own; }
  /// Call before layers of this time run: returns when their parameters are there. Collective.
  void enter(const ExecSpace& space, int time);
  /// Call on all ranks when the values have changed.
  void forget();
  /// Waits until all ranks of this node have come here. Collective over the node.
  void wait_for_node() { node_barrier_.wait(); }
  /// Seconds that the step has waited since the last call.
  double take_exposed_seconds();

 private:
  struct Unit {
    std::vector<ElementRange> buckets;
    std::vector<ElementRange> owned;
  };

  void advance(const ExecSpace& space);
  void start_own(const ExecSpace& space, std::size_t unit);
  void put_own(const ExecSpace& space, std::size_t unit);
  bool has_own() const;
  void round(const ExecSpace& space, std::size_t unit);

  ParameterBuffer& parameters_;
  HostMirror windows_;  ///< in which parameters are gathered
  Communicator node_;
  std::unique_ptr<Collective> gather_;
  NodeBarrier node_barrier_;  ///< of ranks that share their windows
  std::vector<Unit> units_;
  UnitsInWindows here_;
  ParameterArrival* own_ = nullptr;
  std::deque<std::size_t> on_their_way_;  ///< units; stage_ and bucket_ are of the first of them
  enum class Stage { begins, waits_for_window, own_arrives, travels, is_rounded } stage_ = Stage::begins;
  std::size_t bucket_ = 0;  ///< bucket that is being gathered
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
