// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "comm/collective/node_all_reduce.hpp"
#include "comm/spin_backoff.hpp"
#include "core/host_memory.hpp"
#include "nn/pass_hooks.hpp"
#include "parallel/parallel_memory.hpp"
#include "parallel/reducers/gradient_reducer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Lets the ranks of a node that share memory wait for each other in it; no barrier at all where they share none.
class NodeBarrier {
 public:
  /// `flags`: of the ranks that share memory; none: they share none. Collective over them.
  explicit NodeBarrier(const std::optional<NodeMemory>& flags)
      : barrier_(flags ? node_all_gather(*flags, 0, nullptr) : nullptr) {}

  bool is_shared() const { return barrier_ != nullptr; }
  /// Says that this rank has come here; does not wait.
  void start() {
    if (barrier_) barrier_->start(0, 0);
  }
  /// Whether all ranks have come here; does not wait.
  bool advance() { return !barrier_ || barrier_->advance(); }
  /// Waits until all ranks have come here.
  void wait() {
    start();
    wait_until([this] { return advance(); });
  }

 private:
  std::unique_ptr<Collective> barrier_;
};

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
