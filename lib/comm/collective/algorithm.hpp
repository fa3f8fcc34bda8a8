// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/collective/collective.hpp"
#include "comm/collective/sum_options.hpp"
#include "comm/node_memory.hpp"
#include "comm/topology.hpp"

namespace lockstep {

/// What an all-reduce is made of.
struct AllReduceParts {
  const Topology& topology;
  /// Memory of this node, whose part of this rank begins with the buffer; none: nobody shares memory.
  const std::optional<NodeMemory>& memory;
  ReduceBuffer buffer;
  const SumOptions& options;
};

using Scheduler = Schedule (*)(int rank, int size, std::int64_t count);
using AllReduceMaker = std::unique_ptr<Collective> (*)(const AllReduceParts&);

/// A line of the table that deck, bench, simulation and documents read.
struct Algorithm {
  std::string_view name;  ///< in decks
  std::string_view help;
  /// The operations that it has by messages; null: it has none.
  Scheduler all_reduce = nullptr, reduce_scatter = nullptr, all_gather = nullptr;
  AllReduceMaker make = nullptr;  ///< of an all-reduce that is more than messages
  /// Sends its messages itself: it knows neither wire formats nor emulated networks. That it leaves the same bits on
  /// all ranks is the library's to keep, of which the MPI standard demands it (4.1, section 6.9.6).
  bool by_library = false;
  bool in_node_memory = false;    ///< takes AllReduceParts::memory, where there is one
  bool in_device_memory = false;  ///< sums where kernels run (comm/device_sums.hpp), and not on hosts
};

std::span<const Algorithm> algorithms();
/// The line of this name; null: there is none.
const Algorithm* find_algorithm(std::string_view name);
/// Whether ranks of a node sum in its memory first, where they share any; null: what is fastest.
bool sums_in_node_memory(const Algorithm* algorithm);
/// Names of the algorithms that `is_wanted`, in the table's order.
std::vector<std::string_view> algorithm_names(const std::function<bool(const Algorithm&)>& is_wanted);

/// The all-reduce of a line over all ranks of the topology, whatever options.all_reduce is. Throws SharedError
/// (bad_deck) where that cannot be. Collective.
std::unique_ptr<Collective> all_reduce(const Algorithm& algorithm, const AllReduceParts& parts);

/// A sum over ranks that share no memory with each other. Collective over them.
using SumBetween = std::function<std::unique_ptr<Collective>(const Communicator& ranks)>;
/// Sums over all ranks as hierarchical_all_reduce does, but that `between` sums what others send in messages: between
/// the first ranks of the nodes, or, without memory, between all ranks. Collective.
std::unique_ptr<Collective> hierarchical_sum(const Topology& topology, const std::optional<NodeMemory>& memory,
                                             DType dtype, const SumBetween& between);

/// What is fastest, as far as that is known without measuring. Collective.
std::unique_ptr<Collective> fastest_all_reduce(const AllReduceParts& parts);

// Makers of the table.

/// The MPI library's own.
std::unique_ptr<Collective> library_all_reduce(const AllReduceParts& parts);
/// In a node's memory, then between nodes; by messages alone, where there is no memory.
std::unique_ptr<Collective> hierarchical_all_reduce(const AllReduceParts& parts);

}  // namespace lockstep
