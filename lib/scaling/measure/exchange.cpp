// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/duration.hpp"
#include "base/error.hpp"
#include "comm/collective/make_all_reduce.hpp"
#include "comm/spin_backoff.hpp"
#include "comm/topology.hpp"
#include "comm/transport.hpp"
#include "scaling/measure/measure_machine.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t small = 64, large = 4 << 20;  // bytes of a message
constexpr std::int64_t beyond_caches = 32 << 20;     // bytes of each rank's gradients

/// Seconds of one call on the slowest rank, as the median of several batches of calls.
double slowest_rank(const Communicator& comm, const std::function<void()>& call, double seconds) {
  const auto run = [&](std::int64_t times) {
    comm.barrier();
    const Timer timer;
    for (std::int64_t i = 0; i < times; ++i) call();
    return comm.all_reduce_max(timer.seconds());
  };
  constexpr std::size_t batches = 7;
  const auto times = std::clamp<std::int64_t>(static_cast<std::int64_t>(seconds / batches / std::max(1e-8, run(3) / 3)),
                                              1, 10'000);
  std::vector<double> of_batches;
  for (std::size_t i = 0; i < batches; ++i) of_batches.push_back(run(times) / static_cast<double>(times));
  std::ranges::sort(of_batches);
  return of_batches[batches / 2];
}

/// Exchanges of messages between each rank and its peer, as in a round of an all-reduce. A rank without a peer (-1)
/// waits.
LinkSpeed exchange_speed(const Communicator& comm, Transport& transport, int peer) {
  std::vector<std::byte> out(static_cast<std::size_t>(large)), in(out.size());
  const auto seconds = [&](std::int64_t bytes) {
    return slowest_rank(
        comm,
        [&] {
          if (peer < 0) return;
          transport.receive(peer, in.data(), static_cast<std::size_t>(bytes));
          transport.send(peer, out.data(), static_cast<std::size_t>(bytes));
          wait_until([&] { return transport.received() && transport.sent(); });
        },
        0.3);
  };
  const double first = seconds(small), last = seconds(large);
  return {.latency_us = 1e6 * first,
          .bandwidth_gbps = 1e-9 * static_cast<double>(large - small) / std::max(1e-9, last - first)};
}

/// Sums over these ranks, which are one node, in shared memory. The gradients are no longer in the caches, as after a
/// pass through a whole model. The update takes longer to read a sum than to read its own numbers (other cores have
/// written it, and shared memory has small pages); that difference counts as part of the sum.
LinkSpeed node_sum_speed(const Communicator& comm, const Topology& node) {
  const std::optional<NodeMemory> memory = NodeMemory::make(node.all, static_cast<std::size_t>(beyond_caches));
  if (!comm.every_rank(memory.has_value())) return {.latency_us = 1, .bandwidth_gbps = 1};
  void* const gradients = memory->part(node.all.rank());
  const auto sum = make_all_reduce({.all_reduce = find_algorithm("hierarchical")}, {}, node, memory,
                                   {DType::f32, gradients});
  const std::vector<std::byte> own(static_cast<std::size_t>(beyond_caches));
  std::vector<std::byte> read(own.size());
  const auto seconds = [&](std::int64_t bytes) {
    const double summed = slowest_rank(
        comm,
        [&] {
          sum->start(0, bytes / static_cast<std::int64_t>(sizeof(float)));
          wait_until([&] { return sum->advance(); });
          std::memcpy(read.data(), gradients, static_cast<std::size_t>(bytes));
        },
        0.3);
    const auto read_own = [&] { std::memcpy(read.data(), own.data(), static_cast<std::size_t>(bytes)); };
    return std::max(0.0, summed - slowest_rank(comm, read_own, 0.3));
  };
  const double first = seconds(small), last = seconds(beyond_caches);
  return {.latency_us = 1e6 * first,
          .bandwidth_gbps = 1e-9 * static_cast<double>(beyond_caches - small) / std::max(1e-9, last - first)};
}

/// Rate at which a core adds a message that has arrived to its own numbers.
double adding_gbps(const Communicator& comm) {
  std::vector<float> own(1 << 18, 1.0f), other(own.size(), 1.0f);
  const double seconds = slowest_rank(
      comm,
      [&] {
        for (std::size_t i = 0; i < own.size(); ++i) own[i] += other[i];
        other[0] = own[1];  // keeps the compiler from removing the sums
      },
      0.2);
  return 1e-9 * static_cast<double>(own.size() * sizeof(float)) / seconds;
}

/// Rate at which rank 0 writes a file, including the time until it is on disk.
double disk_gbps(const Communicator& comm, const std::filesystem::path& folder) {
  double gbps = 0;
  comm.run_collectively([&] {
    if (!comm.is_root()) return;
    const std::vector<char> block(64 << 20);
    const std::string name = (folder / fmt::format("lockstep-bench-{}.tmp", ::getpid())).string();
    std::FILE* const file = std::fopen(name.c_str(), "wb");
    validate(file != nullptr, ExitStatus::cannot_create,
             "{}: cannot be created; save the machine in a folder that exists", name);
    const Timer timer;
    const bool written = std::fwrite(block.data(), 1, block.size(), file) == block.size() && std::fflush(file) == 0 &&
                         ::fsync(::fileno(file)) == 0;
    gbps = 1e-9 * static_cast<double>(block.size()) / timer.seconds();
    std::fclose(file);
    std::filesystem::remove(name);
    validate(written, ExitStatus::io_error, "{}: cannot be written (is the disk full?); save the machine elsewhere",
             name);
  });
  return gbps;
}

}  // namespace

void measure_exchange(const Communicator& comm, const std::string& save, Machine& machine) {
  const Topology topology(comm);
  const auto transport = make_transport(comm);
  const int node = topology.node_of[static_cast<std::size_t>(comm.rank())];
  const auto number_in_node = [&](int rank) {
    return std::count(topology.node_of.begin(), topology.node_of.begin() + rank,
                      topology.node_of[static_cast<std::size_t>(rank)]);
  };
  const auto rank_at = [&](int of_node, std::int64_t number) {
    for (int rank = 0; rank < comm.size(); ++rank)
      if (topology.node_of[static_cast<std::size_t>(rank)] == of_node && number_in_node(rank) == number) return rank;
    return -1;
  };
  const std::int64_t number = number_in_node(comm.rank());
  machine.ranks_per_node = topology.node.size();
  // Pairs of neighbours exchange messages, all at the same time.
  const bool has_pairs = topology.smallest > 1, has_nodes = topology.nodes > 1;
  if (has_pairs) machine.node = exchange_speed(comm, *transport, rank_at(node, number ^ 1));
  if (has_nodes) {
    const int peer = rank_at(node ^ 1, number);
    machine.network = exchange_speed(comm, *transport, number == 0 ? peer : -1);
    const auto ranks = static_cast<double>(topology.smallest);
    if (topology.smallest > 1) {
      const double together = ranks * exchange_speed(comm, *transport, peer).bandwidth_gbps;
      if (together < 0.9 * ranks * machine.network.bandwidth_gbps) machine.node_gbps = together;
    }
  }
  // A link that these ranks do not have is assumed to be as fast as the other.
  if (!has_pairs) machine.node = machine.network;
  if (!has_nodes) machine.network = machine.node;
  machine.sum = node_sum_speed(comm, Topology(topology.node));
  machine.reduce_gbps = adding_gbps(comm);
  if (!save.empty()) machine.disk_gbps = disk_gbps(comm, std::filesystem::path(save).parent_path());
}

}  // namespace lockstep
