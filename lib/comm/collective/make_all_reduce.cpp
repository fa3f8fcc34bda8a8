// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/collective/make_all_reduce.hpp"

#include <memory>
#include <vector>

#include "comm/collective/node_all_reduce.hpp"

namespace lockstep {
namespace {

/// Runs an operation by different algorithms, depending on the number of elements.
class BySize final : public Collective {
 public:
  struct Choice {
    std::int64_t most;  ///< largest number of elements
    std::shared_ptr<Collective> collective;
  };
  /// `choices`: ordered by size; the last one is used for all larger counts.
  explicit BySize(std::vector<Choice> choices) : choices_(std::move(choices)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = choices_.back().collective.get();
    for (auto choice = choices_.rbegin(); choice != choices_.rend(); ++choice)
      if (count <= choice->most) running_ = choice->collective.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  std::vector<Choice> choices_;
  Collective* running_ = nullptr;
};

using Operation = std::unique_ptr<Collective> (*)(const Algorithm&, std::unique_ptr<Transport>, const ReduceBuffer&,
                                                  DType wire);

/// Message-based operation: the given algorithm, or if null the fastest by size.
std::unique_ptr<Collective> by_messages(Operation operation, const Communicator& ranks, const Algorithm* algorithm,
                                        const AllReduceParts& parts) {
  if (algorithm) return operation(*algorithm, make_transport(ranks), parts.buffer, parts.options.wire);
  std::vector<BySize::Choice> choices;
  for (const AllReduceRow& row : fastest_by_messages(ranks.size()))
    choices.push_back({row.up_to / static_cast<std::int64_t>(size_of(parts.buffer.dtype)),
                       operation(*row.algorithm, make_transport(ranks), parts.buffer, parts.options.wire)});
  return std::make_unique<BySize>(std::move(choices));
}

int leaders_in(const AllReduceParts& parts) {
  return parts.topology.one_node() ? 0 : leaders_of(parts.options.leaders, parts.topology.smallest);
}

/// Algorithm for ranks that share no memory; null: the fastest.
const Algorithm* named(const Algorithm* algorithm) { return sums_in_node_memory(algorithm) ? nullptr : algorithm; }

/// Operation between the leaders of the same number; null on ranks that are no leaders.
std::unique_ptr<Collective> between_leaders(Operation operation, const AllReduceParts& parts) {
  const Topology& topology = parts.topology;
  const int leaders = leaders_in(parts);
  if (leaders == 0) return nullptr;
  // All ranks that are no leaders form a group of their own, which stays unused.
  const Communicator number = topology.all.split(std::min(topology.node.rank(), leaders));
  return topology.node.rank() < leaders ? by_messages(operation, number, parts.options.between_nodes, parts) : nullptr;
}

}  // namespace

std::unique_ptr<Collective> make_all_reduce(const SumOptions& options, std::span<const AllReduceRow> measured,
                                            const Topology& topology, const std::optional<NodeMemory>& memory,
                                            const ReduceBuffer& buffer) {
  const AllReduceParts parts{topology, memory, buffer, options};
  if (options.all_reduce) return all_reduce(*options.all_reduce, parts);
  if (measured.empty()) return fastest_all_reduce(parts);
  std::vector<BySize::Choice> choices;
  for (const AllReduceRow& row : measured)
    choices.push_back(
        {row.up_to / static_cast<std::int64_t>(size_of(buffer.dtype)), all_reduce(*row.algorithm, parts)});
  return std::make_unique<BySize>(std::move(choices));
}

std::unique_ptr<Collective> hierarchical_all_reduce(const AllReduceParts& parts) {
  if (!parts.memory) return by_messages(all_reduce, parts.topology.all, nullptr, parts);
  return node_all_reduce(*parts.memory, parts.buffer.dtype, leaders_in(parts), between_leaders(all_reduce, parts));
}

std::unique_ptr<Collective> hierarchical_sum(const Topology& topology, const std::optional<NodeMemory>& memory,
                                             DType dtype, const SumBetween& between) {
  if (!memory) return between(topology.all);
  if (topology.one_node()) return node_all_reduce(*memory, dtype, 0, nullptr);
  const bool is_leader = topology.node.is_root();
  const Communicator alike = topology.all.split(is_leader ? 0 : 1);
  return node_all_reduce(*memory, dtype, 1, is_leader ? between(alike) : nullptr);
}

ShardPlace make_shard_place(const SumOptions& options, const Topology& topology,
                            const std::optional<NodeMemory>& memory) {
  if (!memory || !sums_in_node_memory(options.all_reduce))
    return ShardPlace::of_rank(topology.all.rank(), topology.all.size());
  return ShardPlace::of_node(topology, std::max(1, leaders_in({topology, memory, {}, options})));
}

std::unique_ptr<Collective> make_reduce_scatter(const SumOptions& options, const Topology& topology,
                                                const std::optional<NodeMemory>& memory, const ReduceBuffer& buffer) {
  const AllReduceParts parts{topology, memory, buffer, options};
  if (!memory || !sums_in_node_memory(options.all_reduce))
    return by_messages(reduce_scatter, topology.all, named(options.all_reduce), parts);
  return node_reduce_scatter(*memory, buffer.dtype, make_shard_place(options, topology, memory),
                             between_leaders(reduce_scatter, parts));
}

std::unique_ptr<Collective> make_all_gather(const SumOptions& options, const Topology& topology,
                                            const std::optional<NodeMemory>& flags, const ReduceBuffer& buffer) {
  SumOptions whole = options;
  whole.wire = DType::f32;
  const AllReduceParts parts{topology, flags, buffer, whole};
  if (!flags || !sums_in_node_memory(options.all_reduce))
    return by_messages(all_gather, topology.all, named(options.all_reduce), parts);
  return node_all_gather(*flags, leaders_in(parts), between_leaders(all_gather, parts));
}

std::unique_ptr<Collective> fastest_all_reduce(const AllReduceParts& parts) { return hierarchical_all_reduce(parts); }

}  // namespace lockstep
