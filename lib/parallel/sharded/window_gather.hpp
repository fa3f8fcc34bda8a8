// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/buckets.hpp"

namespace lockstep {

/// Parameters that no rank has as a whole: before layers need a unit's, its owners send them to all ranks' windows, the
/// next units' while layers compute. What is still there from the pass before does not travel again. The ranks of a
/// node may have their windows in common.
class WindowGather {
 public:
  /// `memory`: that the buffers of `parameters` lie in, which outlives this. Collective.
  WindowGather(const ParallelConfig& config, const Topology& topology, const ParallelMemory& memory,
               ParameterBuffer& parameters, const std::vector<Stretch>& buckets);

  /// After a failure values may be on their way into windows, whose memory goes with their owner.
  ~WindowGather();
  WindowGather(const WindowGather&) = delete;
  WindowGather& operator=(const WindowGather&) = delete;

  /// What this rank owns goes on changing after `forget`, and is new when `own` says so; null: it is there.
  void follow(ParameterArrival* own) { own_ = own; }
  /// Layers of this time are next: returns when their parameters are there. Collective.
  void enter(const ExecSpace& space, int time);
  /// The values have changed. Of all ranks.
  void forget();
  /// Until all ranks of this node have come here. Collective.
  void wait_for_node();
  /// Seconds that the step has waited since the last call.
  double take_exposed_seconds();

 private:
  struct Unit {
    std::vector<Stretch> buckets;
    std::vector<ParameterRange> owned;
  };

  void advance(const ExecSpace& space);
  void start_own(const ExecSpace& space, std::size_t unit);
  void put_own(const ExecSpace& space, std::size_t unit);
  bool has_own() const;
  void round(const ExecSpace& space, std::size_t unit);
  std::byte* on_host(std::int64_t element) const;

  ParameterBuffer& parameters_;
  StagingMemory staging_;  ///< of devices
  std::byte* host_;        ///< where windows are gathered
  Communicator node_;
  std::unique_ptr<Collective> gather_;
  std::unique_ptr<Collective> node_barrier_;  ///< where windows are the node's
  std::vector<Unit> units_;
  UnitsInWindows here_;
  ParameterArrival* own_ = nullptr;
  std::deque<std::size_t> on_their_way_;  ///< units; what follows is of the first of them
  enum class Stage { begins, waits_for_window, own_arrives, travels, is_rounded } stage_ = Stage::begins;
  std::size_t bucket_ = 0;  ///< that is gathered
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
