// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "nn/parameters/parameter_buffer.hpp"
#include "optim/optimizer.hpp"

namespace lockstep {

/// Compares what ranks must hold alike, bit for bit: parameters, statistics, and the optimizer's state. They part when
/// memory or an arithmetic unit fails, or somebody changes them on some ranks only. Of what ranks divide, those are
/// compared that own the same.
class ReplicaAudit {
 public:
  /// `states`: whether the optimizer's are alike, where ranks have all of them.
  enum class States { alike, own };
  /// `same_part`: the ranks that own what this one does, where they divide what is trained; null: nobody else does.
  /// `other_cause`: what beside a fault may have made them differ, for the message. Collective.
  ReplicaAudit(const Communicator& all, const Communicator* same_part, const ParameterBuffer& parameters,
               const Optimizer& optimizer, States states = States::alike, std::string other_cause = "");

  /// Whether any rank has what another one must have, too.
  bool compares_anything() const { return compares_anything_; }
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
  /// What some ranks hold alike.
  struct Replicas {
    Communicator ranks;
    std::vector<std::int64_t> numbers;  ///< theirs, among all
    std::vector<Part> parts = {};
    std::vector<std::uint64_t> hashes = {};  ///< of them
  };

  static void add_whole(const ParameterBuffer& parameters, const Optimizer& optimizer, States states,
                        std::vector<Part>& parts);
  static void add_owned(const ParameterBuffer& parameters, const Optimizer& optimizer, std::vector<Part>& parts);
  std::uint64_t hash(const ExecSpace& space, const Part& part);
  /// What is wrong with them; empty: nothing. Collective over their ranks.
  std::string complaint(const ExecSpace& space, Replicas& replicas, std::int64_t step);
  std::string report(const Replicas& replicas, const std::vector<std::int64_t>& of_ranks, std::int64_t step) const;

  Communicator all_;
  std::vector<Replicas> replicas_;  ///< all ranks, and then those that own the same
  std::string other_cause_;
  bool compares_anything_ = false;
  std::vector<std::byte> staging_;  ///< of a piece, or of the largest part, where the host cannot read it in place
};

}  // namespace lockstep
