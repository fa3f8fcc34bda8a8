// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "scaling/exchange_cost.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <unordered_map>

#include "comm/collective/all_reduce_table.hpp"

namespace lockstep {
namespace {

/// Costs of messages and of adding what they bring.
class Costs {
 public:
  Costs(const Fabric& fabric, double element_bytes, double wire_bytes)
      : fabric_(fabric), element_bytes_(element_bytes), wire_bytes_(wire_bytes) {}

  int node_of(int rank) const { return rank / fabric_.per_node; }
  bool is_near(int rank, int peer) const { return node_of(rank) == node_of(peer); }
  double latency(int rank, int peer) const {
    return 1e-6 * (is_near(rank, peer) ? fabric_.machine.node : fabric_.machine.network).latency_us;
  }
  /// Seconds on the wire, while `senders` ranks of this group send from the node to other nodes.
  double transfer(int rank, const CommRound::Part& part, int senders) const {
    if (!part) return 0;
    const Machine& machine = fabric_.machine;
    double gbps = machine.node.bandwidth_gbps;
    if (!is_near(rank, part.peer)) {
      gbps = machine.network.bandwidth_gbps;
      if (machine.node_gbps) gbps = std::min(gbps, *machine.node_gbps / std::max(1, senders * fabric_.at_a_time));
    }
    return static_cast<double>(part.count) * wire_bytes_ * 1e-9 / gbps;
  }
  double adding(const CommRound::Part& part) const {
    return part && !part.final ? static_cast<double>(part.count) * element_bytes_ * 1e-9 / fabric_.machine.reduce_gbps
                               : 0;
  }

 private:
  const Fabric& fabric_;
  double element_bytes_, wire_bytes_;
};

/// Whether each rank sends and receives in every step, and all ranks have the same number of steps.
bool is_symmetric(const std::vector<CommSchedule>& some) {
  return std::ranges::all_of(some, [&](const CommSchedule& schedule) {
    return schedule.size() == some.front().size() && std::ranges::all_of(schedule, [](const CommRound& step) {
             return step.send.peer >= 0 && step.receive.peer >= 0;
           });
  });
}

/// Ranks of the first node, and some other ranks.
std::vector<int> sample(const Fabric& fabric) {
  std::set<int> ranks{fabric.ranks / 2, fabric.ranks - 1};
  for (int rank = 0; rank < std::min(fabric.per_node, fabric.ranks); ++rank) ranks.insert(rank);
  return {ranks.begin(), ranks.end()};
}

/// Adds up rounds, each of which takes as long as the slowest of some ranks.
ExchangeCost by_rounds(const std::vector<int>& ranks, const std::vector<CommSchedule>& schedules, const Costs& costs) {
  ExchangeCost time{.rounds = static_cast<std::int64_t>(schedules.front().size())};
  for (std::size_t step = 0; step < schedules.front().size(); ++step) {
    int senders = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      senders += costs.node_of(ranks[i]) == 0 && !costs.is_near(ranks[i], schedules[i][step].send.peer) ? 1 : 0;
    double slowest = 0, adding = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const CommRound& now = schedules[i][step];
      // The peer that sends to this rank sends as much as this rank receives.
      const double received = now.receive ? costs.latency(ranks[i], now.receive.peer) +
                                                costs.transfer(ranks[i], now.receive, senders)
                                          : 0;
      const double added = costs.adding(now.receive);
      slowest = std::max(slowest, std::max(costs.transfer(ranks[i], now.send, senders), received) + added);
      adding = std::max(adding, added);
    }
    time.seconds += slowest;
    time.adding += adding;
  }
  return time;
}

/// Follows all ranks, each of which goes on as soon as it has what it waits for.
class EveryRank {
 public:
  EveryRank(Scheduler schedule, const Fabric& fabric, std::int64_t count, const Costs& costs)
      : costs_(costs), size_(fabric.ranks), ranks_(static_cast<std::size_t>(fabric.ranks)) {
    for (int rank = 0; rank < size_; ++rank) at(rank).schedule = schedule(rank, size_, count);
    count_senders(fabric);
  }

  ExchangeCost run() {
    std::vector<int> ready;
    for (int rank = 0; rank < size_; ++rank) ready.push_back(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      while (go_on(rank, ready)) {
      }
    }
    ExchangeCost cost;
    for (const Rank& rank : ranks_)
      cost = {.seconds = std::max(cost.seconds, rank.now),
              .adding = std::max(cost.adding, rank.adding),
              .rounds = std::max(cost.rounds, static_cast<std::int64_t>(rank.schedule.size()))};
    return cost;
  }

 private:
  struct Rank {
    CommSchedule schedule;
    std::size_t step = 0;
    bool has_sent = false;
    double now = 0, adding = 0;  ///< end of its last step, and the seconds in which it has added
    std::unordered_map<int, std::deque<double>> arrivals;  ///< times of messages from each rank
  };
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Does a step of a rank if it can be done. `ready` receives ranks that may have waited for it.
  bool go_on(int rank, std::vector<int>& ready) {
    Rank& mine = at(rank);
    if (mine.step == mine.schedule.size()) return false;
    const CommRound& step = mine.schedule[mine.step];
    const double on_the_wire = costs_.transfer(rank, step.send, senders(rank, mine.step));
    if (step.send && !mine.has_sent) {
      at(step.send.peer).arrivals[rank].push_back(mine.now + on_the_wire + costs_.latency(rank, step.send.peer));
      ready.push_back(step.send.peer);
      mine.has_sent = true;
    }
    double end = mine.now + on_the_wire;
    if (step.receive) {
      std::deque<double>& arrivals = mine.arrivals[step.receive.peer];
      if (arrivals.empty()) return false;
      const double added = costs_.adding(step.receive);
      end = std::max(end, arrivals.front()) + added;
      mine.adding += added;
      arrivals.pop_front();
    }
    mine.now = end;
    ++mine.step;
    mine.has_sent = false;
    return true;
  }

  /// Counts, for each node and step number, the ranks that send to other nodes.
  void count_senders(const Fabric& fabric) {
    senders_.resize(static_cast<std::size_t>((size_ + fabric.per_node - 1) / fabric.per_node));
    for (int rank = 0; rank < size_; ++rank) {
      const CommSchedule& schedule = at(rank).schedule;
      std::vector<int>& node = senders_[static_cast<std::size_t>(costs_.node_of(rank))];
      node.resize(std::max(node.size(), schedule.size()));
      for (std::size_t step = 0; step < schedule.size(); ++step)
        if (const CommRound::Part& send = schedule[step].send; send && !costs_.is_near(rank, send.peer)) ++node[step];
    }
  }
  int senders(int rank, std::size_t step) const {
    return senders_[static_cast<std::size_t>(costs_.node_of(rank))][step];
  }

  const Costs& costs_;
  int size_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> senders_;  // by node and step
};

/// Seconds and rounds of the exchange, without bytes and messages.
ExchangeCost times_of(Scheduler schedule, const Fabric& fabric, std::int64_t count, double element_bytes,
                      double wire_bytes) {
  const Costs costs(fabric, element_bytes, wire_bytes);
  const std::vector<int> ranks = sample(fabric);
  std::vector<CommSchedule> schedules;
  for (const int rank : ranks) schedules.push_back(schedule(rank, fabric.ranks, count));
  if (is_symmetric(schedules)) return by_rounds(ranks, schedules, costs);
  // If there are too many steps to go through, messages follow each other in segments, so that time grows in proportion
  // to what is added to the count.
  constexpr std::int64_t most_steps = 200'000, few_elements = 1 << 18;
  const auto steps_of = [&](std::int64_t n) {
    return fabric.ranks * static_cast<std::int64_t>(schedule(fabric.ranks > 1 ? 1 : 0, fabric.ranks, n).size());
  };
  std::int64_t less = count;
  while (steps_of(less) > most_steps && less > few_elements) less /= 2;
  const ExchangeCost time = EveryRank(schedule, fabric, less, costs).run();
  if (less == count) return time;
  const ExchangeCost half = EveryRank(schedule, fabric, less / 2, costs).run();
  const double more = static_cast<double>(count - less) / static_cast<double>(less - less / 2);
  return {.seconds = time.seconds + more * (time.seconds - half.seconds),
          .adding = time.adding + more * (time.adding - half.adding),
          .rounds = time.rounds + std::llround(more * static_cast<double>(time.rounds - half.rounds))};
}

/// Stages of a sum in a node's memory (node_all_reduce.cpp), after each of which ranks wait for each other.
constexpr std::int64_t stages = 3;

constexpr Scheduler Algorithm::* schedulers[] = {&Algorithm::all_reduce, &Algorithm::reduce_scatter,
                                                 &Algorithm::all_gather};

Scheduler scheduler(Operation operation, const Algorithm& algorithm) {
  return algorithm.*schedulers[static_cast<std::size_t>(operation)];
}

}  // namespace

ExchangeCost replay(Scheduler schedule, const Fabric& fabric, std::int64_t count, double element_bytes,
                    double wire_bytes) {
  ExchangeCost cost = times_of(schedule, fabric, count, element_bytes, wire_bytes);
  constexpr int most = 64;  // ranks whose messages are counted
  const int some = std::min(fabric.ranks, most);
  for (int i = 0; i < some; ++i)
    for (const CommRound& step :
         schedule(static_cast<int>(std::int64_t{i} * fabric.ranks / some), fabric.ranks, count)) {
      if (!step.send) continue;
      cost.bytes += static_cast<double>(step.send.count) * wire_bytes / some;
      cost.messages += 1.0 / some;
    }
  return cost;
}

Sums::Sums(const Machine& machine, int ranks, const ParallelConfig& config, bool shares)
    : machine_(machine), ranks_(ranks), config_(config), shares_(shares) {}

int Sums::per_node() const { return static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, ranks_)); }

ExchangeCost Sums::of(Operation operation, std::int64_t count, double element_bytes, double wire_bytes) {
  if (ranks_ == 1 || count == 0) return {};
  const auto [found, is_new] = known_.try_emplace({operation, count, wire_bytes});
  if (!is_new) return found->second;
  const Algorithm* const algorithm = config_.sums.all_reduce;
  const bool in_memory = sums_in_node_memory(algorithm) && (shares_ || operation == Operation::all_reduce);
  // Schedules of MPI and NCCL are unknown; they are assumed to be as fast as the fastest algorithm here.
  found->second = in_memory
                      ? in_nodes(operation, count, element_bytes, wire_bytes)
                      : by_messages(operation, algorithm && scheduler(operation, *algorithm) ? algorithm : nullptr,
                                    {machine_, ranks_, per_node()}, count, element_bytes, wire_bytes);
  return found->second;
}

ExchangeCost Sums::ordered(double bytes) {
  if (ranks_ == 1) return {};
  if (one_node()) return barrier();
  const auto [found, is_new] = known_ordered_.try_emplace(bytes);
  if (is_new) found->second = replay(ordered_all_reduce, {machine_, ranks_, per_node()}, 1, bytes, bytes);
  return found->second;
}

/// As in node_all_reduce.hpp: a sum reads each rank's elements once and writes as many; a divided sum writes only each
/// rank's part; gathered elements are in place already.
ExchangeCost Sums::in_nodes(Operation operation, std::int64_t count, double element_bytes, double wire_bytes) const {
  ExchangeCost cost = barrier();
  if (operation != Operation::all_gather) {
    const double moved = operation == Operation::all_reduce ? 1 : 0.5 + 0.5 / per_node();
    cost.adding = moved * static_cast<double>(count) * element_bytes * 1e-9 / machine_.sum.bandwidth_gbps;
    cost.seconds += cost.adding;
    cost.rounds = stages;
  }
  if (one_node()) return cost;
  const auto nodes = static_cast<int>(machine_.nodes_of(ranks_));
  const auto in_the_last = static_cast<int>(ranks_ - (nodes - 1) * machine_.ranks_per_node);
  const int leaders = leaders_of(config_.sums.leaders, in_the_last);
  ExchangeCost between = by_messages(operation, config_.sums.between_nodes, {machine_, nodes, 1, leaders},
                                     (count + leaders - 1) / leaders, element_bytes, wire_bytes);
  const double of_ranks = static_cast<double>(nodes * leaders) / ranks_;
  between.bytes *= of_ranks, between.messages *= of_ranks;
  return cost + between;
}

ExchangeCost Sums::between_groups(const Fabric& fabric, std::int64_t count, double element_bytes,
                                  double wire_bytes) const {
  if (fabric.ranks == 1 || count == 0) return {};
  const Algorithm* const algorithm = sums_in_node_memory(config_.sums.all_reduce) ? config_.sums.between_nodes
                                                                                  : config_.sums.all_reduce;
  const auto [found, is_new] = known_between_.try_emplace({fabric.ranks, count, wire_bytes});
  if (is_new)
    found->second = by_messages(Operation::all_reduce, algorithm && algorithm->all_reduce ? algorithm : nullptr, fabric,
                                count, element_bytes, wire_bytes);
  return found->second;
}

ExchangeCost Sums::by_messages(Operation operation, const Algorithm* algorithm, const Fabric& fabric,
                               std::int64_t count, double element_bytes, double wire_bytes) const {
  if (!algorithm) {
    const auto rows = fastest_by_messages(fabric.ranks);
    algorithm = std::ranges::lower_bound(rows, static_cast<std::int64_t>(static_cast<double>(count) * element_bytes),
                                         {}, &AllReduceRow::up_to)
                    ->algorithm;
  }
  return replay(scheduler(operation, *algorithm), fabric, count, element_bytes, wire_bytes);
}

}  // namespace lockstep
