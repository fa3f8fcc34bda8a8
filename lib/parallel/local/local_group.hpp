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

namespace lockstep {

/// The group of ranks that does steps together with this rank, where groups step by themselves.
class LocalGroup {
 public:
  /// `group` are the ranks of this rank's group, out of `all`. `partition` divides batches among all ranks. Collective.
  LocalGroup(const Communicator& all, const Communicator& group, const BatchPartition& partition);

  const Communicator& ranks() const { return ranks_; }
  /// Numbers of the group's ranks among all ranks.
  std::span<const std::int64_t> numbers() const { return numbers_; }
  int size() const { return ranks_.size(); }
  /// Number of this group, and number of groups.
  int number() const { return number_; }
  int count() const { return count_; }
  const BatchPartition& partition() const { return partition_; }
  /// Number of examples of this group in a batch of `of_batch`.
  std::int64_t examples(std::int64_t of_batch);

 private:
  Communicator ranks_;
  std::vector<std::int64_t> numbers_;
  int number_, count_;
  BatchPartition partition_;
  std::int64_t of_batch_ = 0, examples_ = 0;  ///< last argument and result of examples()
};

/// The weight of a rank's numbers where groups of ranks synchronize: its share of the examples that they have stepped
/// on.
///
/// With m_g the examples that group g has stepped on since its last synchronization of any kind, and n_N those of all
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
  double examples(const ExecSpace& space) const { return f64_on_host(space, stepped_.get()); }
  void forget(const ExecSpace& space);

  /// Returns this rank's weight in sums over the node, none if no group of the node has stepped, and begins a new
  /// count. Collective over the node.
  std::optional<double> take_in_node(const ExecSpace& space);
  /// Returns this rank's weight in sums over all ranks, none if no group has stepped, and begins a new count.
  /// Collective.
  std::optional<double> take(const ExecSpace& space);

 private:
  Communicator ranks_;
  std::optional<Communicator> node_;
  OwnedTensor stepped_;          // f64 [1]
  double examples_of_node_ = 0;  ///< since the last synchronization of all, as of the node's last one
};

}  // namespace lockstep
