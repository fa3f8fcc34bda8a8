// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "comm/make_all_reduce.hpp"
#include "comm/node_all_reduce.hpp"

namespace lockstep {
namespace {

using BetweenNodes = ParallelConfig::BetweenNodes;

/// Below this, latency decides, and fewer messages win; above, all but the tree move the same bytes.
constexpr std::int64_t short_message = 256 * 1024;
/// More leaders than this do not make a network faster.
constexpr int most_leaders = 4;

/// Sums short stretches in one way and long ones in another.
class BySize final : public AllReduce {
 public:
  BySize(std::int64_t shortest_long, std::unique_ptr<AllReduce> few, std::unique_ptr<AllReduce> many)
      : shortest_long_(shortest_long), few_(std::move(few)), many_(std::move(many)) {}

  void start(std::int64_t first, std::int64_t count) override {
    running_ = count < shortest_long_ ? few_.get() : many_.get();
    running_->start(first, count);
  }
  bool advance() override { return running_->advance(); }

 private:
  std::int64_t shortest_long_;
  std::unique_ptr<AllReduce> few_, many_;
  AllReduce* running_ = nullptr;
};

class Maker {
 public:
  Maker(const ParallelConfig& config, const Topology& topology, const std::optional<NodeMemory>& memory,
        const Summands& summands)
      : config_(config), topology_(topology), memory_(memory), summands_(summands) {}

  std::unique_ptr<AllReduce> make() const {
    switch (config_.all_reduce) {
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

 private:
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
    return std::make_unique<BySize>(short_message / static_cast<std::int64_t>(size_of(summands_.dtype)),
                                    peers(PeerAlgorithm::halving_doubling, ranks, node_of),
                                    peers(PeerAlgorithm::ring, ranks, node_of));
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
