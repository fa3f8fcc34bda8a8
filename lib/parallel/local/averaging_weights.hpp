// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>

#include "comm/communicator.hpp"
#include "core/tensor.hpp"

namespace lockstep {

/// What a rank's numbers count where groups of ranks synchronize: its share of the examples that they have stepped on.
///
/// With m_g examples that group g has stepped on since its last synchronization of any kind, and n_N those of all
/// groups of node N since the last synchronization of all, the average of a node is Σ m_g x_g / Σ m_g over its groups,
/// and that of all groups has the weights (m_g / Σ m_g of g's node) · n_N / Σ n_N: that of all nodes' averages.
class AveragingWeights {
 public:
  /// `node`: ranks that also synchronize by themselves; none: they do not.
  AveragingWeights(const Communicator& ranks, const std::optional<Communicator>& node);

  /// This rank's share in its group's step; nothing where `left_out`, in the step's memory, is not 0.
  void add(const ExecSpace& space, double examples, const std::int32_t* left_out);
  /// All that was added since the last synchronization.
  double examples(const ExecSpace& space) const { return f64_on_host(space, stepped_.get()); }
  void forget(const ExecSpace& space);

  /// In sums over the node; none where no group of it has stepped. A new count begins. Collective over the node.
  std::optional<double> take_in_node(const ExecSpace& space);
  /// In sums over all ranks, and `learning_rate` as rank 0 has it. None where no group has stepped. Collective.
  std::optional<double> take(const ExecSpace& space, double& learning_rate);

 private:
  Communicator ranks_;
  std::optional<Communicator> node_;
  OwnedTensor stepped_;          // f64 [1]
  double examples_of_node_ = 0;  ///< since the last synchronization of all, up to that of the node
};

}  // namespace lockstep
