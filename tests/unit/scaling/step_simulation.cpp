// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "step_simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <random>

#include "comm/collective/all_reduce_table.hpp"

namespace lockstep::test {
namespace {

using Overlap = GradientSumConfig::Overlap;

class Step {
 public:
  Step(const SimulatedWork& work, const SimulatedCase& what, unsigned seed)
      : work_(work),
        what_(what),
        machine_(what.machine),
        per_node_(static_cast<int>(std::min<std::int64_t>(machine_.ranks_per_node, what.ranks))),
        nodes_(static_cast<int>(machine_.nodes_of(what.ranks))),
        ranks_(static_cast<std::size_t>(what.ranks)),
        port_free_(static_cast<std::size_t>(nodes_)),
        given_(static_cast<std::size_t>(nodes_)),
        summed_(static_cast<std::size_t>(nodes_)) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (Rank& rank : ranks_) rank.slow = noise_quantile(machine_.noise, uniform(random));
    leaders_ = nodes_ == 1 ? 0 : leaders_of({}, what.ranks - (nodes_ - 1) * per_node_);
  }

  double run() {
    for (int rank = 0; rank < what_.ranks; ++rank) schedule_bucket(rank, 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      switch (event.kind) {
        case Kind::bucket: begin_bucket(event.rank, event.time); break;
        case Kind::step: begin_step(event.rank, event.time); break;
        case Kind::arrival: arrive(event.rank, event.peer, event.time); break;
      }
    }
    double end = 0;
    for (const Rank& rank : ranks_) {
      EXPECT_TRUE(rank.done) << "a rank waits for ever";
      end = std::max(end, std::max(rank.now, rank.slow * (work_.forward + backward()) + rank.delay));
    }
    return end;
  }

 private:
  enum class Kind { bucket, step, arrival };
  struct Event {
    double time;
    int rank, peer;
    Kind kind;
    bool operator>(const Event& other) const { return time > other.time; }
  };
  struct Rank {
    double slow = 1, delay = 0, now = 0, begun = 0, sent = 0;
    std::size_t bucket = 0, step = 0;
    CommSchedule schedule;
    std::vector<std::pair<int, double>> inbox;  ///< messages that have arrived: their sender, and the time
    bool waits = false, done = false;
  };
  /// Number of ranks of a node that have come to a point, and the time of the last one.
  struct Sync {
    int ranks = 0;
    double last = 0;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  int node_of(int rank) const { return rank / per_node_; }
  double backward() const {
    double seconds = 0;
    for (const double layer : work_.layers) seconds += layer;
    return seconds;
  }
  bool is_hierarchical() const { return what_.algorithm == nullptr; }

  /// The time at which this rank has computed all layers that the bucket needs.
  double final_at(const Rank& rank, std::size_t bucket) const {
    double seconds = work_.forward;
    const bool at_the_end = what_.overlap == Overlap::none && bucket + 1 == work_.counts.size();
    for (std::size_t layer = 0; layer < work_.layers.size(); ++layer) {
      seconds += work_.layers[layer];
      if (!at_the_end && work_.bucket[layer] > bucket) break;
    }
    return rank.slow * seconds + rank.delay;
  }
  /// The time at which the rank notices an event of `time`: with overlap "poll", hosts look only between layers.
  double seen_at(const Rank& rank, double time) const {
    if (what_.overlap != Overlap::poll || machine_.has_devices()) return time;
    double look = work_.forward;
    for (const double layer : work_.layers) {
      look += layer;
      if (rank.slow * look + rank.delay >= time) return rank.slow * look + rank.delay;
    }
    return time;
  }
  double copied(std::size_t bucket) const {
    return machine_.has_devices() ? 4e-9 * static_cast<double>(work_.counts[bucket]) / *machine_.host_copy_gbps : 0;
  }

  void schedule_bucket(int number, double time) {
    Rank& rank = at(number);
    const double begin = std::max(time, final_at(rank, rank.bucket)) + copied(rank.bucket);
    events_.push({begin, number, -1, Kind::bucket});
  }

  void begin_bucket(int number, double time) {
    Rank& rank = at(number);
    rank.begun = time - copied(rank.bucket);
    rank.now = time;
    rank.step = 0;
    if (!is_hierarchical()) {
      rank.schedule = what_.algorithm->all_reduce(number, what_.ranks, work_.counts[rank.bucket]);
      return begin_step(number, time);
    }
    Sync& sync = given_[static_cast<std::size_t>(node_of(number))];
    sync.last = std::max(sync.last, time);
    const int first = node_of(number) * per_node_, end = std::min(first + per_node_, what_.ranks);
    if (++sync.ranks < end - first) return;
    const double adding = 4e-9 * static_cast<double>(work_.counts[rank.bucket]) / machine_.sum.bandwidth_gbps;
    const double added = sync.last + 1e-6 * machine_.sum.latency_us + adding;
    sync = {};
    for (int other = first; other < end; ++other) {
      at(other).now = seen_at(at(other), added);
      take_core(at(other), adding);
      if (leaders_ == 0) end_bucket(other, at(other).now);
      else if (other - first < leaders_) {
        Rank& leader = at(other);
        const ElementRange share = slice_of_rank(work_.counts[leader.bucket], other - first, leaders_);
        const auto rows = fastest_by_messages(nodes_);
        const auto row = std::ranges::lower_bound(rows, 4 * share.count, {}, &AllReduceRow::up_to);
        leader.schedule = row->algorithm->all_reduce(node_of(other), nodes_, share.count);
        for (lockstep::CommRound& step : leader.schedule)
          for (lockstep::CommRound::Part* part : {&step.send, &step.receive})
            if (part->peer >= 0) part->peer = part->peer * per_node_ + other - first;
        events_.push({leader.now, other, -1, Kind::step});
      }
    }
  }

  void begin_step(int number, double time) {
    Rank& rank = at(number);
    rank.now = time;
    if (rank.step == rank.schedule.size()) return end_messages(number);
    const lockstep::CommRound& step = rank.schedule[rank.step];
    rank.sent = time;
    if (step.send) {
      const double size = 4 * static_cast<double>(step.send.count);
      const bool near = node_of(number) == node_of(step.send.peer);
      const LinkSpeed& link = near ? machine_.node : machine_.network;
      rank.sent = time + size * 1e-9 / link.bandwidth_gbps;
      if (!near && machine_.node_gbps) {
        double& port = port_free_[static_cast<std::size_t>(node_of(number))];
        port = std::max(port, time) + size * 1e-9 / *machine_.node_gbps;
        rank.sent = std::max(rank.sent, port);
      }
      events_.push({rank.sent + 1e-6 * link.latency_us, step.send.peer, number, Kind::arrival});
    }
    rank.waits = true;
    go_on(number);
  }

  void arrive(int number, int peer, double time) {
    at(number).inbox.emplace_back(peer, time);
    if (at(number).waits) go_on(number);
  }

  void go_on(int number) {
    Rank& rank = at(number);
    const lockstep::CommRound& step = rank.schedule[rank.step];
    double end = rank.sent;
    double adding = 0;
    if (step.receive) {
      const auto message = std::ranges::find(rank.inbox, step.receive.peer, &std::pair<int, double>::first);
      if (message == rank.inbox.end()) return;
      end = std::max(end, message->second);
      rank.inbox.erase(message);
      if (!step.receive.final) adding = 4e-9 * static_cast<double>(step.receive.count) / machine_.reduce_gbps;
    }
    rank.waits = false;
    end = seen_at(rank, end) + adding;
    take_core(rank, adding);
    ++rank.step;
    events_.push({end, number, -1, Kind::step});
  }

  /// Additions beside the backward pass of a host delay that pass.
  void take_core(Rank& rank, double seconds) {
    if (what_.overlap == Overlap::none || machine_.has_devices()) return;
    if (rank.now < rank.slow * (work_.forward + backward()) + rank.delay) rank.delay += seconds;
  }

  void end_messages(int number) {
    if (!is_hierarchical()) return end_bucket(number, at(number).now);
    Sync& sync = summed_[static_cast<std::size_t>(node_of(number))];
    sync.last = std::max(sync.last, at(number).now);
    if (++sync.ranks < leaders_) return;
    const double last = sync.last;
    sync = {};
    const int first = node_of(number) * per_node_;
    for (int other = first; other < std::min(first + per_node_, what_.ranks); ++other)
      end_bucket(other, seen_at(at(other), last));
  }

  void end_bucket(int number, double time) {
    Rank& rank = at(number);
    rank.now = time + copied(rank.bucket);
    const bool is_last = rank.bucket + 1 == work_.counts.size();
    if (what_.overlap == Overlap::none && !is_last) rank.delay += rank.now - rank.begun;
    ++rank.bucket;
    if (is_last) rank.done = true;
    else schedule_bucket(number, rank.now);
  }

  const SimulatedWork& work_;
  const SimulatedCase& what_;
  const Machine& machine_;
  int per_node_, nodes_, leaders_ = 0;
  std::vector<Rank> ranks_;
  std::vector<double> port_free_;
  std::vector<Sync> given_, summed_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

double noise_quantile(std::span<const NoisePoint> noise, double share) {
  if (noise.empty()) return 1;
  const auto above = std::ranges::lower_bound(noise, share, {}, &NoisePoint::share);
  if (above == noise.begin()) return noise.front().factor;
  if (above == noise.end()) return noise.back().factor;
  const NoisePoint &a = *(above - 1), &b = *above;
  return a.factor + (b.factor - a.factor) * (share - a.share) / (b.share - a.share);
}

double simulated_step(const SimulatedWork& work, const SimulatedCase& what, int steps) {
  double seconds = 0;
  for (int step = 0; step < steps; ++step) seconds += Step(work, what, static_cast<unsigned>(step + 1)).run();
  return seconds / steps;
}

}  // namespace lockstep::test
