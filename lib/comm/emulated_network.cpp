// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/emulated_network.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/mpi_transport.hpp"
#include "config/fields.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;  // the same for all processes of a machine

constexpr std::string_view option = "--emulate-network";

/// Beside every message between nodes goes another one that says when it may be seen.
class EmulatedTransport final : public Transport {
 public:
  /// `node`: of each rank.
  EmulatedTransport(const Communicator& ranks, const EmulatedNetwork& network, std::vector<std::int64_t> node)
      : data_(mpi_transport(ranks)),
        times_(mpi_transport(ranks)),
        network_(network),
        node_(std::move(node)),
        free_(node_.size()) {}

  int rank() const override { return data_->rank(); }
  int size() const override { return data_->size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    data_->send(peer, data, bytes);
    sent_at_ = {};
    if (is_near(peer)) return;
    Clock::time_point& wire = free_[static_cast<std::size_t>(peer)];
    const double bytes_per_s = network_.bandwidth_gbps * 1e9;
    wire = std::max(wire, Clock::now()) + seconds(bytes_per_s > 0 ? static_cast<double>(bytes) / bytes_per_s : 0.0);
    sent_at_ = wire;
    seen_at_there_ = (wire + seconds(1e-6 * network_.latency_us)).time_since_epoch().count();
    times_->send(peer, &seen_at_there_, sizeof(seen_at_there_));
  }
  void receive(int peer, void* data, std::size_t bytes) override {
    data_->receive(peer, data, bytes);
    seen_at_here_ = 0;
    if (!is_near(peer)) times_->receive(peer, &seen_at_here_, sizeof(seen_at_here_));
  }
  bool sent() override { return data_->sent() && times_->sent() && Clock::now() >= sent_at_; }
  bool received() override {
    return data_->received() && times_->received() && Clock::now().time_since_epoch().count() >= seen_at_here_;
  }

 private:
  static Clock::duration seconds(double value) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
  }
  bool is_near(int peer) const {
    return node_[static_cast<std::size_t>(peer)] == node_[static_cast<std::size_t>(rank())];
  }

  std::unique_ptr<Transport> data_, times_;
  EmulatedNetwork network_;
  std::vector<std::int64_t> node_;
  std::vector<Clock::time_point> free_;  // when the wire to each rank is
  Clock::time_point sent_at_{};
  Clock::rep seen_at_there_ = 0, seen_at_here_ = 0;
};

class Emulation final : public Interconnect {
 public:
  Emulation(const EmulatedNetwork& network, int rank)
      : network_(network), node_(static_cast<int>(rank / network.ranks_per_node)) {}

  std::unique_ptr<Transport> transport(const Communicator& ranks) const override {
    return std::make_unique<EmulatedTransport>(ranks, network_, ranks.all_gather(node_));
  }
  Communicator node(const Communicator& ranks) const override { return ranks.split(node_); }
  std::string description() const override {
    return fmt::format("emulated: {:g} µs, {:g} GB/s", network_.latency_us, network_.bandwidth_gbps);
  }

 private:
  EmulatedNetwork network_;
  int node_;  // of this rank
};

struct NetworkConfig : Config {
  EmulatedNetwork network;

  void describe(Fields& fields) override {
    fields.number("latency_us", network.latency_us, not_negative, "least time of a message, in microseconds");
    fields.number("bandwidth_gbps", network.bandwidth_gbps, not_negative,
                  "10^9 bytes a second of each wire between two ranks; 0: without limit");
    fields.integer("ranks_per_node", network.ranks_per_node, {1, 1e6}, "ranks that share memory");
  }
};

}  // namespace

EmulatedNetwork parse_emulated_network(const std::string& text) {
  try {
    DeckNode entries{.kind = DeckNode::Kind::mapping};
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
      end = std::min(text.find(',', begin), text.size());
      apply_override(entries, text.substr(begin, end - begin));
    }
    NetworkConfig config;
    read_config(entries, config);
    return config.network;
  } catch (const Error& error) {
    throw Error(ExitStatus::bad_usage,
                fmt::format("{} {}: {}; it is as {} latency_us=50,bandwidth_gbps=1,ranks_per_node=1", option, text,
                            error.what(), option));
  }
}

Communicator emulate_network(const Communicator& ranks, const EmulatedNetwork& network) {
  if (ranks.on_this_node().size() != ranks.size())
    throw SharedError(ExitStatus::bad_usage,
                      fmt::format("{} measures on one machine, and these ranks are on several; leave it out", option));
  return ranks.over(std::make_shared<Emulation>(network, ranks.rank()));
}

Communicator apply_network_option(const Communicator& ranks, const std::string& text) {
  expect_agreement(ranks, {std::string(option), text, "start all ranks with the same one", ExitStatus::bad_usage});
  if (text.empty()) return ranks;
  EmulatedNetwork network;
  ranks.run_collectively([&] { network = parse_emulated_network(text); });
  return emulate_network(ranks, network);
}

}  // namespace lockstep
