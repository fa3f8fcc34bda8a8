// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <vector>

#include "comm/collective/make_all_reduce.hpp"
#include "nn/parameter_arrival.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "parallel/parallel_memory.hpp"

namespace lockstep {

/// Parameters of which every rank has all, and updates some: the others' new values arrive in the order in which a
/// forward pass needs them, and while it begins.
class ParameterGather final : public ParameterArrival {
 public:
  /// `memory`: that the buffers of `parameters` lie in; both outlive this. Collective.
  ParameterGather(const ParallelConfig& config, const Topology& topology, const ParallelMemory& memory,
                  ParameterBuffer& parameters, const std::vector<Stretch>& buckets);

  /// This rank's values go on changing after `start`, and are new when `own` says so; null: they are there.
  void follow(ParameterArrival* own);
  /// This rank's values are new.
  void start(const ExecSpace& space);
  /// Until nobody of this rank's node reads or writes parameters that it shares. Collective.
  void wait_for_node();
  bool have_arrived(const ExecSpace& space, std::int64_t first) override;
  void await(const ExecSpace& space, std::int64_t first) override;
  /// Seconds that the step has waited since the last call.
  double take_exposed_seconds();

 private:
  void copy_own(const ExecSpace& space, const ParameterRange& of);
  void arrive(const ExecSpace& space, const Stretch& bucket);
  std::byte* on_host(std::int64_t first) const;
  bool rounds_together() const;

  const Topology topology_;
  const ParallelMemory& memory_;
  ParameterBuffer& parameters_;
  StagingMemory values_on_host_;  ///< where the host cannot read them in place
  std::unique_ptr<Collective> gather_, node_barrier_;
  const std::vector<Stretch> buckets_;
  std::vector<Stretch> gathered_;  ///< in one go each; buckets, or all at once where the node's ranks share them
  ParameterArrival* own_ = nullptr;
  std::size_t on_their_way_ = 0;  ///< of these, from the first on
  bool running_ = false;          ///< the last of them
  double exposed_seconds_ = 0;
};

}  // namespace lockstep
