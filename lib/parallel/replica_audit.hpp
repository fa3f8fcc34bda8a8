// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "nn/parameter_buffer.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// Compares what all ranks must hold alike, bit for bit: parameters, statistics, and, unless each rank has a part of
/// it, the optimizer's state. They part when memory or an arithmetic unit fails, or somebody changes them on some ranks
/// only.
class ReplicaAudit {
 public:
  /// `states`: whether the optimizer's are alike, where ranks have all of them.
  enum class States { alike, own };
  ReplicaAudit(const Communicator& comm, const ParameterBuffer& parameters, const Optimizer& optimizer,
               States states = States::alike);

  /// Throws SharedError(internal) on all ranks when any differs: it names the ranks, their hosts, and the first
  /// parameter. Collective.
  void compare(const ExecSpace& space, std::int64_t step);

 private:
  /// A stretch that is hashed by itself.
  struct Part {
    std::string name;
    Tensor values;
    OffloadedState offloaded = {};  ///< where they are instead, if anywhere, from element
    std::int64_t first = 0;
  };

  std::uint64_t hash(const ExecSpace& space, const Part& part);
  [[noreturn]] void report(const std::vector<std::int64_t>& of_ranks, std::int64_t step) const;

  const Communicator& comm_;
  std::vector<Part> parts_;
  std::vector<std::uint64_t> hashes_;  ///< of them
  std::vector<std::byte> staging_;     ///< of a piece, or of the largest part, where the host cannot read it in place
};

}  // namespace lockstep
