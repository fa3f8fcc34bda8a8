// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "optim/optimizer.hpp"
#include "parameters/parameter_buffer.hpp"

namespace lockstep {

/// Compares, bit for bit, what ranks must hold alike: parameters, statistics, and the optimizer's state. They become
/// different if memory or an arithmetic unit fails, or if they are changed on some ranks only. Of what ranks divide,
/// ranks that own the same are compared.
class ReplicaAudit {
 public:
  /// Whether the optimizer's states are alike, if each rank has all of them.
  enum class States { alike, own };
  /// `same_part` are the ranks that own what this one does, if ranks divide what is trained; null: no other rank does.
  /// `other_cause`, for the message, is what besides a fault may have made ranks differ. Collective.
  ReplicaAudit(const Communicator& all, const Communicator* same_part, const ParameterBuffer& parameters,
               const Optimizer& optimizer, States states = States::alike, std::string other_cause = "");

  /// Whether any rank holds something that another rank must hold, too.
  bool compares_anything() const { return compares_anything_; }
  /// Throws SharedError(internal) on all ranks if anything differs. The message names the ranks, their hosts, and the
  /// first parameter that differs. Collective.
  void compare(const ExecSpace& space, std::int64_t step);

 private:
  /// A range that is hashed by itself.
  struct Part {
    std::string name;
    Tensor values;
    OffloadedState offloaded = {};  ///< where the values are instead, if anywhere, from element `first` on
    std::int64_t first = 0;
  };
  /// What some ranks hold alike.
  struct Replicas {
    Communicator ranks;
    std::vector<std::int64_t> numbers;  ///< of these ranks, among all
    std::vector<Part> parts = {};
    std::vector<std::uint64_t> hashes = {};  ///< of the parts
  };

  static void add_whole(const ParameterBuffer& parameters, const Optimizer& optimizer, States states,
                        std::vector<Part>& parts);
  static void add_owned(const ParameterBuffer& parameters, const Optimizer& optimizer, std::vector<Part>& parts);
  std::uint64_t hash(const ExecSpace& space, const Part& part);
  /// Returns what is wrong with the replicas, or an empty string. Collective over their ranks.
  std::string complaint(const ExecSpace& space, Replicas& replicas, std::int64_t step);
  std::string report(const Replicas& replicas, const std::vector<std::int64_t>& of_ranks, std::int64_t step) const;

  Communicator all_;
  std::vector<Replicas> replicas_;  ///< of all ranks, and then of those that own the same
  std::string other_cause_;
  bool compares_anything_ = false;
  std::vector<std::byte> staging_;  ///< for a piece, or for the largest part, that the host cannot read in place
};

}  // namespace lockstep
