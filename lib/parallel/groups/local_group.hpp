// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/topology.hpp"
#include "core/tensor.hpp"
#include "data/batch/batch_partition.hpp"
#include "parallel/config/local_config.hpp"

namespace lockstep {

/// Throws KeyError (parallel.local.node_every) if groups of a node are to synchronize and a group has ranks on several
/// nodes. `node_of`: the node of each rank.
void check_local_groups(const LocalConfig& config, std::span<const int> node_of);

/// One of the groups of ranks that train by themselves (parallel.local).
struct LocalGroup {
  /// Returns this rank's group. Throws what check_local_groups does, on all ranks. Collective.
  LocalGroup(const LocalConfig& config, const Topology& all);

  /// The part of a batch that this group trains on: the shares of its ranks, if all ranks divide the batch and are
  /// counted group by group.
  RankShare part_of(std::int64_t batch) const;

  Topology all;
  Topology ranks;                     ///< those of this group
  std::vector<std::int64_t> numbers;  ///< of this group's ranks, among all
  int number = 0, count = 1;          ///< number of this group, by first ranks; number of groups
  std::int64_t ranks_before = 0;      ///< number of ranks in the groups before it
  bool are_equal = true;              ///< all groups have equally many ranks
};

/// The weight of a rank's parameters where groups of ranks synchronize: its share of the examples that they have
/// trained on.
///
/// With m_g the examples that group g has trained on since its last synchronization of any kind, and n_N those of all
/// groups of node N since the last synchronization of all, the average of a node is Σ m_g x_g / Σ m_g over its groups.
/// The average of all groups has the weights (m_g / Σ m_g of g's node) · n_N / Σ n_N: it is the average of the nodes'
/// averages.
class AveragingWeights {
 public:
  /// `node` are the ranks that also synchronize by themselves; none: they do not.
  AveragingWeights(const Communicator& ranks, const std::optional<Communicator>& node);

  /// Adds this rank's share of the examples in its group's step; nothing if `left_out`, in device memory, is not 0.
  void add(const ExecSpace& space, double examples, const std::int32_t* left_out);
  /// Examples added since the last synchronization. Waits for the device.
  double examples(const ExecSpace& space) const { return f64_on_host(space, trained_.get()); }
  void forget(const ExecSpace& space);

  /// Returns this rank's weight in sums over the node, none if no group of the node has trained, and begins a new
  /// count. Collective over the node.
  std::optional<double> take_in_node(const ExecSpace& space);
  /// Returns this rank's weight in sums over all ranks, none if no group has trained, and begins a new count.
  /// Collective.
  std::optional<double> take(const ExecSpace& space);

 private:
  Communicator ranks_;
  std::optional<Communicator> node_;
  OwnedTensor trained_;          // f64 [1]
  double examples_of_node_ = 0;  ///< since the last synchronization of all, as of the node's last one
};

}  // namespace lockstep
