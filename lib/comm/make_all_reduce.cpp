// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/make_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "comm/node_all_reduce.hpp"

namespace lockstep {
namespace {

using BetweenNodes = ParallelConfig::BetweenNodes;

/// Messages of a ring that is worth its many of them.
constexpr std::int64_t ring_message_bytes = 64 * 1024;
/// More leaders than this do not make a network faster.
constexpr int most_leaders = 4;

/// Sums stretches in different ways, by their size.
class BySize final : public AllReduce {
 public:
  struct Way {
    std::int64_t most;  ///< elements
    std::shared_ptr<AllReduce> sum;
  };
  /// By rising size; the last one takes whatever is left.
  explicit BySize(std::vector<Way> ways) : ways_(std::move(ways)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = ways_.back().sum.get();
    for (auto way = ways_.rbegin(); way != ways_.rend(); ++way)
      if (count <= way->most) running_ = way->sum.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  std::vector<Way> ways_;
  AllReduce* running_ = nullptr;
};

class Maker {
 public:
  Maker(const ParallelConfig& config, const Topology& topology, const std::optional<NodeMemory>& memory,
        const Summands& summands)
      : config_(config), topology_(topology), memory_(memory), summands_(summands) {}

  std::unique_ptr<AllReduce> make() const {
    if (config_.all_reduce != AllReduceKind::automatic) return make(config_.all_reduce);
    if (config_.measured.empty()) return make(AllReduceKind::hierarchical);
    std::vector<BySize::Way> ways;
    for (const auto& row : config_.measured)
      ways.push_back({row.up_to / static_cast<std::int64_t>(size_of(summands_.dtype)), make(row.kind)});
    return std::make_unique<BySize>(std::move(ways));
  }

 private:
  std::unique_ptr<AllReduce> make(AllReduceKind kind) const {
    switch (kind) {
      case AllReduceKind::mpi: return library_all_reduce(topology_.all, summands_);
      case AllReduceKind::ring: return flat(PeerAlgorithm::ring);
      case AllReduceKind::halving_doubling: return flat(PeerAlgorithm::halving_doubling);
      case AllReduceKind::tree: return flat(PeerAlgorithm::tree);
      case AllReduceKind::automatic:
      case AllReduceKind::hierarchical: break;
    }
    if (memory_) return hierarchical();
    return by_size(topology_.all, topology_.node_of);
  }

  std::unique_ptr<AllReduce> flat(PeerAlgorithm algorithm) const {
    return peers(algorithm, topology_.all, topology_.node_of);
  }

  std::unique_ptr<AllReduce> hierarchical() const {
    if (topology_.one_node()) return node_all_reduce(*memory_, summands_.dtype, 0, nullptr);
    const int leaders = static_cast<int>(
        std::min<std::int64_t>(config_.leaders.value_or(most_leaders), topology_.smallest));
    // The leaders of one number, and all others, who have nothing to say to each other.
    const Communicator number = topology_.all.split(std::min(topology_.node.rank(), leaders));
    if (topology_.node.rank() >= leaders) return node_all_reduce(*memory_, summands_.dtype, leaders, nullptr);
    std::vector<int> node_of(static_cast<std::size_t>(number.size()));
    for (std::size_t i = 0; i < node_of.size(); ++i) node_of[i] = static_cast<int>(i);
    return node_all_reduce(*memory_, summands_.dtype, leaders, between(number, node_of));
  }

  std::unique_ptr<AllReduce> between(const Communicator& ranks, const std::vector<int>& node_of) const {
    switch (config_.between_nodes) {
      case BetweenNodes::ring: return peers(PeerAlgorithm::ring, ranks, node_of);
      case BetweenNodes::halving_doubling: return peers(PeerAlgorithm::halving_doubling, ranks, node_of);
      case BetweenNodes::tree: return peers(PeerAlgorithm::tree, ranks, node_of);
      case BetweenNodes::automatic: break;
    }
    return by_size(ranks, node_of);
  }

  std::unique_ptr<AllReduce> by_size(const Communicator& ranks, const std::vector<int>& node_of) const {
    // Both move the same bytes, a ring in more messages; but of ranks that are no power of two, some send theirs twice.
    auto by_halves = peers(PeerAlgorithm::halving_doubling, ranks, node_of);
    if (std::has_single_bit(static_cast<unsigned>(ranks.size()))) return by_halves;
    const std::int64_t few = ring_message_bytes * ranks.size() / static_cast<std::int64_t>(size_of(summands_.dtype));
    return std::make_unique<BySize>(std::vector<BySize::Way>{
        {few, std::move(by_halves)},
        {std::numeric_limits<std::int64_t>::max(), peers(PeerAlgorithm::ring, ranks, node_of)}});
  }

  std::unique_ptr<AllReduce> peers(PeerAlgorithm algorithm, const Communicator& ranks,
                                   const std::vector<int>& node_of) const {
    constexpr DType wires[] = {DType::f32, DType::bf16, DType::f16};
    std::unique_ptr<Link> link = config_.emulate.present
                                     ? emulated_link(
                                           ranks, {config_.emulate.latency_us, config_.emulate.bandwidth_gbps}, node_of)
                                     : mpi_link(ranks);
    return peer_all_reduce(algorithm, std::move(link), summands_, wires[static_cast<std::size_t>(config_.wire)]);
  }

  const ParallelConfig& config_;
  const Topology& topology_;
  const std::optional<NodeMemory>& memory_;
  Summands summands_;
};

}  // namespace

std::unique_ptr<AllReduce> make_all_reduce(const ParallelConfig& config, const Topology& topology,
                                           const std::optional<NodeMemory>& memory, const Summands& summands) {
  return Maker(config, topology, memory, summands).make();
}

}  // namespace lockstep
