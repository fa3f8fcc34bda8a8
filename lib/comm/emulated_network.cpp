// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/emulated_network.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "comm/transport.hpp"
#include "config/fields.hpp"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;  // the same clock in all processes of a machine

constexpr std::string_view option = "--emulate-network";

Clock::duration clock_time(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// The wires from one rank to all others, shared by all its transports, which may belong to several threads.
class Wires {
 public:
  Wires(double bandwidth_gbps, int ranks)
      : bytes_per_s_(1e9 * bandwidth_gbps), free_(static_cast<std::size_t>(ranks)) {}

  /// Returns the time at which a message sent now has left.
  Clock::time_point send(std::int64_t rank, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Clock::time_point& free = free_[static_cast<std::size_t>(rank)];
    free = std::max(free, Clock::now()) + clock_time(bytes_per_s_ > 0 ? static_cast<double>(bytes) / bytes_per_s_ : 0);
    return free;
  }

 private:
  double bytes_per_s_;
  std::mutex mutex_;
  std::vector<Clock::time_point> free_;
};

/// Delays messages: each message between nodes is accompanied by another that holds the time at which it may be seen.
class EmulatedTransport final : public Transport {
 public:
  /// `numbers`: rank numbers by which `wires` knows the ranks.
  EmulatedTransport(std::unique_ptr<Transport> data, std::unique_ptr<Transport> times, const EmulatedNetwork& network,
                    std::shared_ptr<Wires> wires, std::vector<std::int64_t> numbers)
      : data_(std::move(data)),
        times_(std::move(times)),
        network_(network),
        wires_(std::move(wires)),
        numbers_(std::move(numbers)) {}

  int rank() const override { return data_->rank(); }
  int size() const override { return data_->size(); }

  void send(int peer, const void* data, std::size_t bytes) override {
    data_->send(peer, data, bytes);
    sent_at_ = {};
    if (is_near(peer)) return;
    sent_at_ = wires_->send(numbers_[static_cast<std::size_t>(peer)], bytes);
    seen_at_there_ = (sent_at_ + clock_time(1e-6 * network_.latency_us)).time_since_epoch().count();
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
  std::int64_t node_of(int rank) const { return numbers_[static_cast<std::size_t>(rank)] / network_.ranks_per_node; }
  bool is_near(int peer) const { return node_of(peer) == node_of(rank()); }

  std::unique_ptr<Transport> data_, times_;
  EmulatedNetwork network_;
  std::shared_ptr<Wires> wires_;
  std::vector<std::int64_t> numbers_;
  Clock::time_point sent_at_{};
  Clock::rep seen_at_there_ = 0, seen_at_here_ = 0;
};

class Emulation final : public Interconnect {
 public:
  Emulation(const EmulatedNetwork& network, const Communicator& ranks)
      : network_(network),
        number_(ranks.rank()),
        wires_(std::make_shared<Wires>(network.bandwidth_gbps, ranks.size())) {}

  std::vector<std::unique_ptr<Transport>> transports(const Communicator& ranks, int count) const override {
    const std::vector<std::int64_t> numbers = ranks.all_gather(number_);
    std::vector<std::unique_ptr<Transport>> data = mpi_transports(ranks, count), times = mpi_transports(ranks, count),
                                            all;
    for (std::size_t i = 0; i < data.size(); ++i)
      all.push_back(
          std::make_unique<EmulatedTransport>(std::move(data[i]), std::move(times[i]), network_, wires_, numbers));
    return all;
  }
  Communicator node(const Communicator& ranks) const override {
    return ranks.split(static_cast<int>(number_ / network_.ranks_per_node));
  }
  std::string description() const override {
    return fmt::format("emulated: {:g} µs, {:g} GB/s", network_.latency_us, network_.bandwidth_gbps);
  }

 private:
  EmulatedNetwork network_;
  std::int64_t number_;  ///< rank number in the whole group
  std::shared_ptr<Wires> wires_;
};

struct NetworkConfig : Config {
  EmulatedNetwork network;

  void describe(Fields& fields) override {
    fields.number("latency_us", network.latency_us, not_negative, "smallest time of a message, in microseconds");
    fields.number("bandwidth_gbps", network.bandwidth_gbps, not_negative,
                  "bandwidth of each wire between two ranks, in 10^9 bytes per second (0: no limit)");
    fields.integer("ranks_per_node", network.ranks_per_node, {1, 1e6},
                   "number of ranks that share the memory of a node");
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
                fmt::format("{} {}: {}; give, for example, {} latency_us=50,bandwidth_gbps=1,ranks_per_node=1", option,
                            text, error.what(), option));
  }
}

Communicator emulate_network(const Communicator& ranks, const EmulatedNetwork& network) {
  if (ranks.on_this_node().size() != ranks.size())
    throw SharedError(
        ExitStatus::bad_usage,
        fmt::format("{} needs all ranks on one machine, but these ranks are on several; leave it out", option));
  return ranks.over(std::make_shared<Emulation>(network, ranks));
}

Communicator apply_network_option(const Communicator& ranks, const std::string& text) {
  expect_agreement(ranks, {std::string(option), text, "start all ranks with the same one", ExitStatus::bad_usage});
  if (text.empty()) return ranks;
  EmulatedNetwork network;
  ranks.run_collectively([&] { network = parse_emulated_network(text); });
  return emulate_network(ranks, network);
}

}  // namespace lockstep
