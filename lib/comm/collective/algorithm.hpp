// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// How sums over ranks are made.
struct SumOptions {
  const Algorithm* all_reduce = nullptr;     ///< null: the fastest
  DType wire = DType::f32;                   ///< type of numbers in messages (collective.hpp)
  const Algorithm* between_nodes = nullptr;  ///< message-based algorithm of hierarchical sums; null: the fastest
  std::optional<std::int64_t> leaders;       ///< ranks of each node that sum between nodes; empty: as many as help
};

/// What an all-reduce is built from.
struct AllReduceParts {
  const Topology& topology;
  /// Memory of this node, in which this rank's part begins with the buffer; empty if ranks share no memory.
  const std::optional<NodeMemory>& memory;
  ReduceBuffer buffer;
  const SumOptions& options;
};

using Scheduler = CommSchedule (*)(int rank, int size, std::int64_t count);
using AllReduceMaker = std::unique_ptr<Collective> (*)(const AllReduceParts&);

/// An entry of the table that decks, `bench`, the simulation and the documentation use.
struct Algorithm {
  std::string_view name;  ///< name in decks
  std::string_view help;
  /// Schedules of its message-based operations; null for those that it lacks.
  Scheduler all_reduce = nullptr, reduce_scatter = nullptr, all_gather = nullptr;
  AllReduceMaker make = nullptr;  ///< creates an all-reduce that is more than a schedule
  /// True if it sends its own messages, so that wire formats and emulated networks do not apply. Equal bits on all
  /// ranks are then the library's duty; the MPI standard requires them (4.1, section 6.9.6).
  bool by_library = false;
  bool in_node_memory = false;    ///< uses AllReduceParts::memory, if there is any
  bool in_device_memory = false;  ///< sums on devices (comm/device_all_reduce.hpp), not on hosts
};

std::span<const Algorithm> algorithms();
/// Returns the entry of this name, or null.
const Algorithm* find_algorithm(std::string_view name);
/// True if the ranks of a node first sum in its shared memory, if they have any; null stands for the fastest algorithm.
bool sums_in_node_memory(const Algorithm* algorithm);
/// True if the sums can be divided among ranks (make_reduce_scatter); null stands for the fastest algorithm.
bool sums_can_be_divided(const Algorithm* algorithm);
/// Names of the algorithms that satisfy `is_wanted`, in the table's order.
std::vector<std::string_view> algorithm_names(const std::function<bool(const Algorithm&)>& is_wanted);

/// Creates this algorithm's all-reduce over all ranks of the topology, whatever options.all_reduce says. Throws
/// SharedError (bad_deck) if it is impossible here. Collective.
std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, const AllReduceParts& parts);

/// Creates a sum over ranks that share no memory. Collective over them.
using SumBetween = std::function<std::unique_ptr<Collective>(const Communicator& ranks)>;
/// Like hierarchical_all_reduce, but with `between` as the sum between nodes: over the first ranks of the nodes, or,
/// without memory, over all ranks. Collective.
std::unique_ptr<Collective> hierarchical_sum(const Topology& topology, const std::optional<NodeMemory>& memory,
                                             DType dtype, const SumBetween& between);

/// Creates the all-reduce that is fastest as far as known without measuring. Collective.
std::unique_ptr<Collective> fastest_all_reduce(const AllReduceParts& parts);

/// Sums in the memory of each node, then between nodes; by messages only if there is no memory.
std::unique_ptr<Collective> hierarchical_all_reduce(const AllReduceParts& parts);

}  // namespace lockstep
